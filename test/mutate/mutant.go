package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mutant is the ledger with one rule, or one clause of a hard case, switched
// off.
type mutant struct {
	rule   string // a kind of finding, or a hard case: case-01 to case-14
	clause string
	file   string // of sidecar/ledger
	off    string // what is switched off, in words
	old    string // the text that is replaced; it must stand in the file exactly once
	new    string
}

func (m *mutant) name() string { return m.rule + "/" + m.clause }

// path is the file's path from the module's root.
func (m *mutant) path() string { return filepath.Join("sidecar", "ledger", m.file) }

// errMoved is a mutant whose place is not there any more.
var errMoved = errors.New("the ledger has changed here, mend the mutant")

// mutate returns the file's text with the edit made.
func (m *mutant) mutate(root string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(root, m.path()))
	if err != nil {
		return "", fmt.Errorf("reading the file of %s: %w", m.name(), err)
	}
	if n := strings.Count(string(raw), m.old); n != 1 {
		return "", fmt.Errorf("%s: its text is found %d times in %s: %w", m.name(), n, m.path(), errMoved)
	}
	return strings.Replace(string(raw), m.old, m.new, 1), nil
}

// mutants are all of them, those of the kinds of findings first.
func mutants() []mutant {
	var all []mutant
	for _, table := range [][]mutant{
		wholeKinds(), pageKinds, handoffKinds, instanceKinds,
		casesWritten, casesOwed, casesHanded, casesWriter, casesOrder, casesBounds, casesRead,
	} {
		all = append(all, table...)
	}
	return all
}
