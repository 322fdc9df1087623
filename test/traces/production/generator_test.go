package production_test

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/ledger"
	"github.com/kvwitness/kvwitness/test/traces/production"
)

const (
	requests  = 10_000
	incidents = 31
	seed      = 7
)

func generator(t *testing.T) *production.Generator {
	t.Helper()
	g, err := production.New(production.Config{Requests: requests, Incidents: incidents, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// judged is what the ledger says of a trace, by room.
type judged struct {
	kinds    map[string][]finding.Kind // of the findings
	violated map[string]bool
	crossed  map[string]bool // a stale read exposed another domain than the reader's
	domains  map[string]lifecycle.Opt[string]
}

func judge(g *production.Generator) judged {
	j := judged{map[string][]finding.Kind{}, map[string]bool{}, map[string]bool{}, map[string]lifecycle.Opt[string]{}}
	l := ledger.New(ledger.Config{})
	for f := g.Next(); f != nil; f = g.Next() {
		if f.Ev == lifecycle.RequestAdmitted {
			j.domains[f.Req] = f.Domain
		}
		j.note(l.Step(f), l.Verdicts())
	}
	j.note(l.Close(), l.Verdicts())
	return j
}

func (j judged) note(found []finding.Finding, given []finding.Verdict) {
	for _, f := range found {
		j.kinds[f.Room] = append(j.kinds[f.Room], f.Kind)
		for _, p := range f.Exposed {
			if f.Kind == finding.StaleRead && p.Domain != j.domains[f.Req] {
				j.crossed[f.Room] = true
			}
		}
	}
	for _, v := range given {
		if v.Verdict == finding.Violated {
			j.violated[v.Room] = true
		}
	}
}

func TestExactlyTheIncidentRequestsAreFound(t *testing.T) {
	g := generator(t)
	j := judge(g)
	want := slices.Sorted(slices.Values(g.Incidents()))
	if len(want) != incidents {
		t.Fatalf("seed %d: %d incidents were made, want %d", seed, len(want), incidents)
	}
	if got := slices.Sorted(maps.Keys(j.kinds)); !slices.Equal(got, want) {
		t.Errorf("seed %d: rooms with findings %v\nwant %v", seed, got, want)
	}
	if got := slices.Sorted(maps.Keys(j.violated)); !slices.Equal(got, want) {
		t.Errorf("seed %d: rooms violated %v\nwant %v", seed, got, want)
	}
	each := []finding.Kind{finding.StaleRead, finding.ShortHandoff, finding.RejectedHandoff, finding.RejectedHandoff, finding.RejectedHandoff}
	for room, kinds := range j.kinds {
		if slices.Sort(kinds); !slices.Equal(kinds, each) {
			t.Errorf("seed %d: room %s: %v, want %v", seed, room, kinds, each)
		}
	}
	// Pages go round: what lies in them is nearly always somebody else's.
	if len(j.crossed) < incidents*9/10 {
		t.Errorf("seed %d: %d of %d incidents exposed another tenant", seed, len(j.crossed), incidents)
	}
}

func TestOneSeedGivesOneTrace(t *testing.T) {
	var a, b bytes.Buffer
	if err := generator(t).Write(&a); err != nil {
		t.Fatal(err)
	}
	if err := generator(t).Write(&b); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Errorf("seed %d gave two traces", seed)
	}
}

// The ledger would forgive what comes in one batch or out of order; here
// nothing is to be forgiven.
func TestEachTimeComesOnceAndInOrder(t *testing.T) {
	g := generator(t)
	last, facts := int64(-1), 0
	for f := g.Next(); f != nil; f = g.Next() {
		if f.T <= last {
			t.Fatalf("seed %d: time %d after %d", seed, f.T, last)
		}
		last = f.T
		facts++
	}
	if perRequest := facts / requests; perRequest < 10 || perRequest > 12 {
		t.Errorf("seed %d: %d facts for %d requests, want 10 to 12 each", seed, facts, requests)
	}
}

func TestMoreIncidentsThanRequestsAreRefused(t *testing.T) {
	if _, err := production.New(production.Config{Requests: 1, Incidents: 2}); err == nil {
		t.Error("no error")
	}
}
