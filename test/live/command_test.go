package live

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/sidecar/daemon"
)

// Promise: a hang-up has the sidecar read its file anew, a bad one changes nothing
// and is reported, and it ends in time when it is asked to, whoever it follows.
func TestTheCommandReadsItsFileAnewAndEndsInTime(t *testing.T) {
	file := filepath.Join(t.TempDir(), "k.yaml")
	configure := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	configure("engines: 'a=;instance=i'\n")
	p, err := Start(witness, "watching", "sidecar", "--config", file, "--listen", "127.0.0.1:0", "--events-dir", shortDir(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	s := &Sidecar{p}
	hangUp := func(text, says string) {
		t.Helper()
		configure(text)
		if err := p.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		if err := Await(says, func() bool {
			body, err := s.Body("/metrics")
			return err == nil && strings.Contains(string(body), says)
		}); err != nil {
			t.Fatalf("%v: %s", err, p.Notes())
		}
	}
	hangUp("engines: 'a=;instance=i,b=;instance=j'\n", `kvwitness_facts_seen_total{engine="b"}`)
	hangUp("engines: [\n", "kvwitness_config_last_reload_success 0")
	if body, err := s.Body("/metrics"); err != nil || !strings.Contains(string(body), `engine="b"`) || !strings.Contains(p.Notes(), "the old one stays in force") {
		t.Errorf("a bad file changes something, or is not reported: %v: %s", err, p.Notes())
	}
	hangUp("engines: 'a=;instance=i'\nshadow: true\n", "kvwitness_shadow 1")
	if took, err := p.Stop(); err != nil || took > daemon.EndTimeout {
		t.Errorf("it took %s to end: %v", took.Round(time.Millisecond), err)
	}
}
