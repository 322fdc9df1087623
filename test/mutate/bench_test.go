package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// little is a module with a rule in the place of the ledger's, and its test.
var little = map[string]string{
	"go.mod": "module little\n\ngo 1.26\n",
	"sidecar/ledger/rule.go": `package ledger

func Twice(n int) int {
	if n < 0 {
		return 0
	}
	return 2 * n
}
`,
	"sidecar/ledger/rule_test.go": `package ledger

import "testing"

func TestTwice(t *testing.T) {
	t.Run("of-three", func(t *testing.T) {
		if Twice(3) != 6 {
			t.Error("three is not doubled")
		}
	})
}
`,
}

func littleBench(t *testing.T) *bench {
	t.Helper()
	dir := t.TempDir()
	for name, text := range little {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return &bench{root: dir, scratch: t.TempDir(), tests: []string{"./sidecar/ledger"}}
}

func TestMutantsAreKilledSurviveOrAreErrorsAndTheTreeIsNeverTouched(t *testing.T) {
	b := littleBench(t)
	if err := b.baseline(t.Context()); err != nil {
		t.Fatal(err)
	}
	edit := func(clause, old, new string) mutant {
		return mutant{rule: "rule", clause: clause, file: "rule.go", old: old, new: new}
	}
	chosen := []mutant{
		edit("killed", "2 * n", "3 * n"),
		edit("survives", "if n < 0 {", "if false {"),
		edit("broken", "return 2 * n", "return nobody"),
		edit("panics", "return 2 * n", `panic("no")`),
		edit("moved", "return 4 * n", "return n"),
		edit("twice", "return", "return 1 +"),
	}
	told := 0
	got := b.all(t.Context(), chosen, 2, func(int, result) { told++ })
	if told != len(chosen) {
		t.Errorf("%d of %d results were told", told, len(chosen))
	}
	want := []struct {
		outcome outcome
		by, err string
	}{
		{killed, "ledger.TestTwice/of-three", ""},
		{survived, "", ""},
		{failed, "", errBuild.Error()},
		{killed, "ledger.TestTwice/of-three (panic)", ""},
		{failed, "", "found 0 times"},
		{failed, "", "found 2 times"},
	}
	for i, w := range want {
		r := got[i]
		if r.Outcome != w.outcome || r.KilledBy != w.by || !strings.Contains(r.Error, w.err) {
			t.Errorf("%s: %s by %q (%s), want %s by %q (%s)", r.Mutant, r.Outcome, r.KilledBy, r.Error, w.outcome, w.by, w.err)
		}
	}
	for name, text := range little {
		if raw, err := os.ReadFile(filepath.Join(b.root, name)); err != nil || string(raw) != text {
			t.Errorf("%s was changed: %s (%v)", name, raw, err)
		}
	}
	if left, err := os.ReadDir(b.scratch); err != nil || len(left) > 0 {
		t.Errorf("the folder for mutants still holds %v (%v)", left, err)
	}
}

func TestALedgerThatFailsAnywayIsSaidBeforeAnyMutant(t *testing.T) {
	b := littleBench(t)
	rule := filepath.Join(b.root, "sidecar/ledger/rule.go")
	if err := os.WriteFile(rule, []byte("package ledger\n\nfunc Twice(n int) int { return n }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := b.baseline(t.Context()); err == nil || !strings.Contains(err.Error(), "ledger.TestTwice/of-three") {
		t.Errorf("the red test is not named: %v", err)
	}
}

func TestAMutantOfAFileThatIsGoneIsAnError(t *testing.T) {
	b := littleBench(t)
	m := mutant{rule: "rule", clause: "gone", file: "gone.go", old: "a", new: "b"}
	if _, err := m.mutate(b.root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
