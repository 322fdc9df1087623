//go:build linux && amd64

package verbs

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/kvwitness/kvwitness/bpf/load"
)

// Limits of a Probe.
const (
	MaxObjects   = 256 // files attached to, libraries and providers
	MaxFunctions = 16  // attached to in one file
	maxSites     = MaxObjects * MaxFunctions
)

// ErrTooMany says that a limit of the Probe is reached.
var ErrTooMany = errors.New("too many")

// Counters, in the order of load.Probe.Counters.
const (
	RecordsSent = iota // records that the ring took
	RecordsLost        // records for which it had no room
	LostBusy           // calls in the middle of others on their CPU
	LostCalls          // calls whose beginning was not remembered
	LostObjects        // of RecordsLost: about contexts, queue pairs and registrations
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
	opts Options

	mu       sync.Mutex
	attached map[site]*attachment
	refused  map[site]bool // detached from for good
	same     map[file]file // files that are another's under an inode of their own
	sites    uint64        // numbers given to attachments
	// libraries that are attached to, by how /proc/PID/maps calls them.
	libraries map[mapping]int64
	closed    bool
}

// mapping is a file as /proc/PID/maps names it.
type mapping struct {
	dev   string
	inode uint64
}

// site is a place to attach to: a function of a file, whoever has it mapped.
type site struct {
	file   file
	offset uint64
	role   string
}

type attachment struct {
	id    uint64
	since int64 // ns, CLOCK_MONOTONIC
	links []link.Link
}

// Open loads the programs, and attaches nothing yet. It needs CAP_BPF and
// CAP_PERFMON, and attaching what [NeedsAdmin] says; an error says which step
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
	p := &Probe{opts: o, attached: map[site]*attachment{}, refused: map[site]bool{}, same: map[file]file{}, libraries: map[mapping]int64{}}
	if p.opts.PerfEvents = o.PerfEvents || NeedsAdmin(); !p.opts.PerfEvents {
		for _, program := range spec.Programs {
			program.AttachType = ebpf.AttachTraceUprobeMulti
		}
	}
	if p.Probe, err = load.Open(spec, load.Program{}, o.Options); err != nil {
		return nil, err
	}
	return p, nil
}

// NeedsAdmin reports whether the kernel asks for CAP_SYS_ADMIN to attach, as it does
// before Linux 6.6.
func NeedsAdmin() bool { return features.HaveBPFLinkUprobeMulti() != nil }

// Close detaches and unloads everything.
func (p *Probe) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	var errs []error
	for _, a := range p.attached {
		errs = append(errs, a.close())
	}
	return errors.Join(append(errs, p.Probe.Close())...)
}

func (a *attachment) close() error {
	var errs []error
	for _, l := range a.links {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// Allow lets the calls of a process through.
func (p *Probe) Allow(pid int) error {
	if err := p.Targets().Put(uint32(pid), uint64(1)); err != nil {
		return fmt.Errorf("watch process %d: %w", pid, err)
	}
	return nil
}

// on attaches programs to a function of a file, once, and returns since when they
// are.
func (p *Probe) on(in *library, offset uint64, role string, entry, exit string) (since int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var stat unix.Stat_t
	if err := unix.Fstat(int(in.file.Fd()), &stat); err != nil {
		return 0, fmt.Errorf("look at the file: %w", err)
	}
	at := site{file{stat.Dev, stat.Ino}, offset, role}
	if other, same := p.same[at.file]; same {
		at.file = other
	} else if other, same = p.known(in, offset, role); same && other != at.file && len(p.same) < maxSites {
		p.same[at.file], at.file = other, other
	}
	switch {
	case p.closed:
		return 0, os.ErrClosed
	case p.refused[at]:
		return 0, ErrAbused
	case p.attached[at] != nil:
		return p.attached[at].since, nil
	case len(p.attached)+len(p.refused) >= maxSites:
		return 0, fmt.Errorf("attach to more than %d functions: %w", maxSites, ErrTooMany)
	}
	file, err := link.OpenExecutable(in.path())
	if err != nil {
		return 0, fmt.Errorf("open: %w", err)
	}
	p.sites++
	a := &attachment{id: p.sites}
	for i, program := range [...]string{entry, exit} {
		if program == "" {
			continue
		}
		l, err := p.attach(file, role, program, offset, a.id, i == 1)
		if err != nil {
			return 0, errors.Join(fmt.Errorf("attach to %s at %#x: %w", role, offset, err), a.close())
		}
		a.links = append(a.links, l)
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, errors.Join(fmt.Errorf("read the clock: %w", err), a.close())
	}
	a.since = now.Nano()
	p.attached[at] = a
	return a.since, nil
}

// attach attaches one program, to the beginning of a function or to its return.
func (p *Probe) attach(file *link.Executable, role, program string, offset, id uint64, atReturn bool) (link.Link, error) {
	if !p.opts.PerfEvents {
		where := &link.UprobeMultiOptions{Addresses: []uint64{offset}, Cookies: []uint64{id}}
		if atReturn {
			return file.UretprobeMulti(nil, p.Program(program), where)
		}
		return file.UprobeMulti(nil, p.Program(program), where)
	}
	where := &link.UprobeOptions{Address: offset, Cookie: id}
	if atReturn {
		return file.Uretprobe(role, p.Program(program), where)
	}
	return file.Uprobe(role, p.Program(program), where)
}

// Refuse detaches from a place, named by [source.Posted.Site], whose hits are no
// calls of post_send, and lets nobody attach there again: a process may name any
// function of a provider as its own.
func (p *Probe) Refuse(id uint64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at, a := range p.attached {
		if a.id == id {
			delete(p.attached, at)
			p.refused[at] = true
			return a.close()
		}
	}
	return nil
}

// PostingCost is how often post_send was called and how long the program on it ran
// in all, if the kernel counts that.
func (p *Probe) PostingCost() (runs uint64, in time.Duration, err error) {
	return p.CostOf(probeProgPostSend)
}

// Completes reports whether completions are seen.
func (p *Probe) Completes() bool { return p.opts.Completions }
