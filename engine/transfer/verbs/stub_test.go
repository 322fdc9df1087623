//go:build linux && cgo

package verbs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// patience is how long anything may take.
const patience = 60 * time.Second

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var stubs string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "verbs")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	stubs = dir
	_ = os.Setenv("STUB_VERBS", dir)
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

var compiled = sync.OnceValues(func() (string, error) {
	library := filepath.Join(stubs, "libibverbs.so.1")
	out, err := exec.Command("gcc", "-shared", "-fPIC", "-O1", "-Wl,-soname,libibverbs.so.1",
		"-Wl,--version-script=testdata/libibverbs.map", "-o", library, "testdata/libibverbs.c", "-lpthread").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("compile the library for tests (it needs gcc and libibverbs-dev): %w\n%s", err, out)
	}
	return library, nil
})

// stub opens the NIC of testdata/libibverbs.c, and holds at the end that all of it
// was given back.
func stub(t testing.TB) Device {
	t.Helper()
	library, err := compiled()
	must(t, err)
	d, err := Open(Config{Library: library, GID: AnyGID})
	must(t, err)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("something is left open: %v", err)
		}
	})
	return d
}

// tell tells the NIC something, until the test ends or release is called.
func tell(t testing.TB, what string, value int) (release func()) {
	t.Helper()
	path := filepath.Join(stubs, what)
	must(t, os.WriteFile(path+".new", fmt.Append(nil, value), 0o644))
	must(t, os.Rename(path+".new", path))
	release = func() { _ = os.Remove(path) }
	t.Cleanup(release)
	return release
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not within %v: %s", patience, what)
}
