package witness

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/source/proven"
)

// told reads what an engine recorded of itself.
func told(t *testing.T, name string) (facts []lifecycle.Fact) {
	t.Helper()
	f, err := os.Open(name)
	must(t, err)
	defer f.Close()
	r := lifecycle.NewReader(f, name)
	for {
		fact, err := r.Next()
		if errors.Is(err, io.EOF) {
			return facts
		}
		must(t, err)
		facts = append(facts, *fact)
	}
}

// Promise: an engine that claims pages which it did not write is believed by
// nobody who watched: the claim stands beside what was seen. What the same engine
// said truly is clean, with its own events and the wire side by side.
func TestALyingEngineIsFoundOut(t *testing.T) {
	for drill, want := range map[string]finding.Outcome{"": finding.Clean, "lying-engine": finding.Violated} {
		t.Run("drill "+drill, func(t *testing.T) {
			w := watchAs(t, proven.Config{Followed: func(string) bool { return true }}, "exe="+command(t, "kvengine"))
			dir := t.TempDir()
			record := func(name string) []string {
				return []string{"--pages", "33", "--events-dir", filepath.Join(dir, name), "--events-record", filepath.Join(dir, name+".jsonl")}
			}
			e := startWith(t, drill, record("prefill"), record("decode"))
			for range 3 {
				if status := e.complete(7*pageTokens + 10); status != http.StatusOK {
					t.Fatalf("answered %d", status)
				}
				time.Sleep(judged)
			}
			w.await("every completion", func() bool {
				return w.count(func(f *lifecycle.Fact) bool { return f.Ev == lifecycle.TransferCompleted }) == 3
			})
			for _, p := range []interface{ Signal(os.Signal) error }{e.prefill.Process, e.decode.Process} {
				must(t, p.Signal(syscall.SIGTERM))
			}
			_, _ = e.prefill.Process.Wait()
			_, _ = e.decode.Process.Wait()
			w.close()
			all := slices.Concat(w.facts, told(t, filepath.Join(dir, "prefill.jsonl")), told(t, filepath.Join(dir, "decode.jsonl")))
			slices.SortStableFunc(all, func(a, b lifecycle.Fact) int { return int(a.T - b.T) })
			judge := newJudge()
			var findings []finding.Finding
			for i := range all {
				findings = append(findings, judge.Step(&all[i])...)
			}
			findings = append(findings, judge.Close()...)
			verdicts := judge.Verdicts()
			last := verdicts[len(verdicts)-1]
			if last.Verdict != want {
				t.Errorf("the last handoff is %s (%s), want %s; found %+v", last.Verdict, last.Why, want, findings)
			}
			lied := slices.ContainsFunc(findings, func(f finding.Finding) bool {
				return f.Kind == finding.ClaimMismatch && f.Claim != "" && f.Observation != ""
			})
			if lied != (want == finding.Violated) {
				t.Errorf("found %+v", findings)
			}
		})
	}
}
