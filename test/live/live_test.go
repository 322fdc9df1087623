package live

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The commands as they are shipped, built once.
var witness, engine, probe string

func TestMain(m *testing.M) {
	if dir := os.Getenv(asHostile); dir != "" {
		os.Exit(beHostile(dir))
	}
	os.Exit(withCommands(m))
}

func withCommands(m *testing.M) int {
	dir, err := os.MkdirTemp("", "kvl-bin")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	for command, at := range map[string]*string{"kvwitness": &witness, "kvengine": &engine, "kvwitness-probe": &probe} {
		if *at, err = Build(context.Background(), "../..", dir, command); err != nil {
			panic(err)
		}
	}
	return m.Run()
}

func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := ShortDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func sidecar(t testing.TB, engines string, args ...string) *Sidecar {
	t.Helper()
	s, err := StartSidecar(witness, engines, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	return s
}

func (e *Exercise) begin(t testing.TB, drilled bool) (*Cluster, *Sidecar) {
	t.Helper()
	c, err := e.Start(t.Context(), shortDir(t), drilled)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c, sidecar(t, c.Engines(), Unhurried...)
}

// Promise: each drill, committed by a running engine, gives the findings that are
// listed for it, and no other.
func TestEachDrillIsFoundWhileItHappens(t *testing.T) {
	for i := range Exercises {
		e := &Exercises[i]
		t.Run(e.Drill.String(), func(t *testing.T) {
			c, s := e.begin(t, true)
			if _, err := e.Play(c, 1); err != nil {
				t.Fatal(err)
			}
			all, err := s.Rest(0)
			if err != nil {
				t.Fatal(err)
			}
			if want := slices.Sorted(slices.Values(e.Expected())); !slices.Equal(Kinds(all), want) {
				t.Errorf("findings %v, want %v", Kinds(all), want)
				for _, f := range all {
					t.Logf("%+v", f)
				}
			}
		})
	}
}

// Promise: the demo ends with status 0, its table says what it should, and it leaves
// nothing behind. Watched from outside, normal traffic is clean and a lying engine is
// found out; by claims alone both are unwitnessed, and it says what would change that.
func TestTheDemoShowsWhatItShould(t *testing.T) {
	for flag, said := range map[string][]string{
		"--claims-only=false": {"clean", "claim_mismatch short_handoff stale_read", "seen from outside the engines to be clean"},
		"--claims-only":       {"unwitnessed", "nothing outside the engine was watched", "sudo kvwitness demo"},
	} {
		dir := shortDir(t)
		demo := exec.CommandContext(t.Context(), witness, "demo", flag, "--kvengine", engine)
		demo.Env = append(os.Environ(), "TMPDIR="+dir)
		out, err := demo.CombinedOutput()
		if err != nil {
			t.Fatalf("demo %s: %v\n%s", flag, err, out)
		}
		said = append(said, "drill rejected-handoff", "YES", "rejected_handoff short_handoff stale_read", "violated", "400", "drill lying-engine", "An ordinary dashboard")
		for _, says := range said {
			if !strings.Contains(string(out), says) {
				t.Errorf("demo %s does not say %q:\n%s", flag, says, out)
			}
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("it leaves %v, %v", left, err)
		}
	}
}

// Promise: a demo that is killed takes what it started along.
func TestAKilledDemoLeavesNothingRunning(t *testing.T) {
	demo := exec.CommandContext(t.Context(), witness, "demo", "--json", "--keep", "--kvengine", engine)
	demo.Env = append(os.Environ(), "TMPDIR="+shortDir(t))
	var rows bytes.Buffer
	demo.Stdout = &rows
	notes, err := demo.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := demo.Start(); err != nil {
		t.Fatal(err)
	}
	var urls []string
	for in := bufio.NewScanner(notes); len(urls) < 4 && in.Scan(); {
		if _, rest, ok := strings.Cut(in.Text(), "http://"); ok {
			address, _, _ := strings.Cut(rest, "/")
			urls = append(urls, address)
		}
	}
	_ = demo.Process.Kill()
	_ = demo.Wait()
	if len(urls) != 4 || strings.Count(rows.String(), `"wrong":null`) != 5 {
		t.Fatalf("addresses %v of what is left running, rows\n%s", urls, rows.String())
	}
	err = Await("nobody listens any more", func() bool {
		return !slices.ContainsFunc(urls, func(address string) bool {
			c, err := net.Dial("tcp", address)
			if err == nil {
				c.Close()
			}
			return err == nil
		})
	})
	if err != nil {
		t.Error(err)
	}
}
