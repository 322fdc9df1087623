package witness

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/probe"
	"github.com/kvwitness/kvwitness/sidecar/source/proven"
)

// pageTokens of the engines here.
const pageTokens = 64

// judged is how long a handoff waits for its judgement, and some more.
const judged = 40 * time.Millisecond

// engines are a router, a prefill and a decode, each a process of its own, that
// tell nobody what they do.
type engines struct {
	t               testing.TB
	url             string
	p, d            map[string]string
	prefill, decode *exec.Cmd
}

// run starts a kvengine and returns what it says it serves.
func run(t testing.TB, args ...string) (*exec.Cmd, map[string]string) {
	t.Helper()
	p := exec.Command(command(t, "kvengine"), args...)
	p.Env = append(os.Environ(), "KVENGINE_LOG_FORMAT=text")
	stderr, err := p.StderrPipe()
	must(t, err)
	must(t, p.Start())
	t.Cleanup(func() { _ = p.Process.Kill(); _ = p.Wait() })
	said := make(chan map[string]string, 1)
	go func() {
		for in := bufio.NewScanner(stderr); in.Scan(); {
			if line := in.Text(); strings.Contains(line, "msg=serving") || strings.Contains(line, "msg=routing") {
				fields := map[string]string{}
				for f := range strings.FieldsSeq(line) {
					if key, value, ok := strings.Cut(f, "="); ok {
						fields[key] = strings.Trim(value, `"`)
					}
				}
				said <- fields
			}
		}
	}()
	select {
	case fields := <-said:
		return p, fields
	case <-time.After(patience):
		t.Fatalf("%v says nothing", args)
		return nil, nil
	}
}

func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	must(t, err)
	return port
}

// startEngines starts them with a drill; "" is none. The rejected-handoff needs a
// pool that is smaller than the context.
func startEngines(t testing.TB, drill string) *engines {
	t.Helper()
	pages := "9"
	if drill == "rejected-handoff" {
		pages = "5"
	}
	args := []string{"--events", "off"}
	return startWith(t, drill, append(args, "--pages", pages), append(args, "--pages", "33"))
}

func startWith(t testing.TB, drill string, prefill, decode []string) *engines {
	t.Helper()
	e := &engines{t: t}
	bootstrap := freePort(t)
	args := []string{"serve", "--port", "0", "--page-tokens", "64", "--context-tokens", "512"}
	if drill != "" {
		args = append(args, "--drill", drill)
	}
	e.prefill, e.p = run(t, slices.Concat(args, []string{"--role", "prefill", "--bootstrap-port", bootstrap}, prefill)...)
	e.decode, e.d = run(t, slices.Concat(args, []string{"--role", "decode", "--prefill", "127.0.0.1:" + bootstrap}, decode)...)
	_, r := run(t, "router", "--port", "0", "--prefill", e.p["url"], "--decode", e.d["url"])
	e.url = r["url"]
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		resp, err := http.Get(e.url + "/health")
		if err == nil {
			resp.Body.Close()
		}
		if err == nil && resp.StatusCode == http.StatusOK {
			return e
		}
		if time.Now().After(end) {
			t.Fatalf("the router is not ready: %v", err)
		}
	}
}

// complete asks for a completion of a prompt of n tokens.
func (e *engines) complete(n int) (status int) {
	e.t.Helper()
	text := make([]byte, n)
	for i := range text {
		text[i] = 'a' + byte(i*i%23)
	}
	body, err := json.Marshal(map[string]any{"prompt": string(text), "max_tokens": 3})
	must(e.t, err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url+"/v1/completions", bytes.NewReader(body))
	must(e.t, err)
	resp, err := http.DefaultClient.Do(req)
	must(e.t, err)
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// Promise: engines that tell nothing of themselves are witnessed from outside.
// Every handoff after the one that proves the path is clean while pages are
// written as they were named; one of 8 pages of which 1 was written is short,
// and no other is accused.
func TestKvenginesHandoffsAreWitnessedFromOutside(t *testing.T) {
	w := watch(t, proven.Layout{}, "exe="+command(t, "kvengine"))
	e := startEngines(t, "rejected-handoff")
	const normal = 12
	for range normal {
		if status := e.complete(4*pageTokens - 10); status != http.StatusOK {
			t.Fatalf("a prompt that fits is answered %d", status)
		}
		// A page that is handed out again and again before its handoff is judged
		// is one of which the judge remembers too little.
		time.Sleep(judged)
	}
	if status := e.complete(8*pageTokens - 30); status != http.StatusOK {
		t.Fatalf("the drill is answered %d", status)
	}
	completed := func(f *lifecycle.Fact) bool { return f.Ev == lifecycle.TransferCompleted }
	w.await("every completion", func() bool { return w.count(completed) == normal+1 })
	verdicts := w.over()
	var rooms []string
	for _, f := range w.facts {
		if f.Ev == lifecycle.TransferStarted {
			rooms = append(rooms, f.Room)
		}
	}
	if len(rooms) != normal+1 {
		t.Fatalf("%d handoffs were named, want %d", len(rooms), normal+1)
	}
	for i, room := range rooms {
		want := finding.Clean
		switch i {
		case 0:
			want = finding.Unwitnessed
		case normal:
			want = finding.Violated
		}
		if v := verdicts[room]; v.Verdict != want {
			t.Errorf("handoff %d is %s (%s), want %s", i, v.Verdict, v.Why, want)
		}
	}
	for _, f := range w.findings {
		if f.Room != rooms[normal] || f.Kind != finding.ShortHandoff || len(f.Pages) == 0 {
			t.Errorf("found %+v", f)
		}
	}
	if len(w.findings) != 1 {
		t.Errorf("%d findings: %v", len(w.findings), w.kinds())
	}
	if n := w.count(func(f *lifecycle.Fact) bool { return f.Src == lifecycle.Engine }); n != 0 {
		t.Errorf("%d facts are an engine's", n)
	}
}

// Promise: not seen is not accused. A witness that comes when engines run already
// says that it did not see the registration, and nothing else of the handoffs.
func TestALateWitnessSaysWhatItDidNotSee(t *testing.T) {
	e := startEngines(t, "rejected-handoff")
	if status := e.complete(100); status != http.StatusOK {
		t.Fatalf("answered %d", status)
	}
	w := watch(t, proven.Layout{}, "exe="+command(t, "kvengine"))
	for _, n := range []int{100, 8*pageTokens - 30, 100} {
		if status := e.complete(n); status != http.StatusOK {
			t.Fatalf("answered %d", status)
		}
	}
	w.await("the handoffs", func() bool {
		return w.count(func(f *lifecycle.Fact) bool { return f.Ev == lifecycle.TransferCompleted }) >= 2
	})
	for room, v := range w.over() {
		if v.Verdict != finding.Unwitnessed {
			t.Errorf("room %s is %s (%s)", room, v.Verdict, v.Why)
		}
	}
	if len(w.findings) > 0 {
		t.Errorf("found %v", w.findings)
	}
	if w.count(func(f *lifecycle.Fact) bool {
		return f.Ev == lifecycle.SourceCoverage && strings.Contains(f.Reason, "registration not seen")
	}) == 0 {
		t.Error("that the registration was not seen is not said")
	}
}

// Promise: engines feel nothing of a sidecar that does not read, nor of a probe
// that is killed.
func TestEnginesFeelNothingOfADeadWitness(t *testing.T) {
	var stderr bytes.Buffer
	p, err := probe.Start(context.Background(), probe.StartConfig{
		Path: command(t, probe.Command), Match: []string{"exe=" + command(t, "kvengine")}, Stderr: &stderr,
	})
	must(t, err)
	e := startEngines(t, "")
	for range 20 {
		if status := e.complete(200); status != http.StatusOK {
			t.Fatalf("unread: answered %d", status)
		}
	}
	must(t, syscall.Kill(p.PID(), syscall.SIGKILL))
	for range 20 {
		if status := e.complete(200); status != http.StatusOK {
			t.Fatalf("killed: answered %d", status)
		}
	}
	for err == nil {
		_, _, err = p.Next()
	}
	if p.Close() == nil {
		t.Error("that the probe was killed is not said")
	}
}

// Promise: a process that ends takes its pools with it, and is told as gone to
// its peers.
func TestAProcessThatEndsIsTold(t *testing.T) {
	w := watch(t, proven.Layout{}, "exe="+command(t, "kvengine"))
	e := startEngines(t, "")
	if status := e.complete(100); status != http.StatusOK {
		t.Fatalf("answered %d", status)
	}
	w.await("the pool", func() bool {
		return w.count(func(f *lifecycle.Fact) bool { return f.Ev == lifecycle.PoolOpened }) == 1
	})
	must(t, e.decode.Process.Signal(syscall.SIGKILL))
	_ = e.decode.Wait()
	w.await("that decode is gone", func() bool {
		return w.count(func(f *lifecycle.Fact) bool { return f.Ev == lifecycle.PeerGone }) == 1 &&
			w.count(func(f *lifecycle.Fact) bool { return f.Ev == lifecycle.PoolClosed }) == 1
	})
}
