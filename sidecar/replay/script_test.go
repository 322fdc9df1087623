package replay

import (
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/ledger"
)

// script is a judge that says what the test wrote down for each time, so that
// these tests hold whatever the rules are.
type script struct {
	at       map[int64][]finding.Finding
	atEnd    []finding.Finding
	verdicts []finding.Verdict
	stats    ledger.Stats

	seen   []string // "inst t" of each fact, in order
	closed bool
}

func (s *script) Step(f *lifecycle.Fact) []finding.Finding {
	s.seen = append(s.seen, fmt.Sprintf("%s %d", f.Inst, f.T))
	return s.at[f.T]
}

func (s *script) Close() []finding.Finding {
	s.closed = true
	return s.atEnd
}

func (s *script) Verdicts() []finding.Verdict {
	if !s.closed {
		return nil
	}
	v := s.verdicts
	s.verdicts = nil
	return v
}

func (s *script) Stats() ledger.Stats { return s.stats }

// fact is a line about an instance at a time.
func fact(inst string, t int64) string {
	return fmt.Sprintf(`{"t":%d,"inst":%q,"src":"engine","ev":"pool_closed","pool":"kv"}`, t, inst) + "\n"
}

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func zipped(t *testing.T, text string) string {
	t.Helper()
	var b strings.Builder
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// play runs traces, given as texts, through a script.
func play(t *testing.T, judge *script, out Output, traces ...string) (*Summary, error) {
	t.Helper()
	var names []string
	for i, text := range traces {
		names = append(names, file(t, fmt.Sprintf("%d.jsonl", i), text))
	}
	opened, err := Open(names, strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	return Run(opened, judge, out)
}

// mute is an output for tests that look elsewhere.
type mute struct{ findings, verdicts, ends int }

func (m *mute) Finding(*finding.Finding) error { m.findings++; return nil }
func (m *mute) Verdict(*finding.Verdict) error { m.verdicts++; return nil }
func (m *mute) End(*Summary) error             { m.ends++; return nil }
