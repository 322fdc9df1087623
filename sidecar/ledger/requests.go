package ledger

import (
	"cmp"
	"slices"
)

// requestAdmitted takes over what an admission says. After a rejection or an
// abort by the same instance it starts anew (hard case 6).
func (l *Ledger) requestAdmitted(c *call) {
	r, f := c.req, c.f
	r.admitted, r.ended, r.finished, r.aborted, r.stalled = l.tick, false, false, false, false
	r.read, r.readFar, r.readBlank = false, false, false
	r.room.forgive(c.inst)
	if f.PromptTokens.Has {
		r.prompt = f.PromptTokens
	}
	if f.PrefixTokens.Has {
		r.prefix = f.PrefixTokens
	}
	if f.Domain.Has {
		l.parties.all[r.party].domain = f.Domain
	}
}

func (l *Ledger) requestRejected(c *call) {
	c.req.ended = true
	if c.room.rejectedBy(c.inst) == nil {
		c.room.rejects = append(c.room.rejects, rejection{c.inst, l.tick, c.f.T})
	}
	l.requestEnds(c)
}

// requestFinished ends a request; a success judges its handoff.
func (l *Ledger) requestFinished(c *call) {
	c.req.ended, c.req.finished = true, true
	if c.f.Success() {
		if h := c.room.into(c.inst); h != nil && h.began != 0 {
			l.judgeOnUse(h, c)
		}
	}
	l.requestEnds(c)
}

func (l *Ledger) requestAborted(c *call) {
	c.req.aborted, c.req.ended = true, true
	l.requestEnds(c)
}

// requestEnds lets a handoff settle that waited for its request to go on.
func (l *Ledger) requestEnds(c *call) {
	if h := c.room.into(c.inst); h != nil && h.ended() {
		l.settleLater(h)
	}
	l.retire(c.room)
}

// poolOpened opens a pool, or restarts the instance where the epoch is new.
func (l *Ledger) poolOpened(c *call) {
	inst, f := c.inst, c.f
	if f.Epoch.Has {
		if inst.epoch.Has && inst.epoch.V != f.Epoch.V {
			l.restart(inst)
			inst.past[inst.epoch.V] = struct{}{}
			if len(inst.past) > maxPastEpochs {
				inst.past = map[uint64]struct{}{inst.epoch.V: {}}
			}
		}
		inst.epoch = f.Epoch
	}
	if inst.byName[f.Pool] != nil {
		return
	}
	inst.node = f.Node
	pl := l.openPool(inst, f)
	if pl == nil {
		return
	}
	pl.inverted = l.capacityInversion(pl, inst, pl.ContextTokens)
	for peer := range inst.layoutSeen {
		l.compare(inst, peer, pl)
	}
	l.vramPoolOpened(pl)
}

// restart ends everything that the instance had: its memory is gone.
func (l *Ledger) restart(inst *instance) {
	l.sever(func(t *transfer) bool { return t.recv == inst || t.send == inst })
	l.parted(inst, func(*transfer) bool { return true })
	for h := range inst.waiting {
		unsee(h.room, inst, inst.name+" restarted")
		l.judge(h, h.lastOK, h.node)
	}
	inst.sight = sight{}
	inst.pending = nil
	for _, r := range sortedRequests(inst) {
		if r.going() {
			unsee(r.room, inst, inst.name+" restarted")
		}
		r.ended, r.owned, r.shares, r.past, r.lost = true, 0, nil, nil, nil
		l.forgetRequestID(r)
		l.retire(r.room)
	}
	for _, pl := range inst.pools {
		if pl != nil {
			l.closePool(pl)
		}
	}
	inst.pools, inst.step, inst.blindTo, inst.blindNext, inst.engine = nil, -1, -1, false, false
	for peer := range inst.layoutSeen {
		delete(peer.layoutSeen, inst)
	}
	clear(inst.layoutSeen)
}

func sortedRequests(inst *instance) []*request {
	all := make([]*request, 0, len(inst.reqs))
	for _, r := range inst.reqs {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *request) int { return cmp.Compare(a.id, b.id) })
	return all
}

func sortTransfers(all []*transfer) {
	slices.SortFunc(all, func(a, b *transfer) int {
		return cmp.Or(cmp.Compare(a.room.id, b.room.id), cmp.Compare(a.xfer, b.xfer), cmp.Compare(a.send.name, b.send.name), cmp.Compare(a.recv.name, b.recv.name))
	})
}
