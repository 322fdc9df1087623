package ledger

import (
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// checkTransfer asks what the start of a transfer can break.
func (l *Ledger) checkTransfer(c *call) {
	l.rejectedStart(c)
	if c.pool == nil {
		return
	}
	if l.reservesByWire(c) {
		for _, run := range c.f.Pages {
			for at := run.First; at < run.End(); at++ {
				if p := &c.pool.pages[at]; p.act != 0 {
					l.handedOutEarly(c, at, p)
				}
			}
		}
		return
	}
	for _, run := range c.f.Pages {
		for at := run.First; at < run.End(); at++ {
			p := &c.pool.pages[at]
			if c.pool.mute(p) || l.foreignTransfer(c, at, p) {
				continue
			}
			if c.f.Side == lifecycle.Sender && !c.f.Step.Has {
				l.staleRead(c, at, p)
			}
		}
	}
}

// reservesByWire is hard case 3: where an instance has no stream of its own,
// the receiver's transfer_started on the wire is the reservation.
func (l *Ledger) reservesByWire(c *call) bool {
	return c.f.Src == lifecycle.Wire && c.f.Side == lifecycle.Receiver && !c.inst.engine
}

// transferStarted notes one side of a transfer and the pages that it names.
func (l *Ledger) transferStarted(c *call) {
	t, f := c.tr, c.f
	l.meet(c.inst, t.peerOf(c.inst))
	t.pull = t.pull || f.Op == lifecycle.Pull
	if f.Synthetic {
		c.room.synthetic = true
	}
	t.into.misnamed = t.into.misnamed || c.misnames
	if t.into.began == 0 {
		t.into.began = l.tick
	}
	if f.Side == lifecycle.Receiver {
		t.recvTick = orTick(t.recvTick, l.tick)
	} else {
		t.sendTick = orTick(t.sendTick, l.tick)
	}
	if t.drained && t.outcome == lifecycle.OutcomeNone {
		return // it began before its peer was gone
	}
	if c.pool != nil {
		if l.reservesByWire(c) {
			l.reserveByWire(c)
		}
		l.namePages(c)
	}
	if f.Side == lifecycle.Receiver || t.recvTick != 0 {
		l.watch(t.into)
	}
}

func orTick(had, now uint64) uint64 {
	if had != 0 {
		return had
	}
	return now
}

// namePages puts the transfer on the list of each page.
func (l *Ledger) namePages(c *call) {
	source := c.f.Side == lifecycle.Sender
	for _, run := range c.f.Pages {
		n := named{c.pool, run.First, run.Count, l.tick}
		if source {
			c.tr.sources = addNamed(c.tr.sources, n)
		} else {
			c.tr.targets = addNamed(c.tr.targets, n)
		}
		for at := run.First; at < run.End(); at++ {
			p := &c.pool.pages[at]
			if p.flags&null != 0 {
				continue
			}
			if source {
				p.flags |= wasRead
			}
			if c.pool.unseen(p) {
				unsee(c.room, c.inst, "what a page in transfer holds is not known")
			}
			l.name(c.pool, at, c.tr, source)
		}
	}
	if source && c.f.Step.Has {
		l.awaitStep(c)
	}
}

// reserveByWire begins the generations that a wire-only receiver names. They
// are the room's, held by a request without an id.
func (l *Ledger) reserveByWire(c *call) {
	if c.req == nil {
		c.req = l.nameless(c.inst, c.room)
	}
	r := c.req
	for _, run := range c.f.Pages {
		for at := run.First; at < run.End(); at++ {
			// Another sender's, or another try's, naming of what the room has is
			// no new hand-out.
			if p := &c.pool.pages[at]; p.owner != r.party || !p.held() {
				l.handOut(c.pool, lifecycle.Run{First: at, Count: 1}, r.party, ownerRef)
			}
		}
	}
}

// addNamed adds a run, once: engine and wire may both name it. What was named
// again is of the generation of the last time.
func addNamed(list []named, n named) []named {
	for i := range list {
		if o := &list[i]; o.pool == n.pool && o.first == n.first && o.count == n.count {
			o.tick = n.tick
			return list
		}
	}
	return append(list, n)
}

// transferCompleted ends a transfer.
func (l *Ledger) transferCompleted(c *call) {
	t, f, h := c.tr, c.f, c.tr.into
	l.meet(c.inst, t.peerOf(c.inst))
	h.told = true
	l.unseenStart(t)
	if t.outcome == lifecycle.OutcomeNone || f.Outcome == lifecycle.OK {
		t.outcome = f.Outcome
	}
	if f.Outcome == lifecycle.OK {
		h.completed, h.lastOK, h.node = true, f.T, f.Node
		if f.Tokens.Has && f.Tokens.V > h.tokens.Or(-1) {
			h.tokens = f.Tokens
		}
		l.claimPages(c)
		l.promote(t)
		l.drain(t)
	}
	l.over(t)
	if f.Outcome == lifecycle.OK && f.Last {
		h.lastSaid = true
		l.judge(h, f.T, f.Node)
	}
}

// unseenStart is for the completion of a transfer that nobody was seen to
// start. That is usual where one reservation covers several transfers of a
// sender; but where the receiver started nothing and the sender is not followed,
// or the receiver was out of sight before, it may have begun out of sight.
func (l *Ledger) unseenStart(t *transfer) {
	h := t.into
	if t.began() != 0 || h.judged {
		return
	}
	if h.recv.missedBefore(h.req) || !h.startedByReceiver() && t.send.unheard() {
		h.latecomer = true
		l.unwatch(h)
	}
}

// toldOfNothing is for a completion in a room that has no receiver yet: what is
// handed to the one that is told may have begun out of sight.
func (l *Ledger) toldOfNothing(c *call) {
	peer := l.insts[c.f.Peer]
	if peer == nil || peer == c.inst || !peer.unheard() && !c.inst.missedBefore(c.room.on(c.inst)) {
		return
	}
	l.begunBefore(c.room, c.inst)
}

// drainedOfNothing is for a drain of a transfer that nobody was seen to start: it was of
// the same handoff, to whichever of the two was out of sight before.
func (l *Ledger) drainedOfNothing(c *call) {
	if c.f.Peer == c.f.Inst {
		return // the writer says so itself, and not of whose
	}
	for _, recv := range [2]*instance{c.inst, l.insts[c.f.Peer]} {
		if recv != nil && recv.missedBefore(c.room.on(recv)) {
			l.begunBefore(c.room, recv)
		}
	}
}

// begunBefore notes that what a room hands to an instance may have begun out of sight.
func (l *Ledger) begunBefore(rm *room, recv *instance) {
	if h := rm.into(recv); h != nil {
		h.latecomer = true
		l.unwatch(h)
	} else if rm.begunBefore == nil {
		rm.begunBefore = &[]*instance{recv}
	} else if !slices.Contains(*rm.begunBefore, recv) {
		*rm.begunBefore = append(*rm.begunBefore, recv)
	}
}

// missedBefore reports whether what the instance said of its request's beginning
// may not have been heard.
func (i *instance) missedBefore(r *request) bool {
	return i.seenSince != 0 && (r == nil || !r.fullySeen())
}

// unheard reports whether starts of the instance may not have been heard.
func (i *instance) unheard() bool { return i.seenSince != 0 || !i.followed() }

// claimPages takes the pages of a completion as claimed written by transfer.
func (l *Ledger) claimPages(c *call) {
	t := c.tr
	if len(c.f.Pages) == 0 || len(t.targets) == 0 {
		return
	}
	pl := t.targets[0].pool
	if c.f.Pool != "" {
		pl = t.recv.byName[c.f.Pool]
	}
	if pl == nil || pl.closed || !l.fits(pl, c.f.Pages, c.room) {
		return
	}
	for _, run := range c.f.Pages {
		for at := run.First; at < run.End(); at++ {
			p := &pl.pages[at]
			if p.flags&null != 0 || !p.held() || !l.names(t.into, pl, at) {
				continue
			}
			if r := t.into.req; r != nil && p.owner != r.party && !pl.mute(p) {
				continue // it names another's page
			}
			p.flags |= claimed
			if p.written() {
				l.ownContent(p)
			}
		}
	}
}

func (t *transfer) failed() bool { return t.outcome == lifecycle.Failed }

// peerGone ends every transfer with a peer that the instance had started: nothing
// more of it can arrive. One that only the peer had named may still begin, over
// a new connection.
func (l *Ledger) peerGone(c *call) {
	peer := l.insts[c.f.Peer]
	if peer == nil {
		return
	}
	meant := func(t *transfer) bool {
		return t.recv == c.inst && t.send == peer && t.recvTick != 0 || t.send == c.inst && t.recv == peer && t.sendTick != 0
	}
	l.sever(meant)
	l.parted(c.inst, meant)
}

// sever notes at the handoffs of transfers that are meant, ended ones too, that a
// peer is gone: what is missing need not come, and the halves need not be alike.
func (l *Ledger) sever(meant func(*transfer) bool) {
	part := func(h *handoff) {
		for _, t := range h.transfers {
			if meant(t) {
				t.gone, h.severed = true, true
			}
		}
	}
	for _, inst := range l.insts {
		for h := range inst.waiting {
			part(h)
		}
		for _, a := range inst.asked {
			part(a.into)
		}
	}
}

// parted drains the transfers of an instance that are meant.
func (l *Ledger) parted(inst *instance, meant func(*transfer) bool) {
	var gone []*transfer
	for t := range inst.running {
		if meant(t) {
			gone = append(gone, t)
		}
	}
	sortTransfers(gone)
	for _, t := range gone {
		t.gone = true
		l.drain(t)
		l.over(t)
	}
}
