package sim

import (
	"cmp"
	"fmt"
	"io"
	"slices"
)

// hardCase is one way to exercise one of the fourteen hard cases of DESIGN
// section 6.
type hardCase struct {
	number int
	what   string
}

// Hard counts which hard cases were exercised how often.
type Hard map[hardCase]int

// Add adds the counts of other.
func (h Hard) Add(other Hard) {
	for c, n := range other {
		h[c] += n
	}
}

// ByNumber sums the counts of each of the fourteen cases; index 0 is unused.
func (h Hard) ByNumber() (sums [15]int) {
	for c, n := range h {
		sums[c.number] += n
	}
	return sums
}

// Print writes the table: case, how it was exercised, how often.
func (h Hard) Print(w io.Writer) {
	cases := make([]hardCase, 0, len(h))
	for c := range h {
		cases = append(cases, c)
	}
	slices.SortFunc(cases, func(a, b hardCase) int {
		return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.what, b.what))
	})
	for _, c := range cases {
		fmt.Fprintf(w, "%4d  %-58s %10d\n", c.number, c.what, h[c])
	}
}

func (s *Sim) hard(number int, what string) {
	if !s.givenUp {
		s.Hard[hardCase{number, what}]++
	}
}
