//go:build linux && amd64

package verbs

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"github.com/kvwitness/kvwitness/bpf/target"
)

// Limits of a Probe.
const (
	MaxProcesses = 1024 // watched at a time; the map in probe.bpf.c has as many
	MaxObjects   = 256  // files attached to, libraries and providers
)

// ErrTooMany says that a limit of the Probe is reached.
var ErrTooMany = errors.New("too many")

// Options say what a Probe does beyond posting.
type Options struct {
	// Completions attaches to the providers' poll_cq too, with a return probe
	// that taxes every empty poll. Without it a write is known to be posted, and
	// counts once its transfer completes.
	Completions bool
	// ShortChains follows 256 requests of a chain and needs no bpf_loop (before
	// Linux 5.17). It is for tests: Load finds out by itself.
	ShortChains bool
}

// Probe is the loaded programs and what they are attached to. Its methods are
// safe for concurrent use; Read is for one reader.
type Probe struct {
	opts    Options
	objects verbsObjects
	reader  *ringbuf.Reader

	mu       sync.Mutex
	attached map[site]*attachment
	closed   bool
}

// site is a place to attach to: a function of a file, whoever has it mapped.
type site struct {
	dev, inode uint64
	offset     uint64
	role       string
}

type attachment struct {
	links []link.Link
}

// Load loads the programs. It needs CAP_BPF and CAP_PERFMON (or CAP_SYS_ADMIN);
// an error says which step failed.
func Load(opts Options) (*Probe, error) {
	spec, err := loadVerbs()
	if err != nil {
		return nil, fmt.Errorf("read the verbs programs: %w", err)
	}
	if opts.ShortChains || !hasLoop() {
		if err := spec.Variables["have_loop"].Set(uint8(0)); err != nil {
			return nil, fmt.Errorf("prepare the verbs programs: %w", err)
		}
	}
	p := &Probe{opts: opts, attached: map[site]*attachment{}}
	if err := spec.LoadAndAssign(&p.objects, nil); err != nil {
		return nil, fmt.Errorf("load the verbs programs: %w", err)
	}
	if p.reader, err = ringbuf.NewReader(p.objects.Records); err != nil {
		return nil, errors.Join(fmt.Errorf("open the ring buffer: %w", err), p.objects.Close())
	}
	return p, nil
}

// Close detaches and unloads everything; a Read in progress returns an error.
func (p *Probe) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	errs := []error{p.reader.Close()}
	for _, a := range p.attached {
		for _, l := range a.links {
			errs = append(errs, l.Close())
		}
	}
	return errors.Join(append(errs, p.objects.Close())...)
}

// Read waits until the deadline for a record and returns it decoded.
// os.ErrDeadlineExceeded: none came. The ring is not woken for each record, so
// the deadline should be some milliseconds.
func (p *Probe) Read(deadline time.Time) (any, error) {
	p.reader.SetDeadline(deadline)
	raw, err := p.reader.Read()
	if err != nil {
		return nil, err
	}
	return Decode(raw.RawSample)
}

// Watch attaches to libibverbs as the process has it mapped, and allows its
// calls. A process that has not loaded it yet gives ErrNoVerbs. Devices that it
// opened before are found by FindContexts.
func (p *Probe) Watch(pid int) error {
	maps, err := target.Mappings(pid)
	if err != nil {
		return err
	}
	var attached bool
	for _, m := range libraries(maps) {
		if err := p.AttachLibrary(m.File(pid)); err != nil {
			return fmt.Errorf("process %d, %s: %w", pid, m.Path, err)
		}
		attached = true
	}
	if !attached {
		return fmt.Errorf("process %d: %w", pid, ErrNoVerbs)
	}
	return p.Allow(pid)
}

// Allow lets the calls of a process through, which may load libibverbs later:
// they are seen if that file is attached to by then.
func (p *Probe) Allow(pid int) error {
	if err := p.objects.Watched.Put(uint32(pid), uint8(1)); err != nil {
		return fmt.Errorf("watch process %d: %w", pid, err)
	}
	return nil
}

// Unwatch lets no call of the process through any more. What is attached stays:
// other processes may have the same files mapped.
func (p *Probe) Unwatch(pid int) error {
	err := p.objects.Watched.Delete(uint32(pid))
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil
	}
	return err
}

// Counters are totals since Load, over all CPUs.
type Counters struct {
	LostRing  uint64 // records for which the ring had no room
	LostBusy  uint64 // calls in the middle of others on their CPU
	LostCalls uint64 // calls whose beginning was not remembered
	Calls     uint64 // of post_send that were followed
	Requests  uint64
}

// Counters reads them.
func (p *Probe) Counters() (Counters, error) {
	var c Counters
	for i, to := range []*uint64{&c.LostRing, &c.LostBusy, &c.LostCalls, &c.Calls, &c.Requests} {
		var each []uint64
		if err := p.objects.Counters.Lookup(uint32(i), &each); err != nil {
			return c, fmt.Errorf("read the counters of the verbs programs: %w", err)
		}
		for _, n := range each {
			*to += n
		}
	}
	return c, nil
}

// on attaches programs to a function of a file, once.
func (p *Probe) on(path string, offset uint64, role string, entry, exit *ebpf.Program) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return fmt.Errorf("look at the file: %w", err)
	}
	at := site{stat.Dev, stat.Ino, offset, role}
	if p.closed {
		return os.ErrClosed
	}
	if p.attached[at] != nil {
		return nil
	}
	if len(p.attached) >= MaxObjects*len(functions) {
		return fmt.Errorf("attach to more than %d files: %w", MaxObjects, ErrTooMany)
	}
	file, err := link.OpenExecutable(path)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	a := &attachment{}
	where := &link.UprobeOptions{Address: offset}
	if entry != nil {
		l, err := file.Uprobe(role, entry, where)
		if err != nil {
			return fmt.Errorf("attach to %s at %#x: %w", role, offset, err)
		}
		a.links = append(a.links, l)
	}
	if exit != nil {
		l, err := file.Uretprobe(role, exit, where)
		if err != nil {
			for _, l := range a.links {
				err = errors.Join(err, l.Close())
			}
			return fmt.Errorf("attach to the return of %s at %#x: %w", role, offset, err)
		}
		a.links = append(a.links, l)
	}
	p.attached[at] = a
	return nil
}

// PostingTime is how long the program on post_send has run, by the kernel's BPF
// statistics, which must be switched on.
func (p *Probe) PostingTime() (time.Duration, error) {
	stats, err := p.objects.PostSend.Stats()
	if err != nil {
		return 0, fmt.Errorf("read the run time of post_send: %w", err)
	}
	return stats.Runtime, nil
}
