package live

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// outside is what a sidecar says of its view from outside.
type outside struct {
	Outside struct {
		Watching bool
		Problem  string
		Starts   uint64
		Paths    json.RawMessage
		Seen     json.RawMessage
	}
}

// probePID is the process of a sidecar's probe.
func probePID(t *testing.T, s *Sidecar) int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		text, _ := os.ReadFile(name) // it may have ended
		if strings.HasPrefix(string(text), "Name:\tkvwitness-probe\n") && strings.Contains(string(text), fmt.Sprintf("\nPPid:\t%d\n", s.Process.Process.Pid)) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Fatal("the sidecar has no probe")
	return 0
}

// Promise: a sidecar that comes after its engines sees their data once they have
// registered again, and says so as source_coverage; when its probe is killed, or hangs,
// nothing is clean and nobody is accused, and it sees again once another is there.
func TestASidecarSeesFromOutsideAndSaysWhenItDoesNot(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "hangs": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) { seesUntil(t, signal) })
	}
}

// seesUntil sends a probe the signal.
func seesUntil(t *testing.T, signal syscall.Signal) {
	k := newPair(t)
	s := sidecar(t, k.engines(), append([]string{"--watch", "exe=" + engine}, Unhurried...)...)
	var o outside
	watched := func(starts uint64) {
		t.Helper()
		if err := s.AwaitProbe(starts); err != nil {
			t.Fatal(err)
		}
	}
	await := func(what string, done func() bool) {
		t.Helper()
		if err := Await(what, done); err != nil {
			all, _ := s.Verdicts(0) // these two only to say more
			_ = s.Get("/api/v1/state", &o)
			t.Fatalf("%v: %s %s\nverdicts: %+v\n%s", err, o.Outside.Paths, o.Outside.Seen, all[max(0, len(all)-3):], s.Notes())
		}
	}
	n := 0
	ask := func() { n++; k.ask(fmt.Sprintf("%d %s", n, strings.Repeat("some text ", 20))) }
	last := func() (v Judged) {
		all, err := s.Verdicts(0)
		if err == nil && len(all) > 0 {
			v = all[len(all)-1]
		}
		return v
	}
	covered := func() bool {
		body, err := s.Body("/metrics")
		return err == nil && strings.Contains(string(body), `kvwitness_source_coverage{engine="decode",source="tcp"} 1`)
	}
	again := func() { k.proc["decode"].Kill(); k.start("decode") }

	watched(1)
	again()
	await("a clean handoff", func() bool { ask(); return last().Said.Verdict == "clean" })
	if !covered() {
		t.Error("source_coverage of tcp is not 1 though a handoff was clean")
	}
	if err := syscall.Kill(probePID(t, s), signal); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		ask() // which nobody sees
	}
	watched(2)
	before := last().ID
	await("a verdict without a view", func() bool { ask(); return last().ID > before })
	if v := last(); v.Said.Verdict != "unwitnessed" || covered() {
		t.Errorf("without a view of the registration the verdict is %+v, covered %v", v, covered())
	}
	again()
	await("a clean handoff again", func() bool { ask(); return last().Said.Verdict == "clean" })
	found, err := s.Rest(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.Said.Kind != "blind" {
			t.Errorf("accused: %+v", f)
		}
	}
}
