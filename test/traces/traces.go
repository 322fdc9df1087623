// Package traces holds the small traces against which every judge of facts is
// held: each public report that a trace can show, the smallest break of each
// rule with the near misses that must stay silent, and the fourteen hard cases.
// Beside each NAME.jsonl lies NAME.expect.json, written by hand from the rules;
// README.md says what happens in each.
//
// The package reads them for tests (the ledger, the oracle, the command line,
// the mutations) and says where a judge differs. It imports engine/lifecycle
// and sidecar/finding, no rule. It promises that [All] returns every trace with
// its expectation, in the order of their names.
package traces

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

//go:embed *.jsonl *.expect.json
var files embed.FS

const (
	traceEnd  = ".jsonl"
	expectEnd = ".expect.json"
)

// Case is one trace and what a judge must say of it.
type Case struct {
	Name   string // of the file, without its end
	Source []byte // the trace file as it is; not to be changed
	Expect Expect
}

// Expect is what a judge must say of a trace: the findings by time, and at one
// time by strength, and one verdict for each request and receiver.
type Expect struct {
	Exit     int       `json:"exit"` // of kvwitness replay: 0 no finding, 3 some
	Findings []Finding `json:"findings"`
	Verdicts []Verdict `json:"verdicts"`
}

// All returns every trace, sorted by name.
func All() ([]Case, error) {
	names, err := fs.Glob(files, "*"+traceEnd)
	if err != nil {
		return nil, fmt.Errorf("listing the traces: %w", err)
	}
	slices.Sort(names)
	cases := make([]Case, 0, len(names))
	for _, name := range names {
		c, err := load(strings.TrimSuffix(name, traceEnd))
		if err != nil {
			return nil, err
		}
		cases = append(cases, c)
	}
	return cases, nil
}

func load(name string) (Case, error) {
	source, err := files.ReadFile(name + traceEnd)
	if err != nil {
		return Case{}, fmt.Errorf("reading the trace %s: %w", name, err)
	}
	raw, err := files.ReadFile(name + expectEnd)
	if err != nil {
		return Case{}, fmt.Errorf("reading what the trace %s must give: %w", name, err)
	}
	c := Case{Name: name, Source: source}
	if err := json.Unmarshal(raw, &c.Expect, json.RejectUnknownMembers(true)); err != nil {
		return Case{}, fmt.Errorf("reading what the trace %s must give: %w", name, err)
	}
	return c, nil
}

// Facts decodes the trace. Each call returns facts of its own, since a judge
// may keep them.
func (c *Case) Facts() ([]*lifecycle.Fact, error) {
	r := lifecycle.NewReader(bytes.NewReader(c.Source), c.Name+traceEnd)
	var facts []*lifecycle.Fact
	for {
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			return facts, nil
		}
		if err != nil {
			return nil, err
		}
		facts = append(facts, f)
	}
}
