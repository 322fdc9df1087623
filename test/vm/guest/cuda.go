//go:build linux && amd64

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kvwitness/kvwitness/bpf/cuda"
	"github.com/kvwitness/kvwitness/bpf/load"
	source "github.com/kvwitness/kvwitness/sidecar/source/cuda"
	driver "github.com/kvwitness/kvwitness/test/cuda"
)

// calls is how many a process of 8 threads makes of the stand-in for the CUDA driver.
const calls = 100_000

// caller is a program that calls the stand-in as it is told.
type caller struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startCaller starts one that has loaded the stand-in.
func startCaller() (*caller, error) {
	c := &caller{cmd: exec.Command(filepath.Join(programs, driver.Caller))}
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.in, c.out = in, bufio.NewReader(out)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	_, err = c.out.ReadString('\n') // it is ready
	return c, err
}

// do has it do something, and returns what it says.
func (c *caller) do(format string, args ...any) (string, error) {
	if _, err := fmt.Fprintf(c.in, format+"\n", args...); err != nil {
		return "", err
	}
	line, err := c.out.ReadString('\n')
	said, done := strings.CutSuffix(line, "done\n")
	if err == nil && !done {
		err = fmt.Errorf("told %s, it said %q", fmt.Sprintf(format, args...), line)
	}
	return strings.TrimSpace(said), err
}

func (c *caller) end() error { return errors.Join(c.in.Close(), c.cmd.Wait()) }

// driven is a process that is watched from its first call of the stand-in on.
type driven struct {
	*caller
	probe *cuda.Probe
	books *source.Books
	pid   uint32
	opens []source.Opened
}

// drive starts one.
func drive() (d *driven, err error) {
	d = &driven{books: source.NewBooks()}
	if d.probe, err = cuda.Open(cuda.Options{Options: load.Options{RingBytes: 16 << 20}}); err != nil {
		return nil, err
	}
	_, err = d.probe.AttachLibrary(filepath.Join(programs, driver.Library))
	if err == nil {
		d.caller, err = startCaller()
	}
	if err != nil {
		return nil, errors.Join(err, d.probe.Close())
	}
	d.pid = uint32(d.cmd.Process.Pid)
	d.books.Watched(d.pid)
	d.books.Attached(d.pid, "")
	return d, d.probe.Targets().Put(d.pid, uint64(1))
}

// drain takes in what was seen, and notes how much was not.
func (d *driven) drain(r *Result) error {
	err := d.probe.Drain(func(b []byte) {
		c, err := source.Parse(b)
		if err != nil {
			return
		}
		if o := d.books.Take(&c); o != nil {
			d.opens = append(d.opens, *o)
		}
	})
	n, counting := d.probe.Counters()
	if err = errors.Join(err, counting); err != nil {
		return err
	}
	r.Lost = n[cuda.RecordsLost] + n[cuda.LostCalls]
	return nil
}

// memory has a process allocate and free memory of the stand-in, and compares its own
// books with what was seen.
func memory(r *Result) (err error) {
	d, err := drive()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.end(), d.probe.Close()) }()
	said := ""
	for _, command := range []string{"load", fmt.Sprintf("random %d 8 1", calls), "books"} {
		if said, err = d.do("%s", command); err != nil {
			return err
		}
	}
	if err := d.drain(r); err != nil {
		return err
	}
	var allocated, freed uint64
	if _, err := fmt.Sscan(said, &r.Calls, &allocated, &freed); err != nil {
		return fmt.Errorf("the process said %q: %w", said, err)
	}
	a := d.books.Account(d.pid)
	if r.Bytes = a.Allocated; a.Why != "" || a.Allocated != allocated || a.Freed != freed || a.VRAM() != allocated-freed {
		return fmt.Errorf("seen %+v, done %d calls, %d bytes allocated and %d freed", a, r.Calls, allocated, freed)
	}
	return nil
}

// lent has a process lend memory by descriptor, and another import it, beside many that
// each of them lends and imports itself.
func lent(r *Result) (err error) {
	d, err := drive()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.end(), d.probe.Close()) }()
	other, err := startCaller()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, other.end()) }()
	said := ""
	for _, step := range []struct {
		by      *caller
		command string // %s is what was said before
	}{
		{d.caller, "load"},
		{other, "load"},
		{d.caller, "share-again 500"},
		{other, "share-again 500"},
		{d.caller, "share-again 500"},
		{other, "share-again 500"},
		{d.caller, "create 65536"},
		{d.caller, "share %s"},
		{other, "take " + fmt.Sprint(d.pid) + " %s"},
		{other, "import %s"},
	} {
		if strings.Contains(step.command, "%s") {
			step.command = fmt.Sprintf(step.command, said)
		}
		if said, err = step.by.do("%s", step.command); err != nil {
			return err
		}
	}
	if err := d.drain(r); err != nil {
		return err
	}
	want := source.Opened{Owner: d.pid, By: uint32(other.cmd.Process.Pid), Bytes: 65536}
	if !slices.Equal(d.opens, []source.Opened{want}) {
		return fmt.Errorf("seen %d openings, %+v; want %+v", len(d.opens), d.opens[:min(len(d.opens), 3)], want)
	}
	r.Bytes = want.Bytes
	return nil
}
