package oracle

import (
	"cmp"
	"slices"
)

// span is the numbers from, from+1, … to-1.
type span struct{ from, to uint64 }

// spans is a set of numbers: sorted spans that neither overlap nor touch.
type spans []span

func (s spans) with(from, to uint64) spans {
	if from >= to {
		return s
	}
	all := append(slices.Clone(s), span{from, to})
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	merged := all[:1]
	for _, next := range all[1:] {
		last := &merged[len(merged)-1]
		if next.from <= last.to {
			last.to = max(last.to, next.to)
		} else {
			merged = append(merged, next)
		}
	}
	return merged
}

// holes are the numbers from `from` to to-1 that s lacks.
func (s spans) holes(from, to uint64) (holes spans) {
	for _, x := range s {
		if x.from > from {
			holes = holes.with(from, min(x.from, to))
		}
		from = max(from, x.to)
	}
	return holes.with(from, to)
}

// without is s less the numbers from `from` to to-1.
func (s spans) without(from, to uint64) (rest spans) {
	for _, x := range s {
		rest = rest.with(x.from, min(x.to, from)).with(max(x.from, to), x.to)
	}
	return rest
}

func (s spans) covers(from, to uint64) bool { return len(s.holes(from, to)) == 0 }

func (s spans) size() (n uint64) {
	for _, x := range s {
		n += x.to - x.from
	}
	return n
}
