package oracle

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// expectation is what a trace of test/traces must give.
type expectation struct {
	Findings []map[string]any `json:"findings"`
	Verdicts []map[string]any `json:"verdicts"`
}

// TestHandWrittenTracesGiveWhatTheirAuthorExpects holds the oracle against the
// traces that were written by hand from the same two texts.
func TestHandWrittenTracesGiveWhatTheirAuthorExpects(t *testing.T) {
	files, err := filepath.Glob("../traces/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("find the traces: %v, %d files", err, len(files))
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl"), func(t *testing.T) {
			raw, err := os.ReadFile(strings.TrimSuffix(file, ".jsonl") + ".expect.json")
			if err != nil {
				t.Fatal(err)
			}
			var want expectation
			if err := json.Unmarshal(raw, &want); err != nil {
				t.Fatal(err)
			}
			findings, verdicts := Judge(readTrace(t, file), Config{})
			compare(t, "findings", inWords(t, findings, findingKeys), inWords(t, want.Findings, findingKeys))
			compare(t, "verdicts", inWords(t, verdicts, verdictKeys), inWords(t, want.Verdicts, verdictKeys))
		})
	}
}

var (
	findingKeys = []string{"kind", "inst", "req", "room", "pool", "pages", "exposed"}
	verdictKeys = []string{"verdict", "req", "room", "inst"}
)

// inWords writes each of a list as one line of the keys that are compared.
func inWords(t *testing.T, list any, keys []string) (lines []string) {
	t.Helper()
	raw, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	var all []map[string]any
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		line := ""
		for _, key := range keys {
			if v, is := one[key]; is && v != nil && v != "" {
				text, _ := json.Marshal(v)
				line += fmt.Sprintf("%s=%s ", key, text)
			}
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

func compare(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\ngot\n  %s\nwant\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func readTrace(t *testing.T, file string) (facts []*lifecycle.Fact) {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	r := lifecycle.NewReader(in, file)
	for {
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			return facts
		}
		if err != nil {
			t.Fatal(err)
		}
		facts = append(facts, f)
	}
}
