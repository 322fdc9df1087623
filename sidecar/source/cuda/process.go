package cuda

// process is what is known of one.
type process struct {
	books    *Books
	account  Account
	why      string // not all of it was seen
	live     map[place][]*life
	dying    int            // lives whose place another has
	last     map[uint32]act // by thread
	loans    map[loan]loaned
	lent     []lent          // in the order in which it was told of
	foreign  map[uint64]bool // pools that are of others
	contexts map[uint64]int  // references on primary contexts, by device
	spans    []Span          // of its memory; nil: to be made anew
}

// thing is what has an address or a handle.
type thing uint8

const (
	linear thing = iota
	handle
	mapping
	reservation
	borrowed
)

// place is an address or a handle, at which something lives.
type place struct {
	of   thing
	base uint64
}

// life is what is at a place from when the call that made it returned. Several overlap
// where other threads get an address before the calls that freed it have returned.
type life struct {
	since int64
	bytes uint64
	sort  Sort
	chunk *chunk // of a handle and a mapping
	times int    // that a handle was given out
	dying bool   // another lives there: the call that ended this one has not returned
}

// chunk is physical memory: it lives while a handle or a mapping refers to it.
type chunk struct {
	bytes uint64
	sort  Sort
	refs  int
}

// act is the last call of a thread. A call that encloses it and is about the same is the
// same: one function of the driver called another.
type act struct {
	returned int64
	at       place
	made     *life // nil: it ended one
}

// skew is how far the kernel's quick clock may differ between processors, in ns.
const skew = 1e6

func (p *process) blind(why string) {
	if p.why == "" || p.why == unattached {
		p.why = why
	}
}

// take takes in a call.
func (p *process) take(r *Record) {
	switch r.Kind {
	case Alloc, Pitched:
		p.begin(r, linear, life{bytes: r.Bytes, sort: Device})
	case Managed:
		p.begin(r, linear, life{bytes: r.Bytes, sort: Unified})
	case Pooled:
		p.begin(r, linear, life{bytes: r.Bytes, sort: Stream})
	case Free:
		p.end(r, linear)
	case Create:
		sort := Hosted
		if r.OnDevice() {
			sort = Physical
		}
		p.begin(r, handle, life{chunk: &chunk{bytes: r.Bytes, sort: sort}})
	case Import:
		p.begin(r, handle, life{chunk: p.imported(r)})
	case Group:
		p.begin(r, handle, life{chunk: &chunk{}})
	case Retain:
		p.retain(r)
	case Release:
		p.end(r, handle)
	case Map:
		p.begin(r, mapping, life{bytes: r.Bytes, chunk: p.chunkOf(r)})
	case Unmap:
		p.unmap(r)
	case Reserve:
		p.begin(r, reservation, life{bytes: r.Bytes, sort: Reserved})
	case Unreserve:
		p.end(r, reservation)
	case Open:
		p.borrow(r)
	case Close:
		p.end(r, borrowed)
	case Lend, LendPool:
		p.lend(r)
	case ImportPool:
		p.importPool(r)
	case ContextEnd:
		p.endContext()
	case ContextRetain:
		if len(p.contexts) < MaxDevices {
			p.contexts[r.Base]++
		}
	case ContextRelease:
		if p.contexts[r.Base]--; p.contexts[r.Base] <= 0 {
			delete(p.contexts, r.Base)
			p.endContext()
		}
	case Unfollowed:
		p.blind("it used a function of the driver whose memory is not followed")
	case Unknown:
		p.blind("a call of it was not seen from its beginning")
	case Export:
	}
}

// endContext: what was in a context is gone without a call.
func (p *process) endContext() {
	if p.account.VRAM()+p.account.Held[Hosted]+p.account.Held[Borrowed] > 0 {
		p.blind("it ended a context, and with it memory that it did not free")
	}
}

// begin notes that something lives at a place. What lived there was freed before by a call
// that has not returned, of one thread or several: its record is yet to come.
func (p *process) begin(r *Record, of thing, l life) {
	at := place{of, r.Base}
	before, done := p.last[r.TID]
	if done && before.made != nil && before.at == at && r.Entered < before.returned {
		p.account.Allocated -= p.count(at, before.made, -1) // what was called within says less of it
		p.forget(at, before.made)
	}
	all := p.live[at]
	switch {
	case p.books.kept >= MaxKept:
		p.blind("it has more memory than can be followed")
		return
	case len(all) >= MaxOverlap:
		p.blind("it was given an address anew that it was not seen to free")
		return
	case len(all) > 0 && !all[len(all)-1].dying:
		all[len(all)-1].dying = true
		p.dying++
	}
	l.since, l.times = r.T, 1
	p.live[at] = append(all, &l)
	p.books.kept++
	p.spans = nil
	p.note(r, act{r.T, at, &l})
	p.account.Allocated += p.count(at, &l, 1)
}

// note remembers a thread's last call.
func (p *process) note(r *Record, a act) {
	if len(p.last) >= MaxThreads {
		clear(p.last)
	}
	p.last[r.TID] = a
}

// count counts what begins to live, or with sign -1 what does so no more, in what is
// held. It returns the bytes that were allocated, or freed.
func (p *process) count(at place, l *life, sign int) (bytes uint64) {
	bytes, sort := l.bytes, l.sort
	switch {
	case l.chunk != nil:
		before := l.chunk.refs
		l.chunk.refs += sign * l.times
		if before > 0 && l.chunk.refs > 0 {
			return 0 // others refer to it
		}
		bytes, sort = l.chunk.bytes, l.chunk.sort
	case at.of == mapping: // of memory that it was not seen to get
		return 0
	}
	p.account.Held[sort] += uint64(sign) * bytes // modulo 2^64
	if sort == Reserved || sort == Borrowed {
		return 0
	}
	return bytes
}

// forget takes a life from its place.
func (p *process) forget(at place, l *life) {
	all := p.live[at]
	for i, o := range all {
		if o != l {
			continue
		}
		p.spans = nil
		p.books.kept--
		if l.dying {
			p.dying--
		}
		if len(all) == 1 {
			delete(p.live, at)
			return
		}
		p.live[at] = append(all[:i:i], all[i+1:]...)
		return
	}
}

// at is what lived at a place when a call began: of several the last, as none was given
// out before the one before it was freed.
func (p *process) at(at place, entered int64) (found *life) {
	all := p.live[at]
	for _, l := range all {
		if l.since <= entered && (found == nil || l.since > found.since) {
			found = l
		}
	}
	if found == nil && len(all) > 0 && all[0].since-entered < skew {
		return all[0]
	}
	return found
}

// end notes that what lived at a place does so no more.
func (p *process) end(r *Record, of thing) {
	at := place{of, r.Base}
	l := p.at(at, r.Entered)
	before, done := p.last[r.TID]
	p.note(r, act{r.T, at, nil})
	switch {
	case done && before.made == nil && before.at == at && r.Entered < before.returned:
		return // a function that it called has done it
	case l == nil:
		p.blind("it gave back what it was not seen to get")
		return
	case l.times > 1:
		l.times--
		l.chunk.refs--
		return
	}
	p.account.Freed += p.count(at, l, -1)
	p.forget(at, l)
}

// chunkOf is the physical memory that a call maps; nil: it is not known.
func (p *process) chunkOf(r *Record) *chunk {
	if l := p.at(place{handle, r.Other}, r.Entered); l != nil {
		return l.chunk
	}
	p.blind("it mapped memory that it was not seen to get")
	return nil
}

// retain notes another reference on the physical memory at an address.
func (p *process) retain(r *Record) {
	of := p.mapped(r.Other)
	if of == nil || of.chunk == nil {
		p.blind("it asked for memory that it was not seen to map")
		return
	}
	if l := p.at(place{handle, r.Base}, r.Entered); l != nil && l.chunk == of.chunk {
		l.times++
		l.chunk.refs++
		return
	}
	p.begin(r, handle, life{chunk: of.chunk})
}

// mapped is the mapping that an address lies in.
func (p *process) mapped(addr uint64) *life {
	if l := p.live[place{mapping, addr}]; len(l) > 0 {
		return l[len(l)-1]
	}
	for at, all := range p.live {
		if l := all[len(all)-1]; at.of == mapping && at.base <= addr && addr-at.base < l.bytes {
			return l
		}
	}
	return nil
}

// unmap ends all mappings in a range.
func (p *process) unmap(r *Record) {
	at := place{mapping, r.Base}
	if l := p.at(at, r.Entered); l == nil || l.bytes >= r.Bytes {
		p.end(r, mapping)
		return
	}
	p.note(r, act{r.T, at, nil})
	var left []place
	for o := range p.live {
		if o.of == mapping && o.base >= r.Base && o.base-r.Base < r.Bytes {
			left = append(left, o)
		}
	}
	for _, o := range left {
		if l := p.at(o, r.Entered); l != nil {
			p.account.Freed += p.count(o, l, -1)
			p.forget(o, l)
		}
	}
}
