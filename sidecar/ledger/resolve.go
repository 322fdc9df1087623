package ledger

import (
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// resolve finds what a fact names, and begins the records of requests, rooms
// and peers that are named for the first time.
func (l *Ledger) resolve(inst *instance, f *lifecycle.Fact) (c call) {
	c.f, c.inst = f, inst
	if lacks(f) {
		c.void = true
		return c
	}
	switch f.Ev {
	case lifecycle.BytesMoved:
		return c
	case lifecycle.RequestAdmitted:
		l.renew(inst, f)
		c.req = l.request(inst, f.Req, f.Room)
		c.req.synthetic = c.req.synthetic || f.Synthetic
	case lifecycle.RequestRejected, lifecycle.RequestAborted, lifecycle.RequestFinished:
		c.req = l.request(inst, f.Req, f.Room)
	case lifecycle.PagesReserved, lifecycle.PagesShared, lifecycle.PagesWritten, lifecycle.PagesRead,
		lifecycle.PagesCached, lifecycle.PagesReleased, lifecycle.PagesEvicted:
		c.req = l.who(inst, f)
		l.resolvePages(&c)
	case lifecycle.TransferStarted:
		l.resolveStart(&c)
	case lifecycle.TransferCompleted, lifecycle.TransferDrained:
		l.resolveTransfer(&c)
	case lifecycle.ContentDigest:
		c.room = l.roomFor(f.Room)
	case lifecycle.PoolAudit, lifecycle.PoolClosed:
		c.pool = l.locate(inst, f.Pool, nil)
		c.void = c.pool == nil
	}
	if c.req != nil {
		c.room = c.req.room
		if c.req.inst != inst {
			c.void = true
		}
	}
	l.noteNaming(&c)
	l.touch(c.req, c.room)
	return c
}

// noteNaming keeps who named the room first (R15: its record begins with that), be it
// for a request that nobody knows.
func (l *Ledger) noteNaming(c *call) {
	if c.f.Room == "" {
		return
	}
	rm := c.room
	if rm == nil {
		rm = l.roomFor(c.f.Room)
	}
	if rm.named == nil && rm.id == c.f.Room {
		rm.named = c.inst
	}
}

// lacks reports whether a fact misses what its event must say; the decoder lets
// no such fact through.
func lacks(f *lifecycle.Fact) bool {
	switch f.Ev {
	case lifecycle.RequestAdmitted, lifecycle.RequestRejected, lifecycle.RequestAborted, lifecycle.RequestFinished,
		lifecycle.PagesShared, lifecycle.PagesRead, lifecycle.PagesReleased:
		return f.Req == "" || f.Inst == ""
	case lifecycle.TransferStarted, lifecycle.TransferCompleted, lifecycle.TransferDrained, lifecycle.ContentDigest:
		return f.Room == "" || f.Inst == ""
	case lifecycle.PoolOpened:
		return f.Spec == nil || f.Inst == ""
	case lifecycle.PoolAudit:
		return f.Audit == nil || f.Inst == ""
	case lifecycle.VRAMUsage:
		return f.VRAM == nil || f.Inst == ""
	case lifecycle.EventsLost, lifecycle.Watermark, lifecycle.ClockOffset:
		return false
	}
	return f.Inst == ""
}

func (l *Ledger) resolvePages(c *call) {
	var rm *room
	if c.req != nil {
		rm = c.req.room
	}
	c.pool = l.locate(c.inst, c.f.Pool, rm)
	c.void = c.pool == nil || !l.fits(c.pool, c.f.Pages, rm)
}

// renew begins a room anew where a new request comes into one whose request
// had ended, and a request anew where one comes under the id of another that
// had finished.
func (l *Ledger) renew(inst *instance, f *lifecycle.Fact) {
	if rm := l.roomOf(f); rm != nil && (rm.renews(inst, f.Req) || f.Synthetic && rm.allOver()) {
		l.anew(rm)
	}
	if r := inst.reqs[f.Req]; r != nil && r.finished && r.room.quiet() {
		l.anew(r.room)
		for _, half := range r.room.reqs {
			l.forgetRequestID(half)
		}
	}
}

// resolveStart finds or begins the transfer that a transfer_started names.
func (l *Ledger) resolveStart(c *call) {
	f := c.f
	peer := l.instance(f.Peer, f.Node)
	if peer == nil || peer == c.inst {
		c.void = true
		return
	}
	rm := l.roomFor(f.Room)
	if f.Side == lifecycle.Receiver {
		rm = l.renewByTransfer(rm, c.inst)
	}
	c.room = rm
	if f.Req != "" {
		c.req = l.request(c.inst, f.Req, f.Room)
		c.room = c.req.room
	} else {
		c.req = rm.on(c.inst)
	}
	recv, send := c.inst, peer
	if f.Side == lifecycle.Sender {
		recv, send = peer, c.inst
	}
	c.tr = l.transfer(c.room, recv, send, f.Xfer)
	c.pool = c.inst.byName[f.Pool]
	switch {
	case c.tr == nil:
		c.void = true
	case c.pool == nil && len(f.Pages) > 0:
		l.locate(c.inst, f.Pool, c.room)
	case c.pool != nil && !l.fits(c.pool, f.Pages, c.room):
		c.pool = nil
	}
}

// renewByTransfer begins a room anew where a receiver starts a transfer in one
// that was judged at it and whose request there has ended.
func (l *Ledger) renewByTransfer(rm *room, inst *instance) *room {
	h := rm.into(inst)
	r := rm.on(inst)
	if h == nil || !h.judged || r == nil || !r.ended {
		return rm
	}
	return l.anew(rm)
}

// resolveTransfer finds the transfer that a completion or a drain speaks of. A
// drain of one that nobody knows says nothing; a completion of one that nobody
// started begins a record, if one of the two is the receiver.
func (l *Ledger) resolveTransfer(c *call) {
	f := c.f
	peer := l.instance(f.Peer, f.Node)
	if peer == c.inst && peer != nil && f.Ev == lifecycle.TransferDrained {
		// The writer says so itself.
		c.room = l.roomFor(f.Room)
		c.tr = c.room.of(c.inst, f.Xfer)
		c.void = c.tr == nil
		return
	}
	if peer == nil || peer == c.inst {
		c.void = true
		return
	}
	c.room = l.roomFor(f.Room)
	c.tr = c.room.told(c.inst, peer, f.Xfer)
	if c.tr == nil {
		if t := c.inst.earlierRun(f, peer); t != nil {
			c.tr, c.room = t, t.room
		}
	}
	if c.tr == nil && f.Ev == lifecycle.TransferCompleted {
		if recv := c.room.receiverOf(c.inst, peer); recv == c.inst {
			c.tr = l.transfer(c.room, c.inst, peer, f.Xfer)
		} else if recv != nil {
			c.tr = l.transfer(c.room, peer, c.inst, f.Xfer)
		}
	}
	c.void = c.tr == nil
}

// earlierRun is the transfer that a completion or a drain speaks of if it runs in
// a room that has begun anew since; the latest of several.
func (i *instance) earlierRun(f *lifecycle.Fact, peer *instance) (found *transfer) {
	for t := range i.running {
		if t.xfer == f.Xfer && t.room.id == f.Room && (t.send == peer || t.recv == peer) && (found == nil || t.began() > found.began()) {
			found = t
		}
	}
	return found
}

// receiverOf is the receiver of a transfer that nobody started, as one of its two
// sides is told of its completion (hard case 3): who receives in this room
// already, else who is told, if it had been given pages; nil where it is neither.
func (rm *room) receiverOf(told, peer *instance) *instance {
	own, other := rm.into(told), rm.into(peer)
	switch {
	case own != nil && own.startedByReceiver():
		return told
	case other != nil && (other.startedByReceiver() || !rm.receiverSpoke()):
		return peer
	}
	if r := rm.on(told); r != nil && r.reserved || slices.Contains(rm.reserved, told) {
		return told
	}
	return nil
}
