//go:build linux && amd64

package ucp

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kvwitness/kvwitness/bpf/load"
	"github.com/kvwitness/kvwitness/bpf/target"
	"github.com/kvwitness/kvwitness/bpf/uprobe"
)

// Counters, in the order of load.Probe.Counters.
const (
	RecordsSent = iota // records that the ring took
	RecordsLost        // records for which it had no room
	LostCalls          // calls whose beginning was not remembered
	LostObjects        // of RecordsLost: about workers, endpoints and registrations
)

// ErrNoUCX says that a process has no UCX mapped.
var ErrNoUCX = errors.New("UCX is not mapped")

// Options say what a Probe does beyond puts and gets.
type Options struct {
	load.Options
	// Completions attaches to ucp_request_check_status too, with a return probe that
	// taxes every poll of a request. Without it bytes are over where a flush returns
	// at once, and else known to be posted.
	Completions bool
	// PerfEvents attaches by events of perf, as is done before Linux 6.6. It is for
	// tests.
	PerfEvents bool
}

// Probe is the loaded programs and what they are attached to. Watch, Uses and
// AttachLibrary are safe for concurrent use, also beside the methods of
// [load.Probe], which are for one goroutine.
type Probe struct {
	*load.Probe
	sites     *uprobe.Sites
	functions []uprobe.Function
	known     known
}

// theSymbol is what every UCX exports, and nothing else does.
const theSymbol = "ucp_put_nbx"

// functions are what is attached to. Puts and gets of other names, ucp_ep_flush_nb,
// ucp_worker_flush_nb, ucp_ep_close_nb, ucp_ep_destroy and ucp_disconnect_nb call
// these.
var functions = []uprobe.Function{
	{Name: theSymbol, Needed: true, Entry: probeProgMove, Exit: probeProgPut},
	{Name: "ucp_get_nbx", Needed: true, Entry: probeProgMove, Exit: probeProgGet},
	{Name: "ucp_ep_create", Needed: true, Entry: probeProgKeep, Exit: probeProgMadeEndpoint},
	{Name: "ucp_ep_close_nbx", Entry: probeProgCloseEndpoint},
	{Name: "ucp_worker_get_address", Needed: true, Entry: probeProgKeep, Exit: probeProgGotAddress},
	{Name: "ucp_worker_query", Entry: probeProgKeep, Exit: probeProgQueried},
	{Name: "ucp_worker_destroy", Entry: probeProgDestroyWorker},
	{Name: "ucp_mem_map", Entry: probeProgKeep, Exit: probeProgMapped},
	{Name: "ucp_mem_unmap", Entry: probeProgUnmap},
	{Name: "ucp_ep_flush_nbx", Entry: probeProgFlush, Exit: probeProgFlushedEndpoint},
	{Name: "ucp_worker_flush_nbx", Entry: probeProgFlush, Exit: probeProgFlushedWorker},
	{Name: "ucp_ep_flush", Entry: probeProgFlush, Exit: probeProgWaitedEndpoint},
	{Name: "ucp_worker_flush", Entry: probeProgFlush, Exit: probeProgWaitedWorker},
	{Name: "ucp_rkey_ptr", Entry: probeProgAround},
	{Name: "ucp_device_mem_list_create", Entry: probeProgAround},
	{Name: "ucp_device_remote_mem_list_create", Entry: probeProgAround},
}

// polled is attached to where completions are wanted.
var polled = uprobe.Function{Name: "ucp_request_check_status", Entry: probeProgKeep, Exit: probeProgChecked}

// Open loads the programs, and attaches nothing yet. It needs CAP_BPF and
// CAP_PERFMON, and attaching what [uprobe.NeedsAdmin] says; an error says which step
// failed.
func Open(o Options) (*Probe, error) {
	spec, err := loadProbe()
	if err != nil {
		return nil, fmt.Errorf("read the UCX programs: %w", err)
	}
	p := &Probe{functions: functions, known: known{}}
	if o.Completions {
		p.functions = append(p.functions[:len(functions):len(functions)], polled)
	}
	if p.Probe, p.sites, err = uprobe.Open(spec, o.PerfEvents, o.Options); err != nil {
		return nil, err
	}
	return p, nil
}

// Close detaches and unloads everything.
func (p *Probe) Close() error { return p.sites.Close() }

// Completes reports whether it is seen when requests are over.
func (p *Probe) Completes() bool { return len(p.functions) > len(functions) }

// Watch attaches to UCX as a process has it mapped, and returns since when all of it
// is (ns, CLOCK_MONOTONIC): what the process did with it before was not seen. A
// process that has not loaded it yet gives ErrNoUCX. maps are its mappings.
func (p *Probe) Watch(pid int, maps []target.Mapping) (since int64, err error) {
	isUCX := func(m target.Mapping) bool { return p.known.isUCX(pid, m) }
	since, n, err := p.sites.Each(pid, maps, isUCX, p.AttachLibrary)
	if err == nil && n == 0 {
		err = fmt.Errorf("process %d: %w", pid, ErrNoUCX)
	}
	return since, err
}

// Uses reports whether a process has UCX mapped.
func (p *Probe) Uses(pid int, maps []target.Mapping) bool {
	return slices.ContainsFunc(maps, func(m target.Mapping) bool { return m.Executable && m.Inode != 0 && p.known.isUCX(pid, m) })
}

// AttachLibrary attaches to a UCX, whoever has it mapped now or later.
func (p *Probe) AttachLibrary(path string) (since int64, err error) {
	l, err := uprobe.OpenLibrary(path, nil)
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return p.sites.Exports(l, p.functions)
}

// PuttingCost is how often puts were seen and how long the programs on their beginning
// and return ran in all, if the kernel counts that.
func (p *Probe) PuttingCost() (puts uint64, in time.Duration, err error) {
	_, begins, err := p.CostOf(probeProgMove)
	if err != nil {
		return 0, 0, err
	}
	puts, ends, err := p.CostOf(probeProgPut)
	return puts, begins + ends, err
}
