package traces_test

import (
	"testing"

	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/ledger"
	"github.com/kvwitness/kvwitness/test/traces"
)

func TestLedgerGivesWhatEachTraceExpectsAndNothingElse(t *testing.T) {
	for _, c := range all(t) {
		t.Run(c.Name, func(t *testing.T) {
			facts, err := c.Facts()
			if err != nil {
				t.Fatal(err)
			}
			l := ledger.New(ledger.Config{HoldVerdicts: true})
			var found []finding.Finding
			for _, f := range facts {
				found = append(found, l.Step(f)...)
			}
			found = append(found, l.Close()...)
			if diff := c.Expect.Diff(traces.OfFindings(found), traces.OfVerdicts(l.Verdicts())); diff != "" {
				t.Errorf("expected (-), given (+):\n%s", diff)
			}
		})
	}
}
