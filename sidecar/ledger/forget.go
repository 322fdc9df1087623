package ledger

import (
	"cmp"
	"slices"
)

// retire puts a room at the end of those that ended, once nothing of it goes
// on. Its verdict follows after the settle time, or when it is forgotten.
func (l *Ledger) retire(rm *room) {
	if !rm.listed && !rm.gone && rm.quiet() {
		l.enlist(rm)
	}
}

func (l *Ledger) enlist(rm *room) {
	if rm.listed || rm.gone {
		return
	}
	rm.listed = true
	for _, r := range rm.reqs {
		l.old(r)
	}
	l.ended = append(l.ended, rm)
	if !l.cfg.HoldVerdicts {
		l.timers.add(timer{at: l.now + l.settleTime(), room: rm})
	}
	for len(l.ended)-l.gone > l.cfg.Limits.Ended {
		l.forgetOldest()
	}
	if l.gone > len(l.ended)/2 {
		l.ended = append(l.ended[:0], l.ended[l.gone:]...)
		l.gone = 0
	}
}

// forgetOldest forgets the room that ended first, unless it lives again.
func (l *Ledger) forgetOldest() {
	rm := l.ended[l.gone]
	l.ended[l.gone] = nil
	l.gone++
	if !rm.gone && !rm.quiet() && l.rooms[rm.id] == rm {
		rm.listed = false
		for _, r := range rm.reqs {
			l.young(r)
		}
		return
	}
	l.stats.Forgotten.Ended++
	l.forgetRoom(rm)
}

// forgetRoom gives the verdicts of a room and lets go of all that it had.
func (l *Ledger) forgetRoom(rm *room) {
	if rm.gone {
		return
	}
	l.sayVerdicts(rm)
	rm.gone = true
	for _, t := range rm.transfers {
		l.forgetTransfer(t)
	}
	for _, h := range rm.handoffs {
		delete(h.recv.waiting, h)
		h.judged = true
	}
	for _, r := range rm.reqs {
		l.forgetRequest(r)
	}
	if l.rooms[rm.id] == rm {
		delete(l.rooms, rm.id)
	}
	l.bury(rm)
}

// forgetRequest lets go of a request. Pages that it still holds are then held
// by nobody who could be asked, so nothing more is known of its instance's
// pages until they are handed out again.
func (l *Ledger) forgetRequest(r *request) {
	if r.gone {
		return
	}
	r.gone = true
	l.old(r)
	l.unlist(r)
	if (r.owned > 0 || len(r.shares) > 0) && !r.wire {
		for _, pl := range r.inst.pools {
			if pl != nil {
				pl.knownFrom = l.tick + 1
			}
		}
	}
	l.forgetRequestID(r)
	l.parties.leave(r.party)
}

// forgetRequestID lets another request have the id.
func (l *Ledger) forgetRequestID(r *request) {
	if r.inst.reqs[r.id] == r {
		delete(r.inst.reqs, r.id)
	}
}

// young puts a request among those that have not ended, and makes room for it.
func (l *Ledger) young(r *request) {
	if r.listed || r.gone {
		return
	}
	r.listed = true
	r.older, r.newer = l.newest, nil
	if l.newest != nil {
		l.newest.newer = r
	} else {
		l.oldest = r
	}
	l.newest = r
	l.live++
	for l.live > l.cfg.Limits.Requests && l.oldest != r {
		l.stats.Forgotten.Requests++
		unsee(l.oldest.room, nil, "more requests were open than are remembered")
		l.forgetRoom(l.oldest.room)
	}
}

// old takes a request from those that have not ended.
func (l *Ledger) old(r *request) {
	if !r.listed {
		return
	}
	r.listed = false
	l.live--
	if r.older != nil {
		r.older.newer = r.newer
	} else {
		l.oldest = r.newer
	}
	if r.newer != nil {
		r.newer.older = r.older
	} else {
		l.newest = r.older
	}
	r.older, r.newer = nil, nil
}

// finish is the end: what waits is judged, and every verdict given.
func (l *Ledger) finish() {
	for _, inst := range l.sortedInstances() {
		for len(inst.pending) > 0 {
			inst.pending[0].due = l.now
			l.mature(inst, maxStep)
		}
	}
	rooms := slices.DeleteFunc(l.byAge, func(rm *room) bool { return rm.gone })
	for _, rm := range rooms {
		for _, h := range rm.handoffs {
			l.judge(h, h.lastOK, h.node)
		}
	}
	for _, inst := range l.sortedInstances() {
		l.answer(inst)
	}
	for _, rm := range rooms {
		l.sayVerdicts(rm)
	}
}

// maxStep is after every step that a fact can say.
const maxStep = 1<<63 - 1

func (l *Ledger) sortedInstances() []*instance {
	all := make([]*instance, 0, len(l.insts))
	for _, inst := range l.insts {
		all = append(all, inst)
	}
	slices.SortFunc(all, func(a, b *instance) int { return cmp.Compare(a.name, b.name) })
	return all
}
