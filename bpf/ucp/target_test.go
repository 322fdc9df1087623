//go:build linux && amd64

package ucp_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/bpf/target"
	"github.com/kvwitness/kvwitness/bpf/ucp"
	source "github.com/kvwitness/kvwitness/sidecar/source/ucp"
	"github.com/kvwitness/kvwitness/test/commanded"
)

// built is where testdata/target.c was compiled, over the UCX of this machine. That
// needs gcc and libucx-dev.
var built = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "ucp"); err != nil {
		return "", err
	}
	out, err := exec.Command("gcc", "-O1", "-o", filepath.Join(dir, "target"), "testdata/target.c", "-lucp", "-lucs", "-lpthread").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("compile the target (the tests of UCX need gcc and libucx-dev): %w\n%s", err, out)
	}
	return dir, err
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, _ := built(); dir != "" {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// tcp is for a target that talks over TCP, where a put is not over at once.
const tcp = "UCX_TLS=tcp"

// start runs the target. It talks over memory that is shared, unless it is told
// otherwise.
func start(t testing.TB, env ...string) *commanded.Process {
	t.Helper()
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return commanded.Start(t, append([]string{"UCX_TLS=shm", "UCX_NET_DEVICES=lo", "UCX_HANDLE_ERRORS=none"}, env...), filepath.Join(dir, "target"))
}

// watcher reads a probe's records.
type watcher struct{ *ucp.Probe }

func load(t testing.TB, opts ucp.Options) watcher {
	t.Helper()
	p, err := ucp.Open(opts)
	if err != nil {
		t.Fatalf("%v (the tests of UCX need root)", err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return watcher{p}
}

// watch attaches to a process's UCX and lets its calls through.
func (w watcher) watch(t testing.TB, p *commanded.Process) {
	t.Helper()
	maps, err := target.Mappings(p.PID())
	if err != nil {
		t.Fatal(err)
	}
	if since, err := w.Watch(p.PID(), maps); err != nil || since == 0 {
		t.Fatal(since, err)
	}
	if err := w.Targets().Put(uint32(p.PID()), uint64(1)); err != nil {
		t.Fatal(err)
	}
}

// records reads all that the probe has said of what is over.
func (w watcher) records(t testing.TB) []any {
	t.Helper()
	var all []any
	err := w.Drain(func(b []byte) {
		r, err := source.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// of are the records of one type.
func of[T any](all []any) []T {
	var some []T
	for _, r := range all {
		if r, ok := r.(T); ok {
			some = append(some, r)
		}
	}
	return some
}

// did is what a command says before its status, which must be 0.
func did(t testing.TB, p *commanded.Process, format string, args ...any) []string {
	t.Helper()
	said := strings.Fields(p.Do(t, format, args...))
	if len(said) == 0 || said[len(said)-1] != "0" {
		t.Fatalf("%s: status %q", fmt.Sprintf(format, args...), said)
	}
	return said[:len(said)-1]
}

func number(t testing.TB, text string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// pair is an owner of memory, and one who moves bytes there and back.
type pair struct {
	owner, mover  *commanded.Process
	remote, local uint64 // addresses of 1 MiB each
	address       string
}

// mebibyte is the memory of each side.
const mebibyte = 1 << 20

// connected starts a pair that is watched from the start.
func connected(t testing.TB, w watcher, env ...string) *pair {
	t.Helper()
	p := &pair{owner: start(t, env...), mover: start(t, env...)}
	for _, side := range []*commanded.Process{p.owner, p.mover} {
		w.watch(t, side)
	}
	p.open(t)
	p.connect(t)
	return p
}

func (p *pair) open(t testing.TB) {
	t.Helper()
	did(t, p.owner, "open")
	p.local = number(t, did(t, p.mover, "open")[0])
}

func (p *pair) connect(t testing.TB) {
	t.Helper()
	p.address = did(t, p.owner, "address 0")[0]
	memory := did(t, p.owner, "map %d", mebibyte)
	p.remote = number(t, memory[0])
	did(t, p.mover, "connect %s %s", p.address, memory[1])
}

// settled waits until what the owner has of a value is so many bytes: what was put
// arrives some time after it was put.
func (p *pair) settled(t testing.TB, value, bytes int) {
	t.Helper()
	var got []string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if got = did(t, p.owner, "count %d", value); got[0] == strconv.Itoa(bytes) {
			return
		}
	}
	t.Fatalf("%s bytes of %d have arrived, want %d", got[0], value, bytes)
}
