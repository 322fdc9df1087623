package ledger

import (
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// room joins the halves of a request: its requests on the instances, its
// transfers, its handoffs, and who rejected it. A request without a room has
// one of its own, without an id.
type room struct {
	id        string
	reqs      []*request
	first     [2]*request // where reqs begins
	transfers []*transfer
	handoffs  []*handoff
	rejects   []rejection
	digests   []digest
	reserved  []*instance // where pages were reserved for it by nobody's name

	begunBefore *[]*instance // what is handed to them may have begun out of sight

	synthetic bool
	violated  string // why, "" if not
	unseen    []unseen
	named     *instance // that named it first
	lastEnd   int64     // applied time at which a transfer of it ended last
	listed    bool      // stands in the queue of ended rooms
	said      bool      // its verdicts were given
	revised   bool      // and given again
	late      bool      // a fact that came too late named it
	gone      bool      // forgotten
}

// unseen is something that was not seen of a room at one of its instances, nil
// for all of them; the first for each is kept.
type unseen struct {
	inst *instance
	what string
	own  bool // it bears on what inst itself read, not on what it sent
}

// rejection is a request_rejected that is in force.
type rejection struct {
	inst *instance
	tick uint64
	t    int64
}

// unsee says what was not seen of a room.
func unsee(rm *room, inst *instance, what string) {
	if rm == nil {
		return
	}
	for _, u := range rm.unseen {
		if u.inst == inst && !u.own {
			return
		}
	}
	rm.unseen = append(rm.unseen, unseen{inst: inst, what: what})
}

// unseeRead says that it is not known what an instance read. It leaves what the
// instance sent as it is: that is judged where it arrives.
func unseeRead(rm *room, inst *instance, what string) {
	for _, u := range rm.unseen {
		if u.inst == inst && u.own {
			return
		}
	}
	rm.unseen = append(rm.unseen, unseen{inst, what, true})
}

// blankAt reports whether something of the room was not seen at an instance.
func (rm *room) blankAt(inst *instance) bool {
	for _, u := range rm.unseen {
		if !u.own && (u.inst == nil || u.inst == inst) {
			return true
		}
	}
	return false
}

// roomFor finds or begins a room; "" begins a private one.
func (l *Ledger) roomFor(id string) *room {
	if id != "" {
		if rm := l.rooms[id]; rm != nil {
			return rm
		}
	}
	rm := &room{id: id}
	rm.reqs = rm.first[:0]
	if id != "" {
		l.rooms[id] = rm
	}
	if len(l.byAge) > 2*l.alive+maxGone {
		l.byAge = slices.DeleteFunc(l.byAge, func(rm *room) bool { return rm.gone })
	}
	l.byAge = append(l.byAge, rm)
	l.alive++
	return rm
}

// maxGone is how many rooms beyond those that are alive may wait to be taken off
// the list of all.
const maxGone = 1024

// bury takes a room from those that are alive.
func (l *Ledger) bury(rm *room) {
	rm.gone = true
	l.alive--
}

// boundRooms forgets the oldest rooms beyond what requests and their ends can
// account for: those of which no request is known need not ever end.
func (l *Ledger) boundRooms() {
	for l.alive > l.mostRooms {
		oldest := l.byAge[0]
		l.byAge = l.byAge[1:]
		if !oldest.gone {
			l.stats.Forgotten.Rooms++
			unsee(oldest, nil, "more rooms were open than are remembered")
			l.forgetRoom(oldest)
		}
	}
}

// on is the room's request on an instance, the latest if there were several.
func (rm *room) on(inst *instance) *request {
	for i := len(rm.reqs) - 1; i >= 0; i-- {
		if rm.reqs[i].inst == inst {
			return rm.reqs[i]
		}
	}
	return nil
}

func (l *Ledger) join(r *request, rm *room) {
	r.room = rm
	rm.reqs = append(rm.reqs, r)
	for _, h := range rm.handoffs {
		if h.recv == r.inst && h.req == nil {
			h.req = r
		}
	}
}

// rejoin moves a request whose room is said late from its private one.
func (l *Ledger) rejoin(r *request, rm *room) {
	old := r.room
	rm.rejects = append(rm.rejects, old.rejects...)
	rm.violated = firstOf(rm.violated, old.violated)
	for _, u := range old.unseen {
		if u.own {
			unseeRead(rm, u.inst, u.what)
		} else {
			unsee(rm, u.inst, u.what)
		}
	}
	rm.synthetic = rm.synthetic || old.synthetic
	l.bury(old)
	l.join(r, rm)
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// quiet reports whether nothing of the room goes on any more.
func (rm *room) quiet() bool {
	for _, r := range rm.reqs {
		if !r.over() {
			return false
		}
	}
	for _, h := range rm.handoffs {
		if h.waits() {
			return false
		}
	}
	for _, tr := range rm.transfers {
		if tr.running() {
			return false
		}
	}
	return true
}

// allOver reports whether a warm-up may begin the room anew: its requests are
// over, where nothing says so with the judgement on what they received.
func (rm *room) allOver() bool {
	for _, r := range rm.reqs {
		h := rm.into(r.inst)
		if !r.over() || !r.inst.engine && !r.ended && (h == nil || !h.judged) {
			return false
		}
	}
	for _, h := range rm.handoffs {
		if h.waits() {
			return false
		}
	}
	return len(rm.reqs) > 0
}

// anew begins a room again under the same id (a new request came into a room
// whose request had ended).
func (l *Ledger) anew(rm *room) *room {
	for _, h := range rm.handoffs {
		if !h.judged {
			l.judge(h, l.now, "the room began anew")
		}
	}
	if rm.id != "" {
		delete(l.rooms, rm.id)
	}
	l.enlist(rm)
	return l.roomFor(rm.id)
}

// renews reports whether a request admitted to the room begins it anew.
func (rm *room) renews(inst *instance, req string) bool {
	r := rm.on(inst)
	return r != nil && r.id != req && r.ended
}

// rejectedBy returns the rejection by inst in force, or nil.
func (rm *room) rejectedBy(inst *instance) *rejection {
	for i := range rm.rejects {
		if rm.rejects[i].inst == inst {
			return &rm.rejects[i]
		}
	}
	return nil
}

// givenUp reports whether a half of the room was aborted or rejected: what is
// then missing need not come.
func (rm *room) givenUp() bool {
	for _, r := range rm.reqs {
		if r.aborted {
			return true
		}
	}
	return len(rm.rejects) > 0
}

func (rm *room) forgive(inst *instance) {
	kept := rm.rejects[:0]
	for _, rej := range rm.rejects {
		if rej.inst != inst {
			kept = append(kept, rej)
		}
	}
	rm.rejects = kept
}

// touch notes progress of every request that a fact names.
func (l *Ledger) touch(r *request, rm *room) {
	if r != nil {
		l.progress(r)
	}
	if rm != nil {
		for _, half := range rm.reqs {
			if half != r {
				l.progress(half)
			}
		}
	}
}

// roomOf is the room that a fact is about, or nil.
func (l *Ledger) roomOf(f *lifecycle.Fact) *room {
	if f.Room != "" {
		return l.rooms[f.Room]
	}
	return nil
}
