package target

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const source = `
int first(int a) { return a + 1; }
int second_new(int a) { return a * 3; }
int second_old(int a) { return a * 5; }
__asm__(".symver second_new, second@@V2");
__asm__(".symver second_old, second@V1");
static int hidden(int a) { return a - 7; }
int (*table)(int) = hidden;
`

// library compiles source to a shared object, stripped of all but what it
// exports.
func library(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	c, versions, so := filepath.Join(dir, "x.c"), filepath.Join(dir, "x.map"), filepath.Join(dir, "x.so")
	for name, text := range map[string]string{c: source, versions: "V1 { global: first; }; V2 { } V1;"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command("gcc", "-shared", "-fPIC", "-O1", "-s", "-Wl,--version-script="+versions, "-o", so, c).CombinedOutput()
	if err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return so
}

// Promise: a function starts at each exported symbol of a stripped object, and
// not one byte behind.
func TestFunctionsStartWhereTheyDo(t *testing.T) {
	file, err := os.Open(library(t))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	o, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []struct{ name, version string }{{"first", ""}, {"first", "V1"}, {"second", ""}, {"second", "V1"}, {"second", "V2"}} {
		at, err := o.Symbol(s.name, s.version)
		if err != nil || !o.Starts(at) || o.Starts(at+1) {
			t.Errorf("%s@%s at %#x: starts %v, one byte behind %v, %v", s.name, s.version, at, o.Starts(at), o.Starts(at+1), err)
		}
	}
	if len(o.start) < 4 {
		t.Errorf("%d functions, want at least 4, one of them static", len(o.start))
	}
}

// Promise: of several versions of a name the default one is taken, or the one
// that was asked for.
func TestVersionsAreTwins(t *testing.T) {
	file, err := os.Open(library(t))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	o, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	latest, _ := o.Symbol("second", "")
	v1, _ := o.Symbol("second", "V1")
	v2, _ := o.Symbol("second", "V2")
	if latest != v2 || v1 == v2 {
		t.Errorf("default at %#x, V1 at %#x, V2 at %#x", latest, v1, v2)
	}
	for _, s := range []struct{ name, version string }{{"second", "V3"}, {"hidden", ""}, {"third", ""}} {
		if _, err := o.Symbol(s.name, s.version); !errors.Is(err, ErrNoSymbol) {
			t.Errorf("%s@%s: %v, want ErrNoSymbol", s.name, s.version, err)
		}
	}
}

// FuzzObject: no file, whatever is in it, does more than give an error.
func FuzzObject(f *testing.F) {
	data, err := os.ReadFile(library(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data[:4096])
	f.Add([]byte("\x7fELF\x02\x01\x01"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := Open(bytes.NewReader(data))
		if err != nil {
			return
		}
		if at, err := o.Symbol("first", ""); err == nil && at >= 1<<62 {
			t.Errorf("first stands at %#x", at)
		}
	})
}
