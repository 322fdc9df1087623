//go:build linux && amd64

package verbs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/bpf/target"
	"github.com/kvwitness/kvwitness/bpf/verbs"
	source "github.com/kvwitness/kvwitness/sidecar/source/verbs"
	"github.com/kvwitness/kvwitness/test/commanded"
)

// built is where the stub library, the stub provider (stripped, as distributions
// ship them) and the target were compiled. That needs gcc and libibverbs-dev.
var built = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "verbs"); err != nil {
		return "", err
	}
	src, err := filepath.Abs("testdata")
	if err != nil {
		return dir, err
	}
	provider, library := filepath.Join(dir, "libstub-rdmav34.so"), filepath.Join(dir, "libibverbs.so.1")
	for _, args := range [][]string{
		{"gcc", "-shared", "-fPIC", "-O1", "-s", "-Wl,-soname,libstub-rdmav34.so", "-o", provider, filepath.Join(src, "provider.c")},
		{"gcc", "-shared", "-fPIC", "-O1", "-Wl,-soname,libibverbs.so.1", "-Wl,--version-script=" + filepath.Join(src, "libibverbs.map"), "-o", library, filepath.Join(src, "libibverbs.c"), provider},
		{"gcc", "-O1", "-o", filepath.Join(dir, "target"), filepath.Join(src, "target.c"), library, provider, "-ldl", "-Wl,-rpath,$ORIGIN"},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return dir, fmt.Errorf("%s (the tests of verbs need gcc and libibverbs-dev): %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, _ := built(); dir != "" {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

func build(t testing.TB) string {
	t.Helper()
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// start runs the target (testdata/target.c).
func start(t testing.TB, dir string) *commanded.Process {
	t.Helper()
	return commanded.Start(t, nil, filepath.Join(dir, "target"))
}

// watcher reads a probe's records and attaches to what they bring, as the probe
// process does.
type watcher struct {
	*verbs.Probe
	errs []error // of attaching
}

func load(t testing.TB, opts verbs.Options) *watcher {
	t.Helper()
	p, err := verbs.Open(opts)
	if err != nil {
		t.Fatalf("%v (the tests of verbs need root)", err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return &watcher{Probe: p}
}

// quiet is for how long nothing comes before a test goes on.
const quiet = 150 * time.Millisecond

// records reads until nothing comes for a while.
func (w *watcher) records(t testing.TB) []any {
	t.Helper()
	var all []any
	for last := time.Now(); time.Since(last) < quiet; time.Sleep(time.Millisecond) {
		err := w.Drain(func(b []byte) {
			last = time.Now()
			r, err := source.Decode(b)
			if err != nil {
				t.Fatal(err)
			}
			w.attach(r)
			all = append(all, r)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// attach attaches to what a record brings.
func (w *watcher) attach(r any) {
	var err error
	switch r := r.(type) {
	case source.Context:
		_, err = w.AttachContext(r)
	case source.QP:
		_, err = w.AttachContext(r.Context)
	case source.Extended:
		_, err = w.AttachExtended(r)
	}
	w.note(err)
}

// watch attaches to a process's libibverbs and lets its calls through.
func (w *watcher) watch(t testing.TB, p *commanded.Process) {
	t.Helper()
	if err := w.attachTo(p.PID()); err != nil {
		t.Fatal(err)
	}
	if err := w.Allow(p.PID()); err != nil {
		t.Fatal(err)
	}
}

func (w *watcher) attachTo(pid int) error {
	maps, err := target.Mappings(pid)
	if err == nil {
		_, err = w.Watch(pid, maps)
	}
	return err
}

func (w *watcher) counters(t testing.TB) []uint64 {
	t.Helper()
	n, err := w.Counters()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (w *watcher) note(err error) {
	if err != nil {
		w.errs = append(w.errs, err)
	}
}

// connected starts a target that has a connected QP, watched from the start.
func connected(t testing.TB, dir string, w *watcher) *commanded.Process {
	t.Helper()
	p := start(t, dir)
	w.watch(t, p)
	p.Do(t, "open")
	p.Do(t, "qp 17 99")
	w.records(t)
	if len(w.errs) > 0 {
		t.Fatal(w.errs)
	}
	return p
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
