package traces_test

import (
	"slices"
	"testing"

	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/ledger"
	"github.com/kvwitness/kvwitness/test/traces"
)

// An expectation does not fix the mark, so it is asked for here: a warm-up has
// findings and wakes nobody (hard case 13).
func TestWhatIsFoundOfAWarmUpIsMarkedSynthetic(t *testing.T) {
	held, err := traces.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"case-13-synthetic", "mutant-13-synthetic-admission", "mutant-13-synthetic-transfer"} {
		i := slices.IndexFunc(held, func(c traces.Case) bool { return c.Name == name })
		if i < 0 {
			held = append(held, all(t)...)
			i = slices.IndexFunc(held, func(c traces.Case) bool { return c.Name == name })
		}
		l := ledger.New(ledger.Config{HoldVerdicts: true})
		var found []finding.Finding
		for _, f := range facts(t, &held[i]) {
			found = append(found, l.Step(f)...)
		}
		found = append(found, l.Close()...)
		given := l.Verdicts()
		if len(found) == 0 || len(given) == 0 {
			t.Errorf("%s: %d findings and %d verdicts", name, len(found), len(given))
		}
		if slices.ContainsFunc(found, func(f finding.Finding) bool { return !f.Synthetic }) {
			t.Errorf("%s: a finding would wake somebody: %+v", name, found)
		}
		if slices.ContainsFunc(given, func(v finding.Verdict) bool { return !v.Synthetic }) {
			t.Errorf("%s: a verdict is not marked: %+v", name, given)
		}
	}
}
