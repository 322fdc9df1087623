package proven

import (
	"cmp"
	"slices"
	"sort"
)

// span is memory of an instance's pools: regions that touch are one.
type span struct{ lo, hi uint64 }

func spansOf(pools []pool) []span {
	var all []span
	for n := range pools {
		p := &pools[n]
		for _, r := range p.Regions {
			all = append(all, span{r.Base, r.Base + r.Stride*uint64(p.Pages)})
		}
	}
	return merged(all)
}

// merged are some spans in order, those that touch as one.
func merged(all []span) (out []span) {
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.lo, b.lo) })
	for _, a := range all {
		if n := len(out); n > 0 && a.lo <= out[n-1].hi {
			out[n-1].hi = max(out[n-1].hi, a.hi)
			continue
		}
		out = append(out, a)
	}
	return out
}

// holds reports whether bytes lie in the instance's pools.
func (i *instance) holds(address, bytes uint64) bool {
	whole := false
	i.within(address, bytes, func(lo, hi uint64) { whole = lo == address && hi-lo == bytes })
	return whole
}

// within calls each with the parts of some bytes that lie in the instance's pools,
// and reports whether there are any.
func (i *instance) within(address, bytes uint64, each func(lo, hi uint64)) bool {
	return within(i.spans, address, bytes, each)
}

func within(spans []span, address, bytes uint64, each func(lo, hi uint64)) bool {
	end := address + bytes
	if end < address {
		end = ^uint64(0)
	}
	first := sort.Search(len(spans), func(n int) bool { return spans[n].hi > address })
	found := false
	for _, s := range spans[first:] {
		if s.lo >= end {
			break
		}
		found = true
		each(max(s.lo, address), min(s.hi, end))
	}
	return found
}
