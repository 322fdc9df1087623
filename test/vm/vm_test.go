package vm

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Promise: under unmodified perftest, over real verbs and on a 6.1 kernel, the
// probes see exactly the operations and bytes that perftest posts, single and in
// lists, written and read, each at an address that the other side registered;
// with completions, each of them.
func TestPerftestIsSeenExactly(t *testing.T) {
	results := boot(t)
	for _, want := range []struct {
		check           string
		requests, bytes uint64
		calls           uint64
		op              string
		completed       uint64
	}{
		{"write", 200, 200 << 16, 200, "0", 0},
		{"write-lists", 64, 64 << 12, 4, "0", 0},
		{"read", 100, 100 << 16, 100, "4", 0},
		{"read-lists", 64, 64 << 12, 4, "4", 0},
		{"write-completions", 50, 50 << 16, 50, "0", 50},
	} {
		got, ran := results[want.check]
		switch {
		case !ran:
			t.Errorf("%s did not run", want.check)
		case got.Problem != "":
			t.Errorf("%s: %s", want.check, got.Problem)
		case got.Requests != want.requests || got.Bytes != want.bytes || got.Calls != want.calls || got.Ops[want.op] != want.requests:
			t.Errorf("%s: seen %d requests of %v, %d bytes, %d calls; want %+v", want.check, got.Requests, got.Ops, got.Bytes, got.Calls, want)
		case got.InRegion != want.bytes || got.Lost != 0 || got.Peers != 2:
			t.Errorf("%s: %d of %d bytes in a region of the other side, %d records lost, %d peers of 2", want.check, got.InRegion, want.bytes, got.Lost, got.Peers)
		case got.Done["0"] != want.completed:
			t.Errorf("%s: %v completed, want %d", want.check, got.Done, want.completed)
		case !strings.HasPrefix(got.Kernel, "6.1."):
			t.Errorf("%s ran on kernel %s, want 6.1", want.check, got.Kernel)
		}
	}
}

// result is what the guest prints for a check (test/vm/guest).
type result struct {
	Check, Kernel, Problem                          string
	Requests, Bytes, Calls, Regions, InRegion, Lost uint64
	Ops, Done                                       map[string]uint64
	Peers                                           int
}

// boot runs the guest and returns its results by check.
func boot(t *testing.T) map[string]result {
	t.Helper()
	out := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(out, "guest"), "./guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the guest: %v\n%s", err, text)
	}
	vm := exec.Command("./boot.sh", "-t", "480", "/run/out/guest")
	vm.Env = append(os.Environ(), "OUT="+out)
	var messages strings.Builder
	vm.Stderr = &messages
	begun := time.Now()
	text, err := vm.Output()
	t.Logf("the guest took %v", time.Since(begun).Round(time.Second))
	results := map[string]result{}
	for line := range strings.Lines(string(text)) {
		var r result
		if json.Unmarshal([]byte(line), &r) == nil && r.Check != "" {
			results[r.Check] = r
		}
	}
	if err != nil && len(results) == 0 {
		t.Fatalf("the guest: %v\n%s%s", err, text, messages.String())
	}
	return results
}
