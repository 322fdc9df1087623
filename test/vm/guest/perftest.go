//go:build linux && amd64

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/kvwitness/kvwitness/bpf/verbs"
	source "github.com/kvwitness/kvwitness/sidecar/source/verbs"
)

const library = "/usr/lib/x86_64-linux-gnu/libibverbs.so.1"

// perftest is one run of its server and client under the probe.
type perftest struct {
	program string
	args    []string
	opts    verbs.Options
}

// port is where a run's two sides meet; each run has its own.
var port = 18500

func (c perftest) run(r *Result) error {
	probe, err := watch(c.opts)
	if err != nil {
		return err
	}
	port++
	// -F: under emulation the clock is no measure, and perftest would give up.
	args := append([]string{c.program, "-F", "-d", "rxe0", "-x", "1", "-p", strconv.Itoa(port)}, c.args...)
	server, err := begin(probe.Probe, args...)
	if err != nil {
		return err
	}
	defer server.end()
	s := seen{r: r, probe: probe.Probe}
	// perftest's client does not wait for its server.
	for !listens(port) && !server.over() {
		if err := s.read(100 * time.Millisecond); err != nil {
			return err
		}
	}
	client, err := begin(probe.Probe, append(args, host)...)
	if err != nil {
		return err
	}
	defer client.end()
	for !client.over() || !server.over() {
		if err := s.read(100 * time.Millisecond); err != nil {
			return err
		}
	}
	if err := s.read(500 * time.Millisecond); err != nil {
		return err
	}
	return errors.Join(probe.count(r), client.problem(), server.problem())
}

// listens reports whether anybody accepts connections at a port of IPv4 or IPv6.
func listens(port int) bool {
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(name) // there may be no IPv6
		for line := range strings.Lines(string(text)) {
			const listening = "0A"
			if f := strings.Fields(line); len(f) > 3 && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) && f[3] == listening {
				return true
			}
		}
	}
	return false
}

// attachedProbe is attached to libibverbs. Runs with the same options
// share one: to load the programs takes the emulated machine long.
type attachedProbe struct {
	*verbs.Probe
	counted []uint64 // before the run at hand
}

var probes = map[verbs.Options]*attachedProbe{}

func watch(opts verbs.Options) (w *attachedProbe, err error) {
	if w = probes[opts]; w == nil {
		w = &attachedProbe{}
		if w.Probe, err = verbs.Open(opts); err != nil {
			return nil, err
		}
		if _, err := w.AttachLibrary(library); err != nil {
			return nil, errors.Join(err, w.Close())
		}
		probes[opts] = w
	}
	w.counted, err = w.Counters()
	return w, err
}

func closeProbes() (err error) {
	for opts, w := range probes {
		err = errors.Join(err, w.Close())
		delete(probes, opts)
	}
	return err
}

// count takes the probe's counters over.
func (w *attachedProbe) count(r *Result) error {
	n, err := w.Counters()
	if err != nil {
		return err
	}
	for i := range n {
		n[i] -= w.counted[i]
	}
	r.Lost, r.Calls = n[verbs.RecordsLost]+n[verbs.LostBusy]+n[verbs.LostCalls], n[verbs.Calls]
	return nil
}

// program is one that is allowed to be seen before it begins.
type program struct {
	cmd  *exec.Cmd
	in   io.Writer
	out  bytes.Buffer
	done chan struct{}
	err  error
}

// begin starts a program through a shell that waits until its process is let
// through, so that its first call is seen.
func begin(probe *verbs.Probe, args ...string) (*program, error) {
	p := &program{done: make(chan struct{})}
	return p, p.begin(probe, &p.out, args)
}

func (p *program) begin(probe *verbs.Probe, stdout io.Writer, args []string) (err error) {
	p.cmd = exec.Command("/bin/sh", append([]string{"-c", `read _; exec "$@"`, "sh"}, args...)...)
	p.cmd.Stdout, p.cmd.Stderr = stdout, &p.out
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() { p.err = p.cmd.Wait(); close(p.done) }()
	if err := probe.Allow(p.pid()); err != nil {
		p.end()
		return err
	}
	_, err = fmt.Fprintln(p.in)
	return err
}

// pid is 0 of a program that did not begin.
func (p *program) pid() int {
	if p.cmd == nil || p.cmd.Process == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

func (p *program) over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *program) end() {
	if !p.over() {
		p.cmd.Process.Kill()
		<-p.done
	}
}

// said ends it and returns what it wrote.
func (p *program) said() string {
	p.end()
	return p.out.String()
}

func (p *program) problem() error {
	if p.err != nil {
		return fmt.Errorf("%v: %w\n%s", p.cmd.Args[4:], p.err, p.out.String())
	}
	return nil
}

// seen adds up what the probe tells.
type seen struct {
	r       *Result
	probe   *verbs.Probe
	regions []source.Region
	extents []source.Extent
}

// read takes records until none comes for a while.
func (s *seen) read(quiet time.Duration) error {
	for last := time.Now(); time.Since(last) < quiet; time.Sleep(2 * time.Millisecond) {
		var failed error
		err := s.probe.Drain(func(b []byte) {
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
		return unlessOver(r.PID, err)
	case source.QP:
		if r.Mask&source.AttrDestQP != 0 && r.DestQP != 0 {
			s.r.Peers++
		}
		_, err := s.probe.AttachContext(r.Context)
		return unlessOver(r.PID, err)
	case source.Extended:
		_, err := s.probe.AttachExtended(r)
		return unlessOver(r.PID, err)
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

// unlessOver is err, of a process that still runs: what one did that has ended is
// seen, or is missed in what is counted.
func unlessOver(pid uint32, err error) error {
	if _, over := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); over != nil {
		return nil
	}
	return err
}

func (s *seen) extent(p source.Posted, e source.Extent) {
	s.r.Requests += uint64(e.Requests)
	s.r.Bytes += e.Bytes
	s.extents = append(s.extents, e)
	s.r.Ops[strconv.Itoa(int(e.Op))] += uint64(e.Requests)
	for _, g := range s.regions {
		if g.PID != p.PID && g.RKey == e.RKey && g.Addr <= e.Remote && e.Remote+e.Bytes <= g.Addr+g.Bytes {
			s.r.InRegion += e.Bytes
			return
		}
	}
}
