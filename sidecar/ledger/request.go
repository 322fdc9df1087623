package ledger

import (
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// request is one request on one instance. Those of one room belong together;
// a request without a room has a room of its own.
type request struct {
	inst   *instance
	id     string
	room   *room
	party  partyID
	prompt lifecycle.Opt[int64] // tokens
	prefix lifecycle.Opt[int64] // tokens already present on this instance

	shares   spans    // references on pages of others
	past     spans    // references given back, with step and time
	lost     spans    // pages handed out to others while it held them
	lostMore bool     // than are remembered
	given    []given  // its pages in the order of its tokens
	few      [1]given // where given and past begin
	back     [1]span
	owned    int // pages that it reserved and still holds

	admitted  uint64 // tick of its last admission, 0: none was seen
	reserved  bool   // it was given pages, be they given back
	aborted   bool   // said by this instance, and not admitted again since
	ended     bool   // finished, rejected or aborted
	finished  bool
	synthetic bool
	stalled   bool
	listed    bool  // among those that have not ended
	lastT     int64 // applied time of the last fact that named it
	read      bool
	readBlank bool // read a page of which nothing is known
	readFar   bool // read a page that was not written locally
	gone      bool // forgotten
	wire      bool // stands for a room of which no request is known

	older, newer  *request // requests that have not ended, by age
	idler, busier *request // requests that hold pages, by their last progress
	holding       bool     // stands among them
}

// given are pages that a request was given, in the order of its tokens.
type given struct {
	pool         int32
	first, count uint32
	tick         uint64
	shared       bool
}

// holds reports whether r has a reference on the page's present generation.
func (r *request) holds(pl *pool, at uint32, p *page) bool {
	if p.owner == r.party && p.flags&ownerRef != 0 {
		return true
	}
	return r.sharing(pl, at, p)
}

func (r *request) sharing(pl *pool, at uint32, p *page) bool {
	if len(r.shares) == 0 {
		return false
	}
	s := r.shares.find(pl.index, at)
	return s != nil && s.tick >= p.born
}

// give remembers the order of a request's pages, which is that of its tokens.
func (r *request) give(l *Ledger, pl *pool, run lifecycle.Run, tick uint64, shared bool) {
	r.takenBack(pl)
	r.reserved = true
	if n := len(r.given); n > 0 {
		last := &r.given[n-1]
		if last.pool == pl.index && last.first+last.count == run.First && last.tick == tick && last.shared == shared {
			last.count += run.Count
			return
		}
		if n >= l.cfg.Limits.Releases {
			l.stats.Forgotten.Given++
			unsee(r.room, r.inst, "the request has more runs of pages than are remembered")
			return
		}
	}
	r.given = append(r.given, given{pl.index, run.First, run.Count, tick, shared})
}

// takenBack forgets the pages of a pool if the first of them was given back: the
// request was retracted, and what it is given now begins its tokens anew. If it
// was the last ones, they are given anew.
func (r *request) takenBack(pl *pool) {
	back := func(g given) bool {
		p := &pl.pages[g.first]
		return p.flags&null == 0 && (p.born > g.tick || !r.holds(pl, g.first, p))
	}
	for _, g := range r.given {
		if g.pool != pl.index {
			continue
		}
		if back(g) {
			r.given = slices.DeleteFunc(r.given, func(g given) bool { return g.pool == pl.index })
		}
		break
	}
	for n := len(r.given); n > 0 && r.given[n-1].pool == pl.index && back(r.given[n-1]); n-- {
		r.given = r.given[:n-1]
	}
}

// over reports whether nothing more is to come of r by its own engine's word. An
// instance without a stream says no end, and a sending half may say none.
func (r *request) over() bool {
	if r.wire || !r.inst.engine {
		return true
	}
	sender := len(r.room.handoffs) > 0 && r.room.into(r.inst) == nil
	return r.owned == 0 && len(r.shares) == 0 && (r.ended || sender && !r.going())
}

// remember notes a reference that was given back, within the limit.
func (r *request) remember(l *Ledger, s span) {
	if s.count == 0 {
		return
	}
	r.past.add(s)
	if len(r.past) > l.cfg.Limits.Releases {
		r.past = append(r.past[:0], r.past[len(r.past)/2:]...)
		l.stats.Forgotten.Releases++
	}
}

// request finds or begins the request id on inst; room may name its room.
func (l *Ledger) request(inst *instance, id, roomID string) *request {
	if id == "" {
		return nil
	}
	r := inst.reqs[id]
	if r == nil {
		if r = l.christen(inst, id, roomID); r != nil {
			return r
		}
		r = &request{inst: inst, id: id}
		r.given, r.past = r.few[:0], r.back[:0]
		r.party = l.parties.add(party{req: r, inst: inst.name, id: id})
		inst.reqs[id] = r
		l.join(r, l.roomFor(roomID))
		l.young(r)
	} else if roomID != "" && r.room.id == "" {
		l.rejoin(r, l.roomFor(roomID))
	}
	return r
}

// nameless begins the request of a room on an instance of which only the wire
// tells, before anybody said its id.
func (l *Ledger) nameless(inst *instance, rm *room) *request {
	r := &request{inst: inst, wire: true}
	r.party = l.parties.add(party{req: r, inst: inst.name})
	l.join(r, rm)
	return r
}

// christen gives the request of a room its id, if it had none until now.
func (l *Ledger) christen(inst *instance, id, roomID string) *request {
	rm := l.rooms[roomID]
	if rm == nil || roomID == "" {
		return nil
	}
	r := rm.on(inst)
	if r == nil || r.id != "" || r.gone {
		return nil
	}
	r.id, r.wire = id, false
	l.parties.all[r.party].id = id
	inst.reqs[id] = r
	l.young(r)
	return r
}

// who is the request that a fact speaks of: by req, else by room.
func (l *Ledger) who(inst *instance, f *lifecycle.Fact) *request {
	if f.Req != "" {
		return l.request(inst, f.Req, f.Room)
	}
	if rm := l.rooms[f.Room]; rm != nil && f.Room != "" {
		return rm.on(inst)
	}
	return nil
}

// eachHolder calls each for the live requests that hold the page.
func (l *Ledger) eachHolder(pl *pool, at uint32, each func(*request)) {
	p := &pl.pages[at]
	others := p.refs
	if p.flags&ownerRef != 0 {
		others--
		if r := l.parties.all[p.owner].req; r != nil {
			each(r)
		}
	}
	if others == 0 {
		return
	}
	for _, r := range pl.inst.reqs {
		if r.sharing(pl, at, p) {
			each(r)
		}
	}
}

// going reports whether what happens to r now bears on a verdict: it has not
// ended, and if it is the sending half, what it sends is not judged yet.
func (r *request) going() bool {
	sends := false
	for _, h := range r.room.handoffs {
		switch {
		case h.recv == r.inst && r.inst.engine:
			return !r.ended
		case h.recv == r.inst || h.sentBy(r.inst):
			if sends = true; h.waits() {
				return true
			}
		}
	}
	return r.inst.engine && !sends && !r.ended
}

// domain is the isolation that the engine was told to keep for r.
func (r *request) domain(l *Ledger) lifecycle.Opt[string] { return l.parties.all[r.party].domain }
