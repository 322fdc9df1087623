package ledger

import (
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// rejected_handoff: a rejected or aborted request went on as if it were not
// (hard case 6). A rejection is in force until the instance that gave it admits
// the request again.

// rejectedStart: the instance that rejected the request, or aborted it, starts
// a transfer of it.
func (l *Ledger) rejectedStart(c *call) {
	switch {
	case c.room.rejectedBy(c.inst) != nil:
		l.wentOn(c, "rejected", "then started a transfer")
	case c.req != nil && c.req.aborted:
		l.wentOn(c, "aborted", "then started a transfer")
	}
}

// rejectedCompletion: a transfer that the rejecting instance started afterwards
// is completed.
func (l *Ledger) rejectedCompletion(c *call) {
	t := c.tr
	if c.f.Outcome != lifecycle.OK {
		return
	}
	if rej := c.room.rejectedBy(t.send); rej != nil && (t.sendTick == 0 || t.sendTick > rej.tick) {
		l.wentOn(c, "rejected by "+t.send.name, "then its transfer was completed")
		return
	}
	if rej := c.room.rejectedBy(t.recv); rej != nil && t.recvTick > rej.tick {
		l.wentOn(c, "rejected by "+t.recv.name, "then its transfer was completed")
	}
}

// rejectedSuccess: the request of a room that was rejected is a success. It is
// none where every page that it read was written locally: a recompute.
func (l *Ledger) rejectedSuccess(c *call) {
	if !c.f.Success() {
		return
	}
	recomputed := c.req.read && !c.req.readFar && !c.inst.awaitsWrite(c.req)
	unsure := c.req.readBlank || c.req.admitted == 0 || !c.req.fullySeen() // it may have been recomputed out of sight
	if len(c.room.rejects) > 0 && !recomputed && !unsure {
		l.wentOn(c, "rejected by "+c.room.rejects[0].inst.name, "then finished as a success")
	} else if c.req.aborted {
		l.wentOn(c, "aborted", "then finished as a success")
	}
}

// abortedReservation: an aborted request is given pages by the instance that
// aborted it.
func (l *Ledger) abortedReservation(c *call) {
	if c.req != nil && c.req.aborted {
		l.wentOn(c, "aborted", "then pages were reserved for it")
	}
}

// wentOn accuses the instance that the fact is about, and its request.
func (l *Ledger) wentOn(c *call, claim, then string) {
	req := c.req
	if req == nil {
		req = c.room.on(c.inst)
	}
	b := l.accuse(finding.RejectedHandoff, c.inst, req, c.room, c.pool)
	b.say(claim+", "+then, "by its own word; not seen from outside")
	for _, run := range c.f.Pages {
		for at := run.First; c.pool != nil && at < run.End(); at++ {
			b.on(l, at, c.pool.pages[at].content)
		}
	}
}
