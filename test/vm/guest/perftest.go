//go:build linux && amd64

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"time"

	"github.com/kvwitness/kvwitness/bpf/verbs"
	source "github.com/kvwitness/kvwitness/sidecar/source/verbs"
)

const library = "/usr/lib/x86_64-linux-gnu/libibverbs.so.1"

// check is one run of perftest's server and client under the probe.
type check struct {
	name    string
	program string
	args    []string
	opts    verbs.Options
}

var checks = []check{
	{name: "write", program: "ib_write_bw", args: []string{"-n", "200", "-s", "65536"}},
	{name: "write-lists", program: "ib_write_bw", args: []string{"-n", "64", "-s", "4096", "-l", "16"}},
	{name: "read", program: "ib_read_bw", args: []string{"-n", "100", "-s", "65536"}},
	{name: "read-lists", program: "ib_read_bw", args: []string{"-n", "64", "-s", "4096", "-l", "16"}, opts: verbs.Options{ShortChains: true}},
	{name: "write-completions", program: "ib_write_bw", args: []string{"-n", "50", "-s", "65536"}, opts: verbs.Options{Completions: true}},
}

// port is where a run's two sides meet; each run has its own.
var port = 18500

func (c check) run() (Result, error) {
	r := Result{Ops: map[string]uint64{}, Done: map[string]uint64{}}
	probe, err := verbs.Open(c.opts)
	if err != nil {
		return r, err
	}
	defer probe.Close()
	if _, err := probe.AttachLibrary(library); err != nil {
		return r, err
	}
	port++
	// -F: under emulation the clock is no measure, and perftest would give up.
	args := append([]string{c.program, "-F", "-d", "rxe0", "-x", "1", "-p", strconv.Itoa(port)}, c.args...)
	server, err := begin(probe, args...)
	if err != nil {
		return r, err
	}
	defer server.end()
	time.Sleep(3 * time.Second) // until it listens: perftest's client does not wait
	client, err := begin(probe, append(args, "10.77.0.1")...)
	if err != nil {
		return r, err
	}
	defer client.end()
	s := seen{r: &r, probe: probe, client: uint32(client.pid())}
	for !client.over() || !server.over() {
		if err := s.read(100 * time.Millisecond); err != nil {
			return r, err
		}
	}
	if err := s.read(500 * time.Millisecond); err != nil {
		return r, err
	}
	n, err := probe.Counters()
	if err == nil {
		r.Lost, r.Calls = n[verbs.RecordsLost]+n[verbs.LostBusy]+n[verbs.LostCalls], n[verbs.Calls]
	}
	return r, errors.Join(err, client.problem(), server.problem())
}

// process is a program that is allowed to be seen before it begins.
type process struct {
	cmd  *exec.Cmd
	out  bytes.Buffer
	done chan struct{}
	err  error
}

// begin starts a program through a shell that waits until its process is let
// through, so that its first call is seen.
func begin(probe *verbs.Probe, args ...string) (*process, error) {
	p := &process{done: make(chan struct{})}
	p.cmd = exec.Command("/bin/sh", append([]string{"-c", `read _; exec "$@"`, "sh"}, args...)...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { p.err = p.cmd.Wait(); close(p.done) }()
	if err := probe.Allow(p.pid()); err != nil {
		p.end()
		return nil, err
	}
	_, err = fmt.Fprintln(in)
	return p, err
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *process) end() {
	if !p.over() {
		p.cmd.Process.Kill()
		<-p.done
	}
}

func (p *process) problem() error {
	if p.err != nil {
		return fmt.Errorf("%v: %w\n%s", p.cmd.Args[4:], p.err, p.out.String())
	}
	return nil
}

// seen adds up what the probe tells.
type seen struct {
	r       *Result
	probe   *verbs.Probe
	client  uint32
	regions []source.Region
}

// read takes records until none comes for a while.
func (s *seen) read(quiet time.Duration) error {
	for last := time.Now(); time.Since(last) < quiet; time.Sleep(2 * time.Millisecond) {
		var failed error
		_, err := s.probe.Drain(1<<30, func(b []byte) {
			last = time.Now()
			record, err := source.Decode(b)
			if err == nil {
				err = s.take(record)
			}
			failed = errors.Join(failed, err)
		})
		if err = errors.Join(err, failed); err != nil {
			return err
		}
	}
	return nil
}

func (s *seen) take(record any) error {
	switch r := record.(type) {
	case source.Context:
		_, err := s.probe.AttachContext(r)
		return err
	case source.QP:
		if r.Mask&source.AttrDestQP != 0 && r.DestQP != 0 {
			s.r.Peers++
		}
		_, err := s.probe.AttachContext(r.Context)
		return err
	case source.Extended:
		_, err := s.probe.AttachExtended(r)
		return err
	case source.Region:
		s.r.Regions++
		s.regions = append(s.regions, r)
	case source.Posted:
		for _, e := range r.Extents {
			s.extent(r, e)
		}
		if r.Flags != 0 {
			return fmt.Errorf("a record says %d: something was not seen", r.Flags)
		}
	case source.Completed:
		for _, c := range r.All {
			s.r.Done[strconv.Itoa(int(c.Status))]++
		}
	}
	return nil
}

func (s *seen) extent(p source.Posted, e source.Extent) {
	s.r.Requests += uint64(e.Requests)
	s.r.Bytes += e.Bytes
	s.r.Ops[strconv.Itoa(int(e.Op))] += uint64(e.Requests)
	for _, g := range s.regions {
		if g.PID != p.PID && g.RKey == e.RKey && g.Addr <= e.Remote && e.Remote+e.Bytes <= g.Addr+g.Bytes {
			s.r.InRegion += e.Bytes
			return
		}
	}
}
