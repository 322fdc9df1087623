package verbs

import (
	"fmt"
	"net/netip"
)

// Bounds of what is remembered.
const (
	MaxProcesses = 4096
	MaxContexts  = 64      // of one process
	MaxPairs     = 1 << 14 // queue pairs of one process
	MaxRegions   = 1 << 14 // registrations of one process
)

// Destination is where a queue pair leads.
type Destination struct {
	GID netip.Addr // not valid: the other side is known by its LID
	LID uint32
	QP  uint32
}

// Local reports whether a GID is of this node.
type Local func(netip.Addr) bool

// Paths is what is known of the contexts and queue pairs of processes. It is for
// one goroutine.
type Paths struct {
	local     Local
	processes map[uint32]*process
	numbers   map[uint32]map[*Pair]bool // queue pairs by their number
	forgotten uint64
}

type process struct {
	contexts map[uint64]*context
	pairs    map[uint64]*Pair // by their address in the process
	numbered map[numbered]*Pair
	regions  map[uint64]Region
	around   string // why posts go by unseen that no context accounts for
	besides  string // the same, by what the probe found; may end
}

// numbered is how completions name a queue pair.
type numbered struct {
	context uint64
	number  uint32
}

type context struct {
	unseen string // why what it posts is not seen; "": it is
	since  int64  // ns, when that changed
	ends   bool   // completions are seen
}

// Pair is a queue pair of a process.
type Pair struct {
	Process  uint32
	Context  uint64
	QP       uint64 // its address in the process
	Number   uint32
	To       Destination
	leads    bool   // To is known
	at       int64  // ns, when it was connected
	met      uint32 // the process that it was found to lead to, 0: not yet
	requests requests
}

// NewPaths returns an empty Paths. local may be nil: only loopback is of this node.
func NewPaths(local Local) *Paths {
	if local == nil {
		local = func(netip.Addr) bool { return false }
	}
	return &Paths{local: local, processes: map[uint32]*process{}, numbers: map[uint32]map[*Pair]bool{}}
}

// Forgotten counts what was beyond a limit.
func (ps *Paths) Forgotten() uint64 { return ps.forgotten }

// of is a process; nil: there are too many.
func (ps *Paths) of(pid uint32) *process {
	p := ps.processes[pid]
	if p == nil && len(ps.processes) < MaxProcesses {
		p = &process{contexts: map[uint64]*context{}, pairs: map[uint64]*Pair{}, numbered: map[numbered]*Pair{}, regions: map[uint64]Region{}}
		ps.processes[pid] = p
	}
	if p == nil {
		ps.forgotten++
	}
	return p
}

// unattached is of a context that the probe has not attached to yet.
const unattached = "one of its devices has just been opened"

// Opened takes in that a device was opened, or that a context's queue pair has an
// API that is to be attached to: until the probe says that it is, it is unseen.
func (ps *Paths) Opened(pid uint32, id uint64, t int64) {
	p := ps.of(pid)
	if p == nil {
		return
	}
	if c := p.contexts[id]; c != nil {
		c.unseen, c.since = unattached, t
		return
	}
	if len(p.contexts) >= MaxContexts {
		ps.forgotten++
		p.around = fmt.Sprintf("it has more than %d contexts", MaxContexts)
		return
	}
	p.contexts[id] = &context{unseen: unattached, since: t}
}

// Attached takes in whether what a context posts is seen; id 0: what the process
// posts by others than those that are known. ends: so is how it ends.
func (ps *Paths) Attached(pid uint32, id uint64, t int64, why string, ends bool) {
	p := ps.of(pid)
	if p == nil {
		return
	}
	if id == 0 {
		p.besides = why
		return
	}
	if p.contexts[id] == nil {
		ps.Opened(pid, id, t)
	}
	if c := p.contexts[id]; c != nil {
		c.unseen, c.since, c.ends = why, t, ends
	}
}

// Bypassed takes in that a process got at the doorbell of a queue pair.
func (ps *Paths) Bypassed(pid uint32) {
	if p := ps.of(pid); p != nil {
		p.around = "it rings doorbells of its device itself, past libibverbs and UCX"
	}
}

// Modified takes in that a queue pair was modified, and returns it where it is
// connected anew.
func (ps *Paths) Modified(q *QP) *Pair {
	p := ps.of(q.PID)
	if p == nil {
		return nil
	}
	if p.contexts[q.Context.Context] == nil {
		ps.Opened(q.PID, q.Context.Context, q.Time)
	}
	c := p.pairs[q.QP]
	if c == nil || c.Number != q.Number || c.Context != q.Context.Context {
		ps.drop(p, c)
		if len(p.pairs) >= MaxPairs {
			ps.forgotten++
			p.around = fmt.Sprintf("it has more than %d queue pairs", MaxPairs)
			return nil
		}
		c = &Pair{Process: q.PID, Context: q.Context.Context, QP: q.QP, Number: q.Number}
		p.pairs[q.QP], p.numbered[numbered{c.Context, c.Number}] = c, c
		if ps.numbers[c.Number] == nil {
			ps.numbers[c.Number] = map[*Pair]bool{}
		}
		ps.numbers[c.Number][c] = true
	}
	const reset = 0
	if q.Mask&AttrState != 0 && q.State == reset {
		c.leads, c.met, c.requests = false, 0, requests{}
	}
	if q.Mask&AttrAV != 0 {
		c.To.LID, c.To.GID = q.DestLID, netip.Addr{}
		if q.GlobalGID {
			c.To.GID = netip.AddrFrom16(q.DestGID).Unmap()
		}
	}
	if q.Mask&AttrDestQP == 0 {
		return nil
	}
	c.To.QP, c.leads, c.met, c.at, c.requests = q.DestQP, true, 0, q.Time, requests{}
	return c
}

func (ps *Paths) drop(p *process, c *Pair) {
	if c == nil {
		return
	}
	delete(p.pairs, c.QP)
	delete(p.numbered, numbered{c.Context, c.Number})
	delete(ps.numbers[c.Number], c)
	if len(ps.numbers[c.Number]) == 0 {
		delete(ps.numbers, c.Number)
	}
}

// Destroyed takes in that a queue pair is no more, and returns it if it was known.
func (ps *Paths) Destroyed(pid uint32, qp uint64) *Pair {
	p := ps.processes[pid]
	if p == nil {
		return nil
	}
	c := p.pairs[qp]
	ps.drop(p, c)
	return c
}

// Closed takes in that a context is no more, and its queue pairs with it.
func (ps *Paths) Closed(pid uint32, id uint64) {
	p := ps.processes[pid]
	if p == nil {
		return
	}
	delete(p.contexts, id)
	for _, c := range p.pairs {
		if c.Context == id {
			ps.drop(p, c)
		}
	}
}

// Ended forgets a process.
func (ps *Paths) Ended(pid uint32) {
	p := ps.processes[pid]
	if p == nil {
		return
	}
	for _, c := range p.pairs {
		ps.drop(p, c)
	}
	delete(ps.processes, pid)
}

// Distrust forgets where queue pairs lead: records about them were lost. Those that
// connect anew are known again.
func (ps *Paths) Distrust() {
	for _, p := range ps.processes {
		for _, c := range p.pairs {
			c.leads, c.met, c.requests = false, 0, requests{}
		}
	}
}

// Find is the queue pair of a process that a record is about; nil: its connection
// was not seen.
func (ps *Paths) Find(pid uint32, qp uint64, number uint32) *Pair {
	p := ps.processes[pid]
	if p == nil {
		return nil
	}
	if c := p.pairs[qp]; c != nil && c.Number == number && c.leads {
		return c
	}
	return nil
}

// Of are the queue pairs of a process.
func (ps *Paths) Of(pid uint32, each func(*Pair)) {
	if p := ps.processes[pid]; p != nil {
		for _, c := range p.pairs {
			each(c)
		}
	}
}

// Uses reports whether a process has a device open, as far as is known.
func (ps *Paths) Uses(pid uint32) bool {
	p := ps.processes[pid]
	return p != nil && len(p.contexts) > 0
}

// Knows reports whether anything is known of a process.
func (ps *Paths) Knows(pid uint32) bool { return ps.processes[pid] != nil }

// Blind is why what a process posts is not all seen; "": it is.
func (ps *Paths) Blind(pid uint32) string {
	p := ps.processes[pid]
	switch {
	case p == nil:
		return "nothing is known of its devices"
	case p.around != "":
		return p.around
	case p.besides != "":
		return p.besides
	}
	why := ""
	for _, c := range p.contexts {
		if c.unseen != "" && (why == "" || c.unseen < why) {
			why = c.unseen
		}
	}
	return why
}

// Leads is where a queue pair leads: to a process of this node, else to an
// address; else it is said why that is not known.
func (ps *Paths) Leads(c *Pair) (pid uint32, to netip.Addr, why string) {
	switch {
	case c == nil || !c.leads:
		return 0, to, "a queue pair was connected unseen, before the witness was there or while records were lost: let it connect anew"
	case c.met != 0:
		return c.met, to, ""
	case !c.To.GID.IsValid():
		return 0, to, fmt.Sprintf("a queue pair leads to LID %d, which is no address of an instance", c.To.LID)
	case !c.To.GID.IsLoopback() && !ps.local(c.To.GID):
		return 0, c.To.GID, ""
	}
	for o := range ps.numbers[c.To.QP] {
		if o == c || !o.leads || o.To.QP != c.Number {
			continue
		}
		if pid != 0 && pid != o.Process {
			return 0, to, "queue pairs of several processes of this node answer to its numbers"
		}
		pid = o.Process
	}
	if pid == 0 {
		return 0, to, "a queue pair leads to this node, to no process that is watched"
	}
	c.met = pid
	return pid, to, ""
}

// Register takes in a registration, and reports whether the memory was not
// registered yet: each device has one of its own.
func (ps *Paths) Register(r *Region) bool {
	p := ps.of(r.PID)
	if p == nil {
		return false
	}
	if len(p.regions) >= MaxRegions {
		ps.forgotten++
		return false
	}
	known := p.registered(r)
	p.regions[r.MR] = *r
	return !known
}

func (p *process) registered(r *Region) bool {
	for _, o := range p.regions {
		if o.Addr == r.Addr && o.Bytes == r.Bytes {
			return true
		}
	}
	return false
}

// Deregister takes in the end of a registration, and reports whether it was the
// last of its memory.
func (ps *Paths) Deregister(pid uint32, mr uint64) (r Region, last bool) {
	p := ps.processes[pid]
	if p == nil {
		return r, false
	}
	r, known := p.regions[mr]
	delete(p.regions, mr)
	return r, known && !p.registered(&r)
}

// Regions are what a process has registered, each memory once.
func (ps *Paths) Regions(pid uint32, each func(Region)) {
	p := ps.processes[pid]
	if p == nil {
		return
	}
	type extent struct{ addr, bytes uint64 }
	told := map[extent]bool{}
	for _, r := range p.regions {
		if e := (extent{r.Addr, r.Bytes}); !told[e] {
			told[e] = true
			each(r)
		}
	}
}
