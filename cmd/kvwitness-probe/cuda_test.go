//go:build linux && amd64

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/kvwitness/kvwitness/bpf/target"
	"github.com/kvwitness/kvwitness/sidecar/probe"
	"github.com/kvwitness/kvwitness/sidecar/source/cuda"
	"github.com/kvwitness/kvwitness/test/commanded"
	driver "github.com/kvwitness/kvwitness/test/cuda"
)

// caller starts a program that uses the stand-in for the CUDA driver.
func caller(t *testing.T, dir string) *commanded.Process {
	t.Helper()
	p := commanded.Start(t, nil, filepath.Join(dir, driver.Caller))
	p.Do(t, "load")
	return p
}

// untouched reports whether the driver's code in a process is that of its file.
func untouched(t *testing.T, p *commanded.Process) bool {
	t.Helper()
	maps, err := target.Mappings(p.PID())
	must(t, err)
	for _, m := range maps {
		if !m.Executable || !target.IsCUDA(m.Path) {
			continue
		}
		mem, err := os.Open(filepath.Join(filepath.Dir(filepath.Dir(m.File(p.PID()))), "mem"))
		must(t, err)
		defer mem.Close()
		text, err := os.ReadFile(m.Path)
		must(t, err)
		text = text[m.Offset:min(m.Offset+m.End-m.Start, uint64(len(text)))]
		code := make([]byte, len(text))
		_, err = mem.ReadAt(code, int64(m.Start))
		must(t, err)
		return bytes.Equal(code, text)
	}
	t.Fatal("the driver is not mapped")
	return false
}

// until reads what the probe says until something holds.
func until(t *testing.T, p *probe.Child, holds func(k probe.Kind, b []byte) bool) {
	t.Helper()
	for {
		k, b, err := p.Next()
		must(t, err)
		if holds(k, b) {
			return
		}
	}
}

// Promise: what a process asks of the CUDA driver is told only where that is asked for:
// else nothing is attached to the driver, and nothing is said of it.
func TestTheCUDADriverIsLetAloneUnlessAskedFor(t *testing.T) {
	dir := t.TempDir()
	must(t, driver.Build(dir))
	p := start(t, executable(t), "exe="+driver.Caller)
	defer p.Close()
	c := caller(t, dir)
	c.Do(t, "alloc 4096")
	seen, marks := false, 0
	until(t, p, func(k probe.Kind, b []byte) bool {
		if s, err := probe.ParseSeen(b); k == probe.Process && err == nil && int(s.PID) == c.PID() {
			seen = true
		}
		if k == probe.CUDA || k == probe.CUDASight {
			t.Fatalf("kind %d is said", k)
		}
		if m, err := probe.ParseMark(b); k == probe.Progress && err == nil && seen {
			if marks++; m.CUDASent+m.CUDALost != 0 {
				t.Fatalf("%+v", m)
			}
		}
		return marks == 100
	})
	if !untouched(t, c) {
		t.Error("something is attached to the driver")
	}
}

// Promise: a process that has the driver before it is attached to is told as one of which
// not all is seen; the next one, of which all is, from its first call on. A driver of a
// denied version is let alone, and that is told.
func TestWhatIsAskedOfTheCUDADriverIsTold(t *testing.T) {
	dir := t.TempDir()
	must(t, driver.Build(dir))
	p := startWith(t, probe.StartConfig{CUDA: true})
	defer p.Close()
	for _, whole := range []bool{false, true} {
		c := caller(t, dir)
		c.Do(t, "alloc 4096")
		var allocated uint64
		until(t, p, func(k probe.Kind, b []byte) bool {
			if r, err := cuda.Parse(b); k == probe.CUDA && err == nil && int(r.PID) == c.PID() {
				allocated += r.Bytes
			}
			a, err := probe.ParseAttached(b)
			return k == probe.CUDASight && err == nil && int(a.PID) == c.PID() && a.Seen == whole && (a.Reason == "") == whole
		})
		until(t, p, func(k probe.Kind, b []byte) bool {
			if r, err := cuda.Parse(b); k == probe.CUDA && err == nil && int(r.PID) == c.PID() {
				allocated += r.Bytes
			}
			return !whole || allocated == 4096
		})
	}
	denied := startWith(t, probe.StartConfig{CUDA: true, CUDADeny: []string{"999.*"}})
	defer denied.Close()
	c := caller(t, dir)
	until(t, denied, func(k probe.Kind, b []byte) bool {
		a, err := probe.ParseAttached(b)
		return k == probe.CUDASight && err == nil && int(a.PID) == c.PID() && !a.Seen
	})
}

// startWith starts a probe that watches programs that use the driver.
func startWith(t *testing.T, c probe.StartConfig) *probe.Child {
	t.Helper()
	c.Path, c.Match, c.Stderr = executable(t), []string{"exe=" + driver.Caller}, os.Stderr
	p, err := probe.Start(context.Background(), c)
	must(t, err)
	return p
}
