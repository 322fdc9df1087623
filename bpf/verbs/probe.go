//go:build linux && amd64

package verbs

import (
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"

	"github.com/kvwitness/kvwitness/bpf/load"
	"github.com/kvwitness/kvwitness/bpf/uprobe"
)

// Counters, in the order of load.Probe.Counters.
const (
	RecordsSent = iota // records that the ring took
	RecordsLost        // records for which it had no room
	LostCalls          // calls whose beginning was not remembered
	LostObjects        // of RecordsLost: about contexts, queue pairs and registrations
	LostBusy           // calls in the middle of others on their CPU
	Calls              // of post_send that were followed
	Requests           // of these, and of the extended API
)

// Options say what a Probe does beyond posting.
type Options struct {
	load.Options
	// Completions attaches to the providers' poll_cq too, with a return probe
	// that taxes every empty poll. Without it a write is known to be posted, and
	// counts once its transfer completes.
	Completions bool
	// ShortChains follows 256 requests of a chain and needs no bpf_loop (before
	// Linux 5.17). It is for tests: Open finds out by itself.
	ShortChains bool
	// PerfEvents attaches by events of perf, as is done before Linux 6.6. It is for
	// tests too.
	PerfEvents bool
}

// Probe is the loaded programs and what they are attached to. The methods that
// attach and detach are safe for concurrent use, also beside those of
// [load.Probe], which are for one goroutine.
type Probe struct {
	*load.Probe
	sites       *uprobe.Sites
	completions bool
}

// Open loads the programs, and attaches nothing yet. It needs CAP_BPF and
// CAP_PERFMON, and attaching what [uprobe.NeedsAdmin] says; an error says which step
// failed.
func Open(o Options) (*Probe, error) {
	spec, err := loadProbe()
	if err != nil {
		return nil, fmt.Errorf("read the verbs programs: %w", err)
	}
	if o.ShortChains || features.HaveProgramHelper(ebpf.Kprobe, asm.FnLoop) != nil {
		if err := spec.Variables["have_loop"].Set(uint8(0)); err != nil {
			return nil, fmt.Errorf("prepare the verbs programs: %w", err)
		}
	}
	p := &Probe{completions: o.Completions}
	if p.Probe, p.sites, err = uprobe.Open(spec, o.PerfEvents, o.Options); err != nil {
		return nil, err
	}
	return p, nil
}

// Close detaches and unloads everything.
func (p *Probe) Close() error { return p.sites.Close() }

// Allow lets the calls of a process through.
func (p *Probe) Allow(pid int) error {
	if err := p.Targets().Put(uint32(pid), uint64(1)); err != nil {
		return fmt.Errorf("watch process %d: %w", pid, err)
	}
	return nil
}

// Refuse detaches from a place, named by [source.Posted.Site], whose hits are no
// calls of post_send, and lets nobody attach there again: a process may name any
// function of a provider as its own.
func (p *Probe) Refuse(id uint64) error { return p.sites.Refuse(id) }

// PostingCost is how often post_send was called and how long the program on it ran
// in all, if the kernel counts that.
func (p *Probe) PostingCost() (runs uint64, in time.Duration, err error) {
	return p.CostOf(probeProgPostSend)
}

// Completes reports whether completions are seen.
func (p *Probe) Completes() bool { return p.completions }
