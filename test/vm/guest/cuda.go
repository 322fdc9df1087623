//go:build linux && amd64

package main

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kvwitness/kvwitness/bpf/cuda"
	"github.com/kvwitness/kvwitness/bpf/load"
	source "github.com/kvwitness/kvwitness/sidecar/source/cuda"
	driver "github.com/kvwitness/kvwitness/test/cuda"
)

// calls is how many a process of 8 threads makes of the stand-in for the CUDA driver.
const calls = 100_000

// memory has a process allocate and free memory of the stand-in, and compares its own
// books with what was seen.
func memory(r *Result) (err error) {
	p, err := cuda.Open(cuda.Options{Options: load.Options{RingBytes: 16 << 20}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	if _, err := p.AttachLibrary(filepath.Join(programs, driver.Library)); err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(programs, driver.Caller))
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := uint32(cmd.Process.Pid)
	books := source.NewBooks()
	books.Watched(pid)
	books.Attached(pid, "")
	if err := p.Targets().Put(pid, uint64(1)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(in, "load\nrandom %d 8 1\nbooks\n", calls)
	if err = errors.Join(err, in.Close(), cmd.Wait()); err != nil {
		return err
	}
	err = p.Drain(func(b []byte) {
		if c, err := source.Parse(b); err == nil {
			books.Take(&c)
		}
	})
	n, counting := p.Counters()
	if err = errors.Join(err, counting); err != nil {
		return err
	}
	r.Lost = n[cuda.RecordsLost] + n[cuda.LostCalls]
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var allocated, freed uint64
	if _, err := fmt.Sscan(lines[len(lines)-1], &r.Calls, &allocated, &freed); err != nil {
		return fmt.Errorf("the process said %q: %w", lines[len(lines)-1], err)
	}
	a := books.Account(pid)
	if r.Bytes = a.Allocated; a.Why != "" || a.Allocated != allocated || a.Freed != freed || a.VRAM() != allocated-freed {
		return fmt.Errorf("seen %+v, done %d calls, %d bytes allocated and %d freed", a, r.Calls, allocated, freed)
	}
	return nil
}
