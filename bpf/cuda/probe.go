//go:build linux && amd64

package cuda

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/kvwitness/kvwitness/bpf/load"
	"github.com/kvwitness/kvwitness/bpf/target"
	"github.com/kvwitness/kvwitness/bpf/uprobe"
)

// Counters, in the order of load.Probe.Counters.
const (
	RecordsSent = iota // records that the ring took
	RecordsLost        // records for which it had no room
	LostCalls          // calls about lent memory that were not remembered
	_                  // of probes that tell of what lasts
	LostCopies         // copies that are not told
)

// MaxDenied is how many patterns of versions may be denied.
const MaxDenied = 64

// Errors that callers tell apart.
var (
	ErrNoDriver = errors.New("libcuda is not mapped")
	ErrDenied   = errors.New("the driver's version is denied")
)

// Options say what a Probe does.
type Options struct {
	load.Options
	// Deny are patterns (path.Match) of driver versions that nothing is attached to.
	// Where there are some, a driver of no known version is denied too.
	Deny []string
	// Copies are told too: each is a record, and waits for two traps into the kernel.
	Copies bool
	// PerfEvents attaches by events of perf, as is done before Linux 6.6. It is for
	// tests.
	PerfEvents bool
}

// Probe is the loaded programs and what they are attached to. The methods that attach
// are safe for concurrent use, also beside those of [load.Probe], which are for one
// goroutine.
type Probe struct {
	*load.Probe
	deny   []string
	copies bool
	sites  *uprobe.Sites
}

// ValidDeny reports whether text may be a pattern of versions.
func ValidDeny(text string) bool {
	_, err := path.Match(text, "")
	return err == nil && text != "" && len(text) <= 64
}

// Open loads the programs, and attaches nothing yet. It needs CAP_BPF and CAP_PERFMON,
// and attaching what [uprobe.NeedsAdmin] says.
func Open(o Options) (*Probe, error) {
	spec, err := loadProbe()
	if err != nil {
		return nil, fmt.Errorf("read the CUDA programs: %w", err)
	}
	var key [8]byte
	_, _ = rand.Read(key[:]) // it never fails
	if err := spec.Variables["digest_key"].Set(binary.NativeEndian.Uint64(key[:])); err != nil {
		return nil, fmt.Errorf("prepare the CUDA programs: %w", err)
	}
	p := &Probe{deny: o.Deny, copies: o.Copies}
	if p.Probe, p.sites, err = uprobe.Open(spec, o.PerfEvents, o.Options); err != nil {
		return nil, err
	}
	return p, nil
}

// Close detaches and unloads everything.
func (p *Probe) Close() error { return p.sites.Close() }

// Watch attaches to libcuda as a process has it mapped, and returns since when all of it
// is (ns, CLOCK_MONOTONIC). A process that has not loaded it yet gives ErrNoDriver.
func (p *Probe) Watch(pid int) (since int64, err error) {
	maps, err := target.Mappings(pid)
	if err != nil {
		return 0, err
	}
	since, n, err := p.sites.Each(pid, maps, func(m target.Mapping) bool { return target.IsCUDA(m.Path) }, p.AttachLibrary)
	if err == nil && n == 0 {
		err = fmt.Errorf("process %d: %w", pid, ErrNoDriver)
	}
	return since, err
}

// AttachLibrary attaches to a libcuda, whoever has it mapped now or later.
func (p *Probe) AttachLibrary(name string) (since int64, err error) {
	version := ""
	l, err := uprobe.OpenLibrary(name, func(itself string) bool {
		version = target.CUDAVersion(itself)
		return target.IsCUDA(itself)
	})
	if err != nil {
		return 0, err
	}
	defer l.Close()
	if err := p.denied(version); err != nil {
		return 0, err
	}
	points, err := points(l.Object, p.copies)
	if err != nil {
		return 0, err
	}
	return p.sites.AttachAll(l, "libcuda", probeProgEnter, probeProgLeave, points)
}

// denied is an error where nothing is to be attached to a driver of that version.
func (p *Probe) denied(version string) error {
	if len(p.deny) > 0 && version == "" {
		return fmt.Errorf("%w: it cannot be told, and some are denied", ErrDenied)
	}
	for _, pattern := range p.deny {
		if hit, _ := path.Match(pattern, version); hit {
			return fmt.Errorf("%w: %s is %s", ErrDenied, version, pattern)
		}
	}
	return nil
}

// Cost is how often the programs ran and how long in all, if the kernel counts that:
// for each call two runs.
func (p *Probe) Cost() (runs uint64, in time.Duration, err error) {
	for _, name := range [...]string{probeProgEnter, probeProgLeave} {
		n, d, err := p.CostOf(name)
		if err != nil {
			return 0, 0, err
		}
		runs, in = runs+n, in+d
	}
	return runs, in, nil
}
