package traces

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// Finding is the part of a finding that an expectation fixes. Its JSON is a
// part of what kvwitness replay --json prints, so a line of that decodes into
// it; T is then its time, and is not compared but for the order.
type Finding struct {
	Kind    finding.Kind `json:"kind"`
	T       int64        `json:"t,omitzero"`
	Inst    string       `json:"inst,omitzero"`
	Req     string       `json:"req,omitzero"`
	Room    string       `json:"room,omitzero"`
	Pool    string       `json:"pool,omitzero"`
	Pages   [][2]uint32  `json:"pages,omitempty"` // runs [first, count]
	Exposed []Party      `json:"exposed,omitempty"`
}

// Party is whose data was exposed. A nil Domain is unknown, not empty.
type Party struct {
	Inst   string  `json:"inst,omitzero"`
	Req    string  `json:"req,omitzero"`
	Domain *string `json:"domain,omitempty"`
}

// Verdict is the part of a verdict that an expectation fixes.
type Verdict struct {
	Verdict string `json:"verdict"`
	Req     string `json:"req,omitzero"`
	Room    string `json:"room,omitzero"`
	Inst    string `json:"inst,omitzero"`
}

// OfFindings takes over what a judge found.
func OfFindings(found []finding.Finding) []Finding {
	out := make([]Finding, 0, len(found))
	for _, f := range found {
		g := Finding{Kind: f.Kind, T: f.T, Inst: f.Inst, Req: f.Req, Room: f.Room, Pool: f.Pool}
		for _, run := range f.Pages {
			g.Pages = append(g.Pages, [2]uint32{run.First, run.Count})
		}
		for _, p := range f.Exposed {
			party := Party{Inst: p.Inst, Req: p.Req}
			if p.Domain.Has {
				party.Domain = &p.Domain.V
			}
			g.Exposed = append(g.Exposed, party)
		}
		out = append(out, g)
	}
	return out
}

// OfVerdicts takes over what a judge decided.
func OfVerdicts(given []finding.Verdict) []Verdict {
	out := make([]Verdict, 0, len(given))
	for _, v := range given {
		out = append(out, Verdict{v.Verdict.String(), v.Req, v.Room, v.Inst})
	}
	return out
}

// String is the whole finding in one line, without its time: pages as sorted
// runs that do not touch, the exposed sorted.
func (f Finding) String() string {
	exposed := make([]string, 0, len(f.Exposed))
	for _, p := range f.Exposed {
		domain := "?"
		if p.Domain != nil {
			domain = fmt.Sprintf("%q", *p.Domain)
		}
		exposed = append(exposed, fmt.Sprintf("%s/%s/%s", p.Inst, p.Req, domain))
	}
	slices.Sort(exposed)
	return fmt.Sprintf("%s inst=%s req=%s room=%s pool=%s pages=%s exposed=[%s]",
		f.Kind, f.Inst, f.Req, f.Room, f.Pool, f.runs(), strings.Join(exposed, " "))
}

// runs are the pages as they are compared: in which order and in how many
// pieces they are named says nothing.
func (f Finding) runs() lifecycle.Runs {
	sorted := slices.SortedFunc(slices.Values(f.Pages), func(a, b [2]uint32) int { return cmp.Compare(a[0], b[0]) })
	var runs lifecycle.Runs
	for _, p := range sorted {
		if n := len(runs); n > 0 && runs[n-1].End() == p[0] {
			runs[n-1].Count += p[1]
			continue
		}
		runs = append(runs, lifecycle.Run{First: p[0], Count: p[1]})
	}
	return runs
}

func (v Verdict) String() string {
	return fmt.Sprintf("verdict %s req=%s room=%s inst=%s", v.Verdict, v.Req, v.Room, v.Inst)
}

// Diff says in lines ("- " expected, "+ " given) where a judge differs from
// the expectation; "" if nowhere. Findings are compared in the order of their
// times and then of their strength; findings of one time and kind, and
// verdicts, have no order.
func (e *Expect) Diff(found []Finding, given []Verdict) string {
	var b strings.Builder
	lines(&b, texts(e.Findings), texts(ordered(found, e.Findings)))
	lines(&b, sorted(e.Verdicts), sorted(given))
	return b.String()
}

// ordered puts the found into the order in which an expectation is written.
// What has no order of its own takes that of the expectation.
func ordered(found, want []Finding) []Finding {
	place := make(map[string]int, len(want))
	for i, f := range slices.Backward(want) {
		place[f.String()] = i
	}
	out := slices.Clone(found)
	slices.SortStableFunc(out, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(a.T, b.T),
			cmp.Compare(a.Kind.Severity(), b.Kind.Severity()), cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(place[a.String()], place[b.String()]),
		)
	})
	return out
}

func texts[T fmt.Stringer](all []T) []string {
	out := make([]string, 0, len(all))
	for _, v := range all {
		out = append(out, v.String())
	}
	return out
}

func sorted[T fmt.Stringer](all []T) []string {
	out := texts(all)
	slices.Sort(out)
	return out
}

// lines writes both lists, if they differ, less what they begin and end with
// in common.
func lines(b *strings.Builder, want, got []string) {
	for len(want) > 0 && len(got) > 0 && want[0] == got[0] {
		want, got = want[1:], got[1:]
	}
	for len(want) > 0 && len(got) > 0 && want[len(want)-1] == got[len(got)-1] {
		want, got = want[:len(want)-1], got[:len(got)-1]
	}
	for _, s := range want {
		fmt.Fprintln(b, "-", s)
	}
	for _, s := range got {
		fmt.Fprintln(b, "+", s)
	}
}
