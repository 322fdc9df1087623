package cuda

// loan is memory that another process opened: where that has it.
type loan struct {
	by uint32
	at place
}

// loaned is what it is with its owner: at an address, or a chunk that it lent.
type loaned struct {
	at    uint64
	chunk *chunk
	bytes uint64 // 0: it is not known how much that is
}

// lent is what a process made memory of its own open to others by, and when: that names
// it.
type lent struct {
	t     int64
	chunk *chunk
}

// lentAt is what a process lent at a time; nil: nothing that is known to be its own.
func (p *process) lentAt(t uint64) *chunk {
	for i := range p.lent {
		if l := p.lent[len(p.lent)-1-i]; uint64(l.t) == t {
			return l.chunk
		}
	}
	return nil
}

// openTo is how much of a process's memory another has open, each piece once and at
// least; 0: nothing.
func (p *process) openTo(by uint32) (bytes uint64) {
	counted := map[loaned]bool{}
	for l, of := range p.loans {
		if l.by == by && !counted[of] {
			counted[of] = true
			bytes += max(1, of.bytes)
		}
	}
	return bytes
}

// lend notes what others may import from now on, if it is known to be the process's own:
// physical memory of a GPU, or a pool. Of too much the older half is forgotten.
func (p *process) lend(r *Record) {
	own := &chunk{}
	if r.Kind == Lend {
		l := p.at(place{handle, r.Base}, r.Entered)
		if l == nil || l.chunk.sort != Physical {
			return
		}
		own = l.chunk
	}
	if p.why != "" || r.Kind == LendPool && (p.foreign[r.Base] || len(p.foreign) == MaxPools) {
		return
	}
	if len(p.lent) == MaxLent {
		p.lent = append([]lent(nil), p.lent[MaxLent/2:]...)
	}
	p.lent = append(p.lent, lent{r.T, own})
}

func (p *process) importPool(r *Record) {
	if p.foreign == nil {
		p.foreign = map[uint64]bool{}
	}
	if len(p.foreign) < MaxPools {
		p.foreign[r.Base] = true
	}
}

// imported is the memory of a handle that was made of what somebody lent: of another
// process, or the process's own.
func (p *process) imported(r *Record) *chunk {
	owner := p.books.processes[r.Owner]
	if owner == nil {
		return &chunk{}
	}
	switch c := owner.lentAt(r.Other); {
	case c == nil:
		return &chunk{}
	case owner == p:
		return c
	default:
		return &chunk{bytes: c.bytes, sort: Borrowed}
	}
}

// borrow notes that it opened memory of another process. As long as nobody knows how
// much that is, not all is known.
func (p *process) borrow(r *Record) {
	bytes := uint64(0)
	if owner := p.books.processes[r.Owner]; owner != nil {
		bytes = owner.sizeAt(r.Other)
	}
	if bytes == 0 {
		p.blind("it opened memory of another process, and it is not known how much")
	}
	p.begin(r, borrowed, life{bytes: bytes, sort: Borrowed})
}

// sizeAt is the size of the allocation at an address; 0: it is not known.
func (p *process) sizeAt(addr uint64) uint64 {
	if all := p.live[place{linear, addr}]; len(all) > 0 {
		return all[len(all)-1].bytes
	}
	return 0
}
