package load

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
)

// The maps that every probe has. Counters are an array of sums over all CPUs.
const (
	targetsMap     = "targets"
	connectionsMap = "connections"
	ringMap        = "ring"
	countersMap    = "counters"
)

// MaxTargets is how many processes can be watched at a time.
const MaxTargets = 4096

// Options change a probe before it is loaded.
type Options struct {
	// Targets is the map of another probe's, to be shared; nil: one of its own.
	Targets *ebpf.Map
	// RingBytes is the size of the ring, a power of two; 0: as it was compiled.
	RingBytes int
}

// Probe is a loaded and attached program. Its methods are for one goroutine.
type Probe struct {
	collection *ebpf.Collection
	program    string
	link       link.Link
	ring       *ringbuf.Reader
	record     ringbuf.Record
	counted    int
}

// Program is the program of a probe and the raw tracepoint that it hangs on; none
// for a probe that its package attaches itself.
type Program struct{ Name, Tracepoint string }

// Open loads a probe and attaches its program, if it has one.
func Open(spec *ebpf.CollectionSpec, program Program, o Options) (*Probe, error) {
	var with ebpf.CollectionOptions
	if o.Targets != nil {
		with.MapReplacements = map[string]*ebpf.Map{targetsMap: o.Targets}
	}
	if o.RingBytes > 0 {
		spec.Maps[ringMap].MaxEntries = uint32(o.RingBytes)
	}
	coll, err := ebpf.NewCollectionWithOptions(spec, with)
	if err != nil {
		return nil, fmt.Errorf("load the programs: %w", explained(err))
	}
	p := &Probe{collection: coll, program: program.Name, counted: int(spec.Maps[countersMap].MaxEntries)}
	if p.ring, err = ringbuf.NewReader(coll.Maps[ringMap]); err != nil {
		coll.Close()
		return nil, fmt.Errorf("open the ring of the programs: %w", err)
	}
	// A ring that is polled is asked, not waited for.
	p.ring.SetDeadline(time.Unix(1, 0))
	if program.Name == "" {
		return p, nil
	}
	p.link, err = link.AttachRawTracepoint(link.RawTracepointOptions{Name: program.Tracepoint, Program: coll.Programs[program.Name]})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("attach %s to %s: %w", program.Name, program.Tracepoint, err), p.Close())
	}
	return p, nil
}

// explained gives the whole log of the verifier, where it speaks.
func explained(err error) error {
	var v *ebpf.VerifierError
	if errors.As(err, &v) {
		return fmt.Errorf("%w\n%+v", err, v)
	}
	return err
}

// Close detaches the program and takes it out of the kernel.
func (p *Probe) Close() error {
	var err error
	if p.link != nil {
		err = p.link.Close()
	}
	err = errors.Join(err, p.ring.Close())
	p.collection.Close()
	return err
}

// Targets is the map of watched processes.
func (p *Probe) Targets() *ebpf.Map { return p.collection.Maps[targetsMap] }

// Drain calls each with the records that are in the ring when it is called, which
// are at most as many as the ring holds. A record's bytes are valid during the call
// only.
func (p *Probe) Drain(each func([]byte)) error {
	for left := p.ring.AvailableBytes(); left > 0; {
		if err := p.ring.ReadInto(&p.record); err != nil {
			return fmt.Errorf("read the ring: %w", err)
		}
		each(p.record.RawSample)
		left -= (len(p.record.RawSample)+7)&^7 + recordHeader
	}
	return nil
}

// recordHeader is what the ring puts before a record, in bytes.
const recordHeader = 8

// Fill is how many bytes of the ring are in use, and its size.
func (p *Probe) Fill() (bytes, size int) { return p.ring.AvailableBytes(), p.ring.BufferSize() }

// Counters reads the probe's counters, summed over all CPUs.
func (p *Probe) Counters() ([]uint64, error) {
	out := make([]uint64, p.counted)
	var each []uint64
	for i := range out {
		if err := p.collection.Maps[countersMap].Lookup(uint32(i), &each); err != nil {
			return nil, fmt.Errorf("read counter %d: %w", i, err)
		}
		for _, n := range each {
			out[i] += n
		}
	}
	return out, nil
}

// Connections lists the inodes of the sockets that the probe follows.
func (p *Probe) Connections() ([]uint64, error) {
	m := p.collection.Maps[connectionsMap]
	var inodes []uint64
	var key, next uint64
	err := m.NextKey(nil, &next)
	for ; err == nil && len(inodes) < int(m.MaxEntries()); err = m.NextKey(key, &next) {
		inodes = append(inodes, next)
		key = next
	}
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil, fmt.Errorf("list connections: %w", err)
	}
	return inodes, nil
}

// Forget drops a socket that is gone.
func (p *Probe) Forget(inode uint64) error {
	err := p.collection.Maps[connectionsMap].Delete(inode)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("forget a connection: %w", err)
	}
	return nil
}

// Program is a program of the probe by its name; nil: it has none of that name.
func (p *Probe) Program(name string) *ebpf.Program { return p.collection.Programs[name] }

// Cost is how often the program ran and how long in all, if the kernel counts
// that (sysctl kernel.bpf_stats_enabled).
func (p *Probe) Cost() (runs uint64, in time.Duration, err error) {
	return p.CostOf(p.program)
}

// CostOf is [Probe.Cost] of one of several programs.
func (p *Probe) CostOf(name string) (runs uint64, in time.Duration, err error) {
	stats, err := p.Program(name).Stats()
	if err != nil {
		return 0, 0, fmt.Errorf("read the program's statistics: %w", err)
	}
	return stats.RunCount, stats.Runtime, nil
}
