package traces_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/ledger"
	"github.com/kvwitness/kvwitness/test/oracle"
	"github.com/kvwitness/kvwitness/test/traces"
)

// all reads the traces of this folder.
func all(t *testing.T) []traces.Case {
	t.Helper()
	files, err := filepath.Glob("*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d traces found, %v", len(files), err)
	}
	cases := make([]traces.Case, 0, len(files))
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c := traces.Case{Name: strings.TrimSuffix(file, ".jsonl"), Source: source}
		raw, err := os.ReadFile(c.Name + ".expect.json")
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, &c.Expect, json.RejectUnknownMembers(true)); err != nil {
			t.Fatalf("%s.expect.json: %v", c.Name, err)
		}
		cases = append(cases, c)
	}
	return cases
}

func facts(t *testing.T, c *traces.Case) []*lifecycle.Fact {
	t.Helper()
	facts, err := c.Facts()
	if err != nil {
		t.Fatal(err)
	}
	return facts
}

func TestLedgerGivesWhatEachMissingTraceExpectsAndNothingElse(t *testing.T) {
	for _, c := range all(t) {
		t.Run(c.Name, func(t *testing.T) {
			l := ledger.New(ledger.Config{HoldVerdicts: true})
			var found []finding.Finding
			for _, f := range facts(t, &c) {
				found = append(found, l.Step(f)...)
			}
			found = append(found, l.Close()...)
			if diff := c.Expect.Diff(traces.OfFindings(found), traces.OfVerdicts(l.Verdicts())); diff != "" {
				t.Errorf("expected (-), given (+):\n%s", diff)
			}
		})
	}
}

// beyondTheOracle are traces that it reads otherwise than DESIGN has it: it
// gives no verdict to a receiver that is one by the completion alone.
var beyondTheOracle = []string{"mutant-03-told-by-the-completion"}

// The oracle keeps the expectations honest: they are held by somebody who has
// not seen the ledger.
func TestOracleGivesWhatEachMissingTraceExpectsAndNothingElse(t *testing.T) {
	for _, c := range all(t) {
		if slices.Contains(beyondTheOracle, c.Name) {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			found, given := oracle.Judge(facts(t, &c), oracle.Config{})
			if diff := c.Expect.Diff(traces.OfFindings(found), traces.OfVerdicts(given)); diff != "" {
				t.Errorf("expected (-), given (+):\n%s", diff)
			}
		})
	}
}

// The rows are those of test/traces/README.md, so that a trace can move there.
func TestReadmeHasARowForEachMissingTraceAndNoOther(t *testing.T) {
	raw, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Count(string(raw), "\n| `mutant-")
	for _, c := range all(t) {
		if !strings.Contains(string(raw), "\n| `"+c.Name+"` |  | ") {
			t.Errorf("README.md has no row for %s", c.Name)
		}
		rows--
	}
	if rows != 0 {
		t.Errorf("README.md has %d rows more than there are traces", rows)
	}
}
