package replay

import (
	"cmp"
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// What is kept of the findings until the end, so that those of one incident
// stand together. Beyond maxHeld they are printed as they come.
const (
	maxHeld    = 10_000 // findings
	maxRuns    = 16     // runs of pages of one finding
	maxExposed = 16     // parties exposed by one incident
)

// kept is what people are shown of a finding.
type kept struct {
	finding.Finding
	pages int // in all runs, of which only maxRuns are kept
}

// incident is the findings of one request.
type incident struct {
	name     string
	findings []kept
	exposed  []finding.Party
	unshown  int // parties beyond maxExposed, some perhaps counted twice
}

func keep(f *finding.Finding) kept {
	k := kept{*f, lifecycle.Runs(f.Pages).Pages()}
	k.Pages = slices.Clone(f.Pages[:min(len(f.Pages), maxRuns)])
	k.Exposed = nil // told to the incident
	return k
}

func (in *incident) add(f *finding.Finding) {
	in.findings = append(in.findings, keep(f))
	for _, p := range f.Exposed {
		switch {
		case slices.Contains(in.exposed, p):
		case len(in.exposed) == maxExposed:
			in.unshown++
		default:
			in.exposed = append(in.exposed, p)
		}
	}
}

// sort puts the strongest finding first: by severity, then kind, then time.
func (in *incident) sort() {
	slices.SortStableFunc(in.findings, func(a, b kept) int {
		return cmp.Or(cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.T, b.T))
	})
}

func (in *incident) strongest() *kept { return &in.findings[0] }

// span is when the first and the last finding were.
func (in *incident) span() (first, last *kept) {
	first, last = &in.findings[0], &in.findings[0]
	for i := range in.findings {
		if f := &in.findings[i]; f.T < first.T {
			first = f
		} else if f.T > last.T {
			last = f
		}
	}
	return first, last
}

// incidents are those not yet printed.
type incidents struct {
	byName map[string]*incident
	all    []*incident
	held   int // findings
}

func newIncidents() incidents { return incidents{byName: map[string]*incident{}} }

func (i *incidents) add(f *finding.Finding) {
	name := f.Incident()
	in := i.byName[name]
	if in == nil {
		in = &incident{name: name}
		i.byName[name] = in
		i.all = append(i.all, in)
	}
	in.add(f)
	i.held++
}

// take returns all incidents, the strongest first, and forgets them.
func (i *incidents) take() []*incident {
	all := i.all
	*i = newIncidents()
	for _, in := range all {
		in.sort()
	}
	slices.SortStableFunc(all, func(a, b *incident) int {
		x, y := a.strongest(), b.strongest()
		return cmp.Or(cmp.Compare(x.Severity, y.Severity), cmp.Compare(x.T, y.T))
	})
	return all
}
