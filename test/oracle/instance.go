package oracle

import (
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// instance is one engine process: what the present epoch of it has, and what
// is known of it over all epochs.
type instance struct {
	name     string
	node     string          // of the last claim about it
	nodes    map[string]bool // every node that ever spoke of it
	engine   bool            // a fact of src engine was applied
	stream   bool            // one of engine or wire was
	missed   bool            // it was attached late, or facts of it were lost
	step     int64           // the latest that was said
	blindTo  int64           // steps until which who held a page may have been said before
	unsure   bool            // so is the step that is said next
	sighted  int             // the moment of the first of them, or of a pool
	epoch    epoch
	over     map[uint64]bool
	pools    map[string]*pool
	requests []*request // of every epoch, in the order they were named
	covers   map[coverKey]*cover
	regions  map[region]bool // registered; whether a finding named them
	alien    map[int64]bool  // pids that a finding named
	beyond   map[uint64]bool // addresses at which a finding said that memory is not the instance's
	opener   map[int64]bool  // pids that a finding said to have its memory open
	oversize bool            // its pools are larger than its processes; said so
}

func (o *oracle) inst(name string) *instance {
	i := o.insts[name]
	if i == nil {
		i = &instance{
			name: name, step: -1, blindTo: -1, nodes: map[string]bool{}, over: map[uint64]bool{}, pools: map[string]*pool{},
			covers: map[coverKey]*cover{}, regions: map[region]bool{}, alien: map[int64]bool{}, beyond: map[uint64]bool{}, opener: map[int64]bool{},
		}
		o.insts[name] = i
		o.instOrder = append(o.instOrder, i)
	}
	return i
}

// request is what one instance says of one request. A request without an id
// stands for "whatever this room has on this instance".
type request struct {
	inst      *instance
	id        string
	room      *room
	over      bool // its epoch ended
	admitted  bool
	domain    lifecycle.Opt[string]
	prompt    lifecycle.Opt[int64]
	prefix    lifecycle.Opt[int64]
	synthetic bool
	ended     bool // finished, aborted or rejected
	finished  bool
	aborted   bool
	stopped   bool  // aborted or rejected, and not admitted since
	lost      bool  // facts about it may have been lost since it was admitted
	named     int64 // when a fact named it last
	stalled   bool  // said so
	given     map[*pool][]given
	read      []reading
	readLate  bool   // it read a page that it had given back, within the step of that (R8)
	unseen    string // the first thing about it that was not seen, which tells on what it sends too
	unread    string // the same of what it read, which tells on nobody else
}

// reading is that a request read a page, and whether that was written locally
// by then.
type reading struct {
	gen   *generation
	step  lifecycle.Opt[int64]
	local bool
}

// given is a page that a request was handed, or shares.
type given struct {
	gen    *generation
	shared bool
}

func (r *request) blur(why string) {
	if r != nil && r.unseen == "" {
		r.unseen = why
	}
}

// blurRead: whether something that it read was written is not known (R9).
func (r *request) blurRead(why string) {
	if r != nil && r.unread == "" {
		r.unread = why
	}
}

// followed: everything that was said of it since its admission was heard, by
// an instance that says everything.
func (r *request) followed() bool { return r.begun() && r.inst.engine }

// begun: it was seen to be admitted, and nothing was lost since.
func (r *request) begun() bool { return r != nil && r.admitted && !r.lost }

// same reports whether two records are of one request, or may be: nobody said
// yet which request a room is on the instance, nor which room the other is.
func same(a, b *request) bool {
	if a == nil || b == nil || a.inst != b.inst {
		return false
	}
	return a == b || a.id == "" && b.room == nil || b.id == "" && a.room == nil
}

// holds reports whether the request has a reference on some page.
func (r *request) holds() bool {
	for _, p := range r.inst.pools {
		for _, pg := range p.pages {
			if pg.ref(r) != nil {
				return true
			}
		}
	}
	return false
}

// runs: it was named and did not end. Where no lifecycle stream would say that
// it ended, the judgement on its handoff does.
func (r *request) runs() bool {
	if r.ended || r.inst.engine && r.id != "" || r.room == nil {
		return !r.ended
	}
	return !slices.ContainsFunc(r.room.handoffs, func(h *handoff) bool {
		return h.receiver == r.inst.name && h.judged
	})
}

// name is the request's id; nothing where nobody knows it.
func (r *request) name() string {
	if r == nil {
		return ""
	}
	return r.id
}

// find is the request of that id in the instance's present epoch, nil where
// none was named yet.
func (i *instance) find(id string) *request {
	for _, r := range i.requests {
		if !r.over && r.id == id && id != "" {
			return r
		}
	}
	return nil
}

func (i *instance) request(id string) *request {
	r := i.find(id)
	if r == nil {
		r = &request{inst: i, id: id, given: map[*pool][]given{}}
		i.requests = append(i.requests, r)
	}
	return r
}

// live are the requests that run.
func (i *instance) live() (live []*request) {
	for _, r := range i.requests {
		if !r.over && r.runs() {
			live = append(live, r)
		}
	}
	return live
}

// promises reports whether the engine's stream is said to be complete for an
// event in a pool: only then does it mean something that nothing was said.
func (i *instance) promises(p *pool, ev lifecycle.Ev) bool {
	if p == nil || !i.engine {
		return false
	}
	if p.spec.Claims.Has {
		return slices.Contains(p.spec.Claims.V, ev)
	}
	return p.openedBy == lifecycle.Engine
}

// speaker finds the request that a fact is about, and makes it known: the one
// that it names, else the one that its room has on the instance. It is nil
// where the fact names neither.
func (o *oracle) speaker(f *lifecycle.Fact) *request {
	i := o.inst(f.Inst)
	switch {
	case f.Req != "":
		r := o.requestNamed(i, f)
		o.join(r, f)
		return r
	case f.Room != "":
		return o.room(f.Room).request(i)
	}
	return nil
}

// requestNamed is the request that f names by its id. Where the fact's room
// has a request without an id on the instance, this is the one.
func (o *oracle) requestNamed(i *instance, f *lifecycle.Fact) *request {
	if r := i.find(f.Req); r != nil {
		return r
	}
	if f.Room != "" {
		if r := o.room(f.Room).at[i.name]; r != nil && r.id == "" && !r.over {
			r.id = f.Req
			return r
		}
	}
	return i.request(f.Req)
}

// join notes that a request is the one of a room on its instance.
func (o *oracle) join(r *request, f *lifecycle.Fact) {
	if f.Room == "" || r.room != nil && r.room.id == f.Room {
		return
	}
	room := o.room(f.Room)
	if before := room.at[r.inst.name]; before != nil && before.id == "" && !before.over {
		o.merge(before, r)
	}
	r.room = room
	room.at[r.inst.name] = r
}

// merge makes everything of a request without an id one with an id's: it is
// said now which request the room is.
func (o *oracle) merge(nameless, r *request) {
	of := func(x **request) {
		if *x == nameless {
			*x = r
		}
	}
	for _, p := range r.inst.pools {
		for _, pg := range p.pages {
			of(&pg.gen.holder)
			for _, g := range pg.earlier {
				of(&g.holder)
			}
			for _, ref := range pg.refs {
				of(&ref.req)
			}
			for n := range pg.let {
				of(&pg.let[n].req)
			}
			for n := range pg.robbed {
				of(&pg.robbed[n])
			}
		}
		r.given[p] = append(r.given[p], nameless.given[p]...)
	}
	for _, t := range o.transfers {
		of(&t.toReq)
		of(&t.fromReq)
	}
	if nameless.unseen != "" {
		r.blur(nameless.unseen)
	}
	if nameless.unread != "" {
		r.blurRead(nameless.unread)
	}
}

// who is speaker for those who only ask: no request joins a room by it.
func (o *oracle) who(f *lifecycle.Fact) *request {
	i := o.inst(f.Inst)
	if r := i.find(f.Req); r != nil {
		return r
	}
	if room := o.rooms[f.Room]; room != nil {
		if r := room.at[i.name]; r != nil && (f.Req == "" || r.id == "") {
			return r
		}
	}
	if f.Req != "" {
		return i.request(f.Req)
	}
	return nil
}
