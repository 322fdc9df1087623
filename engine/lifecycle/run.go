package lifecycle

import (
	"fmt"
	"strings"
)

// Run is the pages First, First+1, … First+Count-1 of a pool, written
// [first, count]. Count is at least 1 and First+Count at most [MaxPages].
type Run struct{ First, Count uint32 }

// End is the first page after the run.
func (r Run) End() uint32 { return r.First + r.Count }

// Runs is a list of runs, in the order of a request's tokens.
type Runs []Run

// Pages is how many pages the runs name, repeated ones counted again.
func (rs Runs) Pages() int {
	n := 0
	for _, r := range rs {
		n += int(r.Count)
	}
	return n
}

// Append adds one page, growing the last run where the page follows it.
func (rs Runs) Append(page uint32) Runs {
	if n := len(rs); n > 0 && rs[n-1].End() == page {
		rs[n-1].Count++
		return rs
	}
	return append(rs, Run{page, 1})
}

// String writes runs as people do: "4, 8-15".
func (rs Runs) String() string {
	var b strings.Builder
	for i, r := range rs {
		if i > 0 {
			b.WriteString(", ")
		}
		if r.Count == 1 {
			fmt.Fprintf(&b, "%d", r.First)
		} else {
			fmt.Fprintf(&b, "%d-%d", r.First, r.End()-1)
		}
	}
	return b.String()
}
