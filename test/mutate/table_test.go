package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// hardCases is how many DESIGN section 6 has.
const hardCases = 14

func root(t *testing.T) string {
	t.Helper()
	dir, err := moduleRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestEveryKindAndEveryHardCaseHasAMutant(t *testing.T) {
	have := map[string]int{}
	for _, m := range mutants() {
		have[m.rule]++
	}
	var rules []string
	for k := range finding.NumKind {
		rules = append(rules, k.String())
	}
	for n := range hardCases {
		rules = append(rules, fmt.Sprintf("case-%02d", n+1))
	}
	for _, rule := range rules {
		if have[rule] == 0 {
			t.Errorf("no mutant switches %s off", rule)
		}
		delete(have, rule)
	}
	for rule := range have {
		t.Errorf("%q is neither a kind of finding nor a hard case", rule)
	}
}

// This is what keeps the table true: whoever changes the ledger where a mutant
// lies mends the mutant in the same change.
func TestEveryMutantFindsItsPlaceInTheLedgerAndStillParses(t *testing.T) {
	dir := root(t)
	for _, m := range mutants() {
		text, err := m.mutate(dir)
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), m.file, text, parser.SkipObjectResolution); err != nil {
			t.Errorf("%s: the mutated file does not parse: %v", m.name(), err)
		}
	}
}

func TestEveryMutantHasItsOwnNameAndEdit(t *testing.T) {
	names, edits := map[string]bool{}, map[string]string{}
	for _, m := range mutants() {
		if names[m.name()] {
			t.Errorf("two mutants are called %s", m.name())
		}
		names[m.name()] = true
		if m.off == "" || m.clause == "" || strings.ContainsAny(m.name(), " \t") {
			t.Errorf("%q does not say what is switched off", m.name())
		}
		edit := m.file + "\x00" + m.old + "\x00" + m.new
		if other := edits[edit]; other != "" || m.old == m.new {
			t.Errorf("%s changes what %q changes", m.name(), other)
		}
		edits[edit] = m.name()
	}
}
