package vm

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/test/cuda"
)

// limit is how long the guest may take, in seconds. On a machine that does nothing
// else it takes less than three minutes.
const limit = "1080"

// Promise: what runs in the kernel, all that the probe loads, runs on Linux 6.1.
func TestTheProgramsLoadOnLinux61(t *testing.T) {
	if got := of(t, "objects"); !strings.HasPrefix(got.Kernel, "6.1.") {
		t.Errorf("the guest's kernel is %s", got.Kernel)
	}
}

// Promise: what a process of 8 threads allocates and frees of the CUDA driver's memory
// adds up to the byte on Linux 6.1.
func TestTheCUDADriversMemoryAddsUp(t *testing.T) {
	if got := of(t, "cuda"); got.Lost != 0 || got.Calls < 100_000 || got.Bytes == 0 {
		t.Errorf("%+v", got)
	}
}

// Promise: who imports memory that a process lent by a file descriptor is told on Linux
// 6.1, and of 2,000 other files, whose addresses in the kernel are given out again and
// again, none is taken for it.
func TestMemoryThatIsLentByDescriptorIsTold(t *testing.T) {
	if got := of(t, "cuda-lent"); got.Lost != 0 || got.Bytes != 65536 {
		t.Errorf("%+v", got)
	}
}

// Promise: under unmodified perftest, over real verbs and on a 6.1 kernel, the
// probes see exactly the operations and bytes that perftest posts, single and in
// lists, written and read, each at an address that the other side registered;
// with completions, each of them.
func TestPerftestIsSeenExactly(t *testing.T) {
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
		{"read-lists", 64, 64 << 12, 4, "4", 4}, // perftest signals the last of a list
		{"write-completions", 50, 50 << 16, 50, "0", 50},
	} {
		t.Run(want.check, func(t *testing.T) {
			got := of(t, want.check)
			switch {
			case got.Requests != want.requests || got.Bytes != want.bytes || got.Calls != want.calls || got.Ops[want.op] != want.requests:
				t.Errorf("seen %d requests of %v, %d bytes, %d calls; want %+v", got.Requests, got.Ops, got.Bytes, got.Calls, want)
			case got.InRegion != want.bytes || got.Lost != 0 || got.Peers != 2:
				t.Errorf("%d of %d bytes in a region of the other side, %d records lost, %d peers of 2", got.InRegion, want.bytes, got.Lost, got.Peers)
			case got.Done["0"] != want.completed:
				t.Errorf("%v completed, want %d", got.Done, want.completed)
			}
		})
	}
}

// Promise: while unmodified Mooncake moves pages by RDMA between two of its
// processes, exactly the bytes that it was told to move are seen, in each region:
// runs of pages, scattered pages, what straddles two, and what is moved again.
func TestMooncakesPagesAreSeenExactly(t *testing.T) {
	if got := of(t, "mooncake"); got.Lost != 0 || got.Regions < 6 || got.Requests == 0 || got.InRegion != got.Bytes {
		t.Errorf("%+v", got)
	}
}

// Promise: zero touch. Engines that tell nothing of themselves are judged by what is
// seen from outside, over verbs as over TCP: after the handoff that proves the path
// each is clean where its 4 pages were written, and one of 8 pages of which 1 was
// written is short, and no other is accused.
func TestUntoldHandoffsAreWitnessed(t *testing.T) {
	for _, check := range []string{"verbs-untold", "tcp-untold"} {
		t.Run(check, func(t *testing.T) {
			got := of(t, check)
			if !slices.Equal(got.Verdicts, []string{"unwitnessed", "clean", "clean", "violated"}) {
				t.Errorf("verdicts %q: %q", got.Verdicts, got.Whys)
			}
			if !slices.Equal(got.Found, []string{"short_handoff"}) || len(got.Elsewhere) > 0 {
				t.Errorf("found %q, and elsewhere %q", got.Found, got.Elsewhere)
			}
		})
	}
}

// Promise: kvengines that move pages by RDMA answer rightly, and what their streams
// say is clean where it was seen too. One that claims pages which it did not write is
// found out: the claim stands beside what was seen.
func TestALyingEngineIsFoundOutByVerbs(t *testing.T) {
	got := of(t, "verbs-lying")
	if !slices.Equal(got.Verdicts, []string{"unwitnessed", "clean", "violated"}) {
		t.Errorf("verdicts %q: %q", got.Verdicts, got.Whys)
	}
	if !slices.Contains(got.Found, "claim_mismatch") || len(got.Elsewhere) > 0 {
		t.Errorf("found %q, and elsewhere %q", got.Found, got.Elsewhere)
	}
}

// result is what the guest prints for a check (test/vm/guest).
type result struct {
	Check, Kernel, Took, Problem                    string
	Requests, Bytes, Calls, Regions, InRegion, Lost uint64
	Ops, Done                                       map[string]uint64
	Peers                                           int
	Verdicts, Whys, Found, Elsewhere                []string
}

// of is what a check saw.
func of(t *testing.T, check string) result {
	t.Helper()
	g := guest()
	r, ran := g.results[check]
	switch {
	case !ran:
		t.Fatalf("%s did not run: %s", check, g.said)
	case r.Problem != "":
		t.Fatalf("%s: %s", check, r.Problem)
	}
	t.Logf("%s took %s of the guest's time", check, r.Took)
	return r
}

// ran is what one run of the guest said.
type ran struct {
	results map[string]result
	said    string // beyond results, and how it ended
}

// guest boots the guest, once.
var guest = sync.OnceValue(func() (g ran) {
	g.results = map[string]result{}
	begun := time.Now()
	out, err := boot()
	g.said = out + "after " + time.Since(begun).Round(time.Second).String()
	for line := range strings.Lines(out) {
		var r result
		if json.Unmarshal([]byte(line), &r) == nil && r.Check != "" {
			g.results[r.Check] = r
		}
	}
	if err != nil {
		g.said += ": " + err.Error()
	}
	return g
})

// boot builds the commands and runs the guest on them.
func boot() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	made := filepath.Join(cache, "kvwitness", "vm")
	if err := os.MkdirAll(made, 0o755); err != nil {
		return "", err
	}
	// Where the guest sees them as files of this machine, which it caches: not /tmp.
	dir, err := os.MkdirTemp(made, "run-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	for _, b := range []struct{ program, cgo string }{
		{"../../cmd/kvengine", "1"}, {"../../cmd/kvwitness", "0"}, {"../../cmd/kvwitness-probe", "0"}, {"./guest", "0"},
	} {
		build := exec.Command("go", "build", "-o", dir+"/", b.program)
		build.Env = append(os.Environ(), "CGO_ENABLED="+b.cgo)
		if text, err := build.CombinedOutput(); err != nil {
			return string(text), err
		}
	}
	if err := cuda.Build(dir); err != nil {
		return "", err
	}
	python, err := exec.Command("./mooncake.sh").Output()
	if err != nil {
		return "see to Mooncake's wheel: ", err
	}
	text, err := os.ReadFile("programs/mooncake_pages.py")
	program := filepath.Join(dir, "mooncake_pages.py")
	if err == nil {
		err = os.WriteFile(program, text, 0o644)
	}
	if err != nil {
		return "", err
	}
	vm := exec.Command("./boot.sh", "-t", limit, "MOONCAKE_PYTHON="+strings.TrimSpace(string(python)), "MOONCAKE_PROGRAM="+program, filepath.Join(dir, "guest"))
	said, err := vm.CombinedOutput()
	return string(said), err
}
