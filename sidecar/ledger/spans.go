package ledger

import "sort"

// span is a run of pages of one pool of an instance, with when it was taken or
// given back.
type span struct {
	pool  int32
	first uint32
	count uint32
	tick  uint64
	t     int64
	step  int64 // -1: not said
}

func (s *span) end() uint32 { return s.first + s.count }

// before orders spans by pool and page.
func (s *span) before(pool int32, page uint32) bool {
	return s.pool < pool || s.pool == pool && s.end() <= page
}

// spans are sorted and do not overlap; what is added last wins.
type spans []span

// at is the index of the first span that ends behind the page.
func (ss spans) at(pool int32, page uint32) int {
	return sort.Search(len(ss), func(i int) bool { return !ss[i].before(pool, page) })
}

// find returns the span that holds the page, or nil.
func (ss spans) find(pool int32, page uint32) *span {
	i := ss.at(pool, page)
	if i < len(ss) && ss[i].pool == pool && ss[i].first <= page {
		return &ss[i]
	}
	return nil
}

// add puts s in, cutting away what it overlaps.
func (ss *spans) add(s span) {
	if n := len(*ss); n == 0 || (*ss)[n-1].before(s.pool, s.first) {
		if n > 0 && joins(&(*ss)[n-1], &s) {
			(*ss)[n-1].count += s.count
			return
		}
		*ss = append(*ss, s)
		return
	}
	ss.remove(s.pool, s.first, s.count)
	i := ss.at(s.pool, s.first)
	*ss = append(*ss, span{})
	copy((*ss)[i+1:], (*ss)[i:])
	(*ss)[i] = s
}

func joins(a, b *span) bool {
	return a.pool == b.pool && a.end() == b.first && a.tick == b.tick && a.step == b.step && a.t == b.t
}

// remove takes pages out, splitting spans at the edges.
func (ss *spans) remove(pool int32, first, count uint32) {
	end := first + count
	i := ss.at(pool, first)
	if i == len(*ss) || (*ss)[i].pool != pool || (*ss)[i].first >= end {
		return
	}
	var edges [2]span
	keep := edges[:0]
	j := i
	for ; j < len(*ss) && (*ss)[j].pool == pool && (*ss)[j].first < end; j++ {
		s := (*ss)[j]
		if s.first < first {
			left := s
			left.count = first - s.first
			keep = append(keep, left)
		}
		if s.end() > end {
			right := s
			right.first, right.count = end, s.end()-end
			keep = append(keep, right)
		}
	}
	tail := append(spans(nil), (*ss)[j:]...)
	*ss = append(append((*ss)[:i], keep...), tail...)
}
