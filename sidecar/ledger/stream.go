package ledger

import (
	"math"
	"slices"
	"sort"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// stream follows the sequence numbers of one (instance, epoch, src).
type stream struct {
	epoch   lifecycle.Opt[uint64]
	begun   bool
	newest  uint64 // the highest number that arrived
	lowest  uint64 // the lowest
	missing ranges // below it, not arrived
	applied uint64 // the number after the highest that was applied
	started bool   // something was applied
	known   ranges // gaps that were already said

	lastAt int64 // no later number counts before this time
}

// maxEpochs bounds the epochs of one source that are told apart at a time.
const maxEpochs = 4

// stream finds the stream that a fact belongs to, or begins it.
func (i *instance) stream(f *lifecycle.Fact) *stream {
	epoch := f.Epoch
	if !epoch.Has {
		epoch = i.epoch
	}
	all := i.streams[f.Src]
	for _, s := range all {
		if s.epoch == epoch {
			return s
		}
	}
	if len(all) == maxEpochs {
		all = append(all[:0], all[1:]...)
	}
	s := &stream{epoch: epoch, lastAt: math.MinInt64}
	i.streams[f.Src] = append(all, s)
	return s
}

// arrival says what a sequence number means when it comes.
type arrival uint8

const (
	inTurn    arrival = iota
	fills             // a number that was missing, in time
	tooLate           // a number that was missing, after what followed was applied
	duplicate         // a number that came before
)

// arrive takes note of a number.
func (s *stream) arrive(seq uint64, limit int) arrival {
	switch {
	case !s.begun:
		s.begun, s.newest, s.lowest = true, seq, seq
		return inTurn
	case seq > s.newest:
		if seq > s.newest+1 {
			s.missing.add(s.newest+1, seq-1, limit)
		}
		s.newest = seq
		return inTurn
	case seq < s.lowest:
		// The first number may be any, so one below it is out of order, not
		// seen before.
		if seq+1 < s.lowest {
			s.missing.add(seq+1, s.lowest-1, limit)
		}
		s.lowest = seq
	case !s.missing.remove(seq):
		return duplicate
	}
	if s.started && seq < s.applied {
		return tooLate
	}
	return fills
}

// apply notes that a number is applied and returns the numbers before it that
// never came, unless they were said already.
func (s *stream) apply(seq uint64, limit int) (from, to uint64, gap bool) {
	if s.started && seq > s.applied {
		from, to = s.applied, seq-1
		gap = !s.known.holds(from, to)
		s.known.add(from, to, limit)
	}
	if !s.started || seq >= s.applied {
		s.applied = seq + 1
	}
	s.started = true
	return from, to, gap
}

// ranges are sorted, disjoint ranges of numbers, inclusive.
type ranges []struct{ from, to uint64 }

func (r ranges) at(n uint64) int {
	return sort.Search(len(r), func(i int) bool { return r[i].to >= n })
}

// holds reports whether every number from from to to is in one range.
func (r ranges) holds(from, to uint64) bool {
	i := r.at(from)
	return i < len(r) && r[i].from <= from && to <= r[i].to
}

// add puts a range in, joining what it touches. Beyond limit ranges the oldest
// go: a number of theirs that comes later is then taken for a duplicate, which
// costs sight that the gap already said was lost.
func (r *ranges) add(from, to uint64, limit int) {
	i := r.at(from)
	if i > 0 && (*r)[i-1].to+1 == from {
		i--
	}
	j := i
	for ; j < len(*r) && (*r)[j].from <= to+1; j++ {
		from, to = min(from, (*r)[j].from), max(to, (*r)[j].to)
	}
	*r = slices.Replace(*r, i, j, struct{ from, to uint64 }{from, to})
	if len(*r) > limit {
		*r = append((*r)[:0], (*r)[len(*r)-limit:]...)
	}
}

// remove takes one number out and reports whether it was in.
func (r *ranges) remove(n uint64) bool {
	if !r.holds(n, n) {
		return false
	}
	r.cut(n, n)
	return true
}

// cut takes the numbers from from to to out.
func (r *ranges) cut(from, to uint64) {
	i := r.at(from)
	j := i
	var edges ranges
	for ; j < len(*r) && (*r)[j].from <= to; j++ {
		if g := (*r)[j]; g.from < from {
			edges = append(edges, struct{ from, to uint64 }{g.from, from - 1})
		}
		if g := (*r)[j]; g.to > to {
			edges = append(edges, struct{ from, to uint64 }{to + 1, g.to})
		}
	}
	*r = slices.Replace(*r, i, j, edges...)
}
