package target

import (
	"bytes"
	"os"
	"testing"
)

// Promise: what an object exports is found by its hash, and nothing else: no static
// function, none that it only calls, and none of libc's.
func TestExportsAreFoundByTheirHash(t *testing.T) {
	file, err := os.Open(library(t))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for name, want := range map[string]bool{
		"first": true, "second": true, "hidden": false, "table": false, "third": false, "fir": false, "": false, "__cxa_finalize": false,
	} {
		if found, err := Exports(file, name); found != want || err != nil {
			t.Errorf("%q: found %v, %v", name, found, err)
		}
	}
}

// FuzzExports: no file, whatever is in it, does more than give an error.
func FuzzExports(f *testing.F) {
	data, err := os.ReadFile(library(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(data[:4096])
	f.Add([]byte("\x7fELF\x02\x01\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if found, err := Exports(bytes.NewReader(data), "first"); found && err != nil {
			t.Errorf("found, and %v", err)
		}
	})
}
