package witness

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/ledger"
	"github.com/kvwitness/kvwitness/sidecar/probe"
	"github.com/kvwitness/kvwitness/sidecar/source/proven"
)

const patience = 60 * time.Second

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var built sync.Map

// command builds a command of this module, once a run.
func command(t testing.TB, name string) string {
	t.Helper()
	once, _ := built.LoadOrStore(name, sync.OnceValues(func() (string, error) {
		path := filepath.Join(binaries, name)
		out, err := exec.Command("go", "build", "-o", path, "../../cmd/"+name).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
		return path, nil
	}))
	path, err := once.(func() (string, error))()
	must(t, err)
	return path
}

// binaries is where commands are built.
var binaries string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "witness")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binaries = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// witness is a probe, what is made of it, and a judge. It is what a sidecar does
// with both.
type witness struct {
	t     testing.TB
	probe *probe.Child
	done  chan struct{}

	mu       sync.Mutex
	state    *proven.State
	judge    *ledger.Ledger
	facts    []lifecycle.Fact
	findings []finding.Finding
	verdicts []finding.Verdict
	problems []string
	stderr   bytes.Buffer
}

// watch starts a probe over the processes that match.
func watch(t testing.TB, known proven.Layout, match ...string) *witness {
	t.Helper()
	return watchAs(t, proven.Config{Known: func(string) proven.Layout { return known }}, match...)
}

func watchAs(t testing.TB, c proven.Config, match ...string) *witness {
	t.Helper()
	return watchWith(t, probe.StartConfig{Match: match}, c)
}

func watchWith(t testing.TB, start probe.StartConfig, c proven.Config) *witness {
	t.Helper()
	w := &witness{t: t, done: make(chan struct{}), judge: newJudge()}
	c.Node, c.Emit = "node-0", w.fact
	c.Problem = func(text string) { w.problems = append(w.problems, text) }
	w.state = proven.New(c)
	var err error
	start.Path, start.Stderr = command(t, "kvwitness-probe"), &w.stderr
	w.probe, err = probe.Start(context.Background(), start)
	if err != nil {
		t.Fatalf("%v\n%s", err, &w.stderr)
	}
	go func() {
		defer close(w.done)
		for {
			k, b, err := w.probe.Next()
			if err != nil {
				return
			}
			w.mu.Lock()
			if err := w.state.Take(k, b); err != nil {
				w.problems = append(w.problems, err.Error())
			}
			w.findings = append(w.findings, w.judge.Advance(w.state.Reached())...)
			w.verdicts = append(w.verdicts, w.judge.Verdicts()...)
			w.mu.Unlock()
		}
	}()
	t.Cleanup(w.close)
	return w
}

func newJudge() *ledger.Ledger { return ledger.New(ledger.Config{Settle: 20 * time.Millisecond}) }

func (w *witness) fact(f *lifecycle.Fact) {
	w.facts = append(w.facts, *f)
	w.findings = append(w.findings, w.judge.Step(f)...)
}

func (w *witness) close() {
	if w.probe == nil {
		return
	}
	if err := w.probe.Close(); err != nil {
		w.t.Errorf("%v\n%s", err, &w.stderr)
	}
	<-w.done
	w.probe = nil
	if w.t.Failed() {
		w.dump()
	}
}

// dump shows what was seen, for a test that failed.
func (w *witness) dump() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, f := range w.facts {
		if i > 400 {
			w.t.Logf("and %d more", len(w.facts)-i)
			break
		}
		w.t.Logf("%d %s %s %s room=%s peer=%s from=%s pages=%v addr=%#x bytes=%d of=%s complete=%v %s %s", f.T, f.Src, f.Ev, f.Inst, f.Room, f.Peer, f.From, f.Pages, f.Addr, f.Bytes, f.Of, f.Complete, f.Outcome, f.Reason)
	}
	w.t.Logf("stats %+v", w.state.Stats())
	w.t.Logf("problems %q, probe says %s", w.problems, &w.stderr)
}

// look runs f while nothing else is taken in.
func (w *witness) look(f func() bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return f()
}

func (w *witness) await(what string, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if w.look(ok) {
			return
		}
	}
	w.t.Fatalf("not within %v: %s", patience, what)
}

// count is how many facts there are like that.
func (w *witness) count(like func(f *lifecycle.Fact) bool) (n int) {
	for i := range w.facts {
		if like(&w.facts[i]) {
			n++
		}
	}
	return n
}

// over closes the judge and returns the verdict of each room.
func (w *witness) over() map[string]finding.Verdict {
	w.close()
	w.findings = append(w.findings, w.judge.Close()...)
	w.verdicts = append(w.verdicts, w.judge.Verdicts()...)
	out := map[string]finding.Verdict{}
	for _, v := range w.verdicts {
		out[v.Room] = v
	}
	return out
}

// kinds are what was found, by room.
func (w *witness) kinds() map[string][]finding.Kind {
	out := map[string][]finding.Kind{}
	for _, f := range w.findings {
		out[f.Room] = append(out[f.Room], f.Kind)
	}
	return out
}
