package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestWrongFlagsAreSaidAndRunNothing(t *testing.T) {
	for _, args := range [][]string{{"-j", "0"}, {"-run", "("}, {"stale_read"}, {"-run", "no-such-rule"}, {"-what"}} {
		var out, progress bytes.Buffer
		if status := run(t.Context(), args, &out, &progress); status != usage || progress.Len() == 0 || out.Len() > 0 {
			t.Errorf("%v: status %d, %q on stdout, %q on stderr", args, status, out.String(), progress.String())
		}
	}
}

func TestListNamesTheMutantsThatWereChosen(t *testing.T) {
	var out, progress bytes.Buffer
	if status := run(t.Context(), []string{"-list", "-run", "^wrong_block/whole$"}, &out, &progress); status != allKilled {
		t.Fatalf("status %d: %s", status, progress.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[1], "wrong_block/whole") {
		t.Errorf("got %q", lines)
	}
}

var some = []result{
	{Mutant: "stale_read/whole", Rule: "stale_read", Outcome: killed, KilledBy: "traces.TestLedger/break-stale_read", Said: "it differs"},
	{Mutant: "case-01/error", Rule: "case-01", Outcome: survived, edit: mutant{old: "the old\ntext", new: "the new text"}},
	{Mutant: "case-02/claimed", Rule: "case-02", Outcome: failed, Error: "it does not compile: a.go:1\nmore"},
}

func TestTheTableSaysWhoKilledAndWhoSurvived(t *testing.T) {
	var out bytes.Buffer
	if err := report(&out, options{verbose: true}, some); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"traces.TestLedger/break-stale_read", "SURVIVED", "ERROR it does not compile: a.go:1 more\n",
		"3 mutants: 1 killed, 1 survived, 1 errors", "    it differs\n", "  - the old\n  - text\n", "  + the new text\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}

func TestJSONIsOneObjectAMutant(t *testing.T) {
	var out bytes.Buffer
	if err := report(&out, options{json: true}, some); err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(&out)
	for _, want := range some {
		var got result
		if err := d.Decode(&got); err != nil {
			t.Fatal(err)
		}
		want.edit = mutant{}
		if got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}
