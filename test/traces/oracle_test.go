package traces_test

import (
	"testing"

	"github.com/kvwitness/kvwitness/test/oracle"
	"github.com/kvwitness/kvwitness/test/traces"
)

func TestOracleGivesWhatEachTraceExpectsAndNothingElse(t *testing.T) {
	for _, c := range all(t) {
		t.Run(c.Name, func(t *testing.T) {
			facts, err := c.Facts()
			if err != nil {
				t.Fatal(err)
			}
			found, given := oracle.Judge(facts, oracle.Config{})
			if diff := c.Expect.Diff(traces.OfFindings(found), traces.OfVerdicts(given)); diff != "" {
				t.Errorf("expected (-), given (+):\n%s", diff)
			}
		})
	}
}
