package cuda

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// Bounds of what is kept.
const (
	MaxProcesses = 1024
	MaxKept      = 1 << 18 // allocations, mappings and the like, over all processes
	MaxThreads   = 1 << 12 // of one process, whose last call is remembered
	MaxOverlap   = 1 << 6  // at one address: all but the last are being freed by other threads
	MaxLoans     = 1 << 12 // memory of one process that others opened
	MaxLent      = 1 << 14 // physical memory that one process lent, so that others may import it
	MaxPools     = 1 << 10 // that one process imported
	MaxDevices   = 1 << 8  // whose primary context one process uses
)

// Sort is what kind of memory is held.
type Sort uint8

// The sorts of memory.
const (
	Device   Sort = iota // by cuMemAlloc
	Unified              // by cuMemAllocManaged: it may lie on the host
	Stream               // by cuMemAllocAsync
	Physical             // by cuMemCreate, on a GPU
	Hosted               // by cuMemCreate, elsewhere
	Borrowed             // of another process, by cuIpcOpenMemHandle
	Reserved             // addresses by cuMemAddressReserve: no memory
	NumSort
)

var sorts = [NumSort]string{"device", "managed", "stream", "physical", "host", "borrowed", "reserved"}

func (s Sort) String() string { return sorts[s] }

// Account is what is known of a process.
type Account struct {
	Held [NumSort]uint64 // bytes
	// Allocated and Freed are bytes of Device, Unified, Stream, Physical and Hosted
	// since it was watched.
	Allocated, Freed uint64
	Calls            uint64 // that were seen
	Why              string // not all of it was seen, and why; empty: all was
}

// VRAM is what it holds of GPUs, in bytes. Managed memory counts: it may be there.
func (a Account) VRAM() uint64 {
	return a.Held[Device] + a.Held[Unified] + a.Held[Stream] + a.Held[Physical]
}

// Books are what is known of all processes. They are for one goroutine.
type Books struct {
	processes map[uint32]*process
	kept      int    // over all processes
	lost      string // why nothing is known of those that begin now; empty: it is
}

// NewBooks returns Books without entries.
func NewBooks() *Books { return &Books{processes: map[uint32]*process{}} }

// unattached is why nothing is known of a process at first, and unreturned why not now,
// where somebody else has an address already.
const (
	unattached = "it is not known whether all that it allocated was seen"
	unreturned = "a call that frees memory has not returned"
)

// Watched begins the books of a process, before any of its calls. Calls of others are
// looked at only where they are about memory of one that has books.
func (b *Books) Watched(pid uint32) {
	b.Ended(pid)
	if len(b.processes) == MaxProcesses {
		return
	}
	p := &process{books: b, why: unattached, live: map[place][]*life{}, last: map[uint32]act{}, loans: map[loan]loaned{}, contexts: map[uint64]int{}}
	if b.lost != "" {
		p.blind(b.lost)
	}
	b.processes[pid] = p
}

// Attached takes in whether all is seen that a process asks of the driver: why is the
// reason that it is not.
func (b *Books) Attached(pid uint32, why string) {
	p := b.processes[pid]
	switch {
	case p == nil:
	case why != "":
		p.blind(why)
	case p.why == unattached:
		p.why = ""
	}
}

// Lost makes all processes unknown, and those that are watched until Trust.
func (b *Books) Lost(why string) {
	b.lost = why
	for _, p := range b.processes {
		p.blind(why)
	}
}

// Trust ends a loss: a process that is watched from now on had no part in it.
func (b *Books) Trust() { b.lost = "" }

// Ended forgets a process, and the memory that it lent and borrowed.
func (b *Books) Ended(pid uint32) {
	if p := b.processes[pid]; p != nil {
		for _, all := range p.live {
			b.kept -= len(all)
		}
		delete(b.processes, pid)
	}
	for _, p := range b.processes {
		maps.DeleteFunc(p.loans, func(l loan, _ loaned) bool { return l.by == pid })
	}
}

// Account is what is known of a process.
func (b *Books) Account(pid uint32) Account {
	p := b.processes[pid]
	if p == nil {
		return Account{Why: unattached}
	}
	a := p.account
	if a.Why = p.why; a.Why == "" && p.dying > 0 {
		a.Why = unreturned
	}
	return a
}

// Each calls f with the processes, in order.
func (b *Books) Each(f func(pid uint32)) {
	for _, pid := range slices.Sorted(maps.Keys(b.processes)) {
		f(pid)
	}
}

// Opened is how much of a process's memory another has open.
type Opened struct {
	Owner, By uint32
	Bytes     uint64 // at least; 0: nothing any more
}

// Take takes in a call. opened is not nil where it opened or closed memory of another
// process.
func (b *Books) Take(r *Record) (opened *Opened) {
	switch r.Kind {
	case Open, Close, Import, ImportPool:
		opened = b.lend(r)
	}
	p := b.processes[r.PID]
	if p == nil {
		return opened
	}
	if r.Copies() {
		return nil
	}
	p.account.Calls++
	if r.Flags != 0 {
		p.blind("its memory could not be read")
		return opened
	}
	p.take(r)
	return opened
}

// lend notes that a process opened or closed memory of another. What it imported is open
// from then on.
func (b *Books) lend(r *Record) *Opened {
	owner := b.processes[r.Owner]
	if owner == nil || r.Owner == r.PID {
		return nil
	}
	l, of := loan{r.PID, place{borrowed, r.Base}}, loaned{at: r.Other}
	switch r.Kind {
	case Open:
		of.bytes = owner.sizeAt(r.Other)
	case Import, ImportPool:
		if l.at.of, of.chunk = handle, owner.lentAt(r.Other); of.chunk == nil {
			return nil // it is not known that this was the owner's own
		}
		of.at, of.bytes = 0, of.chunk.bytes
	}
	if r.Kind == Close {
		delete(owner.loans, l)
	} else if len(owner.loans) < MaxLoans {
		owner.loans[l] = of
	}
	return &Opened{Owner: r.Owner, By: r.PID, Bytes: owner.openTo(r.PID)}
}

// Span is memory from Low to before High.
type Span struct{ Low, High uint64 }

// From is how many bytes from an address on a process has memory at: 0 where it has
// none there.
func (b *Books) From(pid uint32, at uint64) uint64 {
	p := b.processes[pid]
	if p == nil {
		return 0
	}
	all := p.memory()
	n, _ := slices.BinarySearchFunc(all, at, func(s Span, at uint64) int {
		if s.High <= at {
			return -1
		}
		return cmp.Compare(s.Low, at) // the one that holds it, or the next
	})
	if n < len(all) && all[n].Low <= at && at < all[n].High {
		return all[n].High - at
	}
	if n > 0 && all[n-1].Low <= at && at < all[n-1].High {
		return all[n-1].High - at
	}
	return 0
}

// memory is where a process has memory, in order, what touches as one.
func (p *process) memory() []Span {
	if p.spans != nil {
		return p.spans
	}
	all := []Span{}
	for at, lives := range p.live {
		for _, l := range lives {
			if (at.of == linear || at.of == mapping || at.of == borrowed) && l.bytes > 0 {
				all = append(all, Span{at.base, at.base + min(l.bytes, math.MaxUint64-at.base)})
			}
		}
	}
	slices.SortFunc(all, func(a, b Span) int { return cmp.Compare(a.Low, b.Low) })
	n := 0
	for _, s := range all {
		if n > 0 && s.Low <= all[n-1].High {
			all[n-1].High = max(all[n-1].High, s.High)
			continue
		}
		all[n] = s
		n++
	}
	p.spans = all[:n]
	return p.spans
}
