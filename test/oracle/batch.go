package oracle

import (
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// applyBatch applies facts that have no order among themselves: they accuse
// only if they accuse in every order (R3).
func (o *oracle) applyBatch(batch []*entry) {
	o.applied++
	o.released = nil
	batch = o.received(batch)
	if len(batch) > 0 && batch[0].Src.Claims() {
		o.answer(batch[0].Inst)
	}
	before := map[*pool]int64{}
	if slices.ContainsFunc(batch, isEv(lifecycle.PoolAudit)) {
		before = o.heldNow(batch[0].Inst)
	}
	first, rest := split(batch, isEv(lifecycle.PoolOpened))
	closing, rest := split(rest, isEv(lifecycle.PoolClosed))
	audits, rest := split(rest, isEv(lifecycle.PoolAudit))
	ends, rest := split(rest, func(e *entry) bool {
		return (e.Ev == lifecycle.RequestRejected || e.Ev == lifecycle.RequestAborted) && !admitsAgain(batch, e)
	})
	success, rest := split(rest, func(e *entry) bool {
		return e.Ev == lifecycle.RequestFinished && !admitsAgain(batch, e)
	})
	completed, rest := split(rest, isEv(lifecycle.TransferCompleted))

	o.applyAll(first)
	rest = o.applyHarmless(rest)
	o.applyAll(completed)
	rest = o.applyHarmless(rest)
	o.applyAll(rest) // these accuse in every order
	o.applyAll(success)
	for _, e := range audits {
		o.poolImbalance(e, before)
	}
	o.applyAll(ends)
	o.applyAll(closing)
	for _, e := range batch {
		if e.Step.Has {
			o.laterStep(o.inst(e.Inst), e.Step.V)
		}
	}
}

func isEv(ev lifecycle.Ev) func(*entry) bool {
	return func(e *entry) bool { return e.Ev == ev }
}

func split(batch []*entry, is func(*entry) bool) (these, others []*entry) {
	for _, e := range batch {
		if is(e) {
			these = append(these, e)
		} else {
			others = append(others, e)
		}
	}
	return these, others
}

// admitsAgain: the batch also admits the request that e ends, or another one
// in its room; then the order of arrival stands.
func admitsAgain(batch []*entry, e *entry) bool {
	return slices.ContainsFunc(batch, func(x *entry) bool {
		return x.Ev == lifecycle.RequestAdmitted && (x.Req == e.Req || x.Room == e.Room && x.Room != "")
	})
}

// received notes who speaks and what the numbers of its stream leave out, and
// drops what says nothing: duplicates, and facts of another epoch.
func (o *oracle) received(batch []*entry) (kept []*entry) {
	opens := slices.ContainsFunc(batch, isEv(lifecycle.PoolOpened))
	for _, e := range batch {
		o.noteSpeaker(e)
		k := o.keyOf(e)
		s := o.stream(k)
		if e.Seq.Has {
			if s.seen.covers(e.Seq.V, e.Seq.V+1) {
				continue
			}
			s.seen = s.seen.with(e.Seq.V, e.Seq.V+1)
		}
		if o.isOver(e) || !opens && o.isOfAnother(e) {
			continue
		}
		kept = append(kept, e)
	}
	for _, e := range kept {
		if !e.Seq.Has {
			continue
		}
		s := o.stream(o.keyOf(e))
		o.sequenceGap(e, s)
		if !s.begun || e.Seq.V > s.top {
			s.begun, s.top = true, e.Seq.V
		}
	}
	return kept
}

func (o *oracle) noteSpeaker(e *entry) {
	if e.Inst == "" {
		return
	}
	i := o.inst(e.Inst)
	i.nodes[e.Node] = true
	if e.Src.Claims() || i.node == "" {
		i.node = e.Node
	}
	i.engine = i.engine || e.Src == lifecycle.Engine
	i.stream = i.stream || e.Src == lifecycle.Engine || e.Src == lifecycle.Wire
	if i.sighted == 0 && (i.stream || e.Ev == lifecycle.PoolOpened) {
		i.sighted = o.applied
	}
}

// isOfAnother: of an epoch whose pool_opened was not applied. The first epoch
// that anybody names, but for bytes, is the current one.
func (o *oracle) isOfAnother(e *entry) bool {
	i := o.inst(e.Inst)
	if !e.Epoch.Has || e.Ev == lifecycle.PoolOpened || e.Ev == lifecycle.BytesMoved && !i.epoch.Has {
		return false
	}
	if !i.epoch.Has {
		i.epoch = e.Epoch
	}
	return i.epoch != e.Epoch
}

func (o *oracle) applyAll(batch []*entry) {
	for _, e := range batch {
		o.apply(e)
	}
}

// applyHarmless applies what does not accuse, again and again, until only
// facts are left that do. References are given up as late as that allows:
// somebody in the batch may still have used them.
func (o *oracle) applyHarmless(batch []*entry) []*entry {
	if len(batch) == 1 {
		return batch // it has no order with anything
	}
	for {
		before := len(batch)
		for progress := true; progress; {
			n := len(batch)
			batch = o.applyThose(batch, func(e *entry) bool { return !givesUp(e) && !o.wouldAccuse(e) })
			progress = len(batch) < n
		}
		batch = o.applyThose(batch, func(e *entry) bool { return givesUp(e) && !o.wouldAccuse(e) })
		if len(batch) == before {
			return batch
		}
	}
}

func givesUp(e *entry) bool {
	return e.Ev == lifecycle.PagesReleased || e.Ev == lifecycle.PagesEvicted
}

// applyThose applies the facts that are so when their turn comes, and returns
// the others.
func (o *oracle) applyThose(batch []*entry, is func(*entry) bool) (others []*entry) {
	for _, e := range batch {
		if is(e) {
			o.apply(e)
		} else {
			others = append(others, e)
		}
	}
	return others
}

// wouldAccuse: the fact accuses as things stand; or it copies what is not
// written yet, or into what is not handed out yet.
func (o *oracle) wouldAccuse(e *entry) bool {
	if o.excessive(e.Fact) {
		return false
	}
	switch e.Ev {
	case lifecycle.PagesCopied:
		return o.copiesTooSoon(e)
	case lifecycle.PagesRead:
		own := o.foreignRead(e, o.pagesOf(e.Inst, e.Pool, e.Pages), o.charges())
		if h := o.handoffRead(o.who(e.Fact), own); h != nil && !e.Step.Has && o.wouldBeShort(h, e.Step) {
			return true
		}
	}
	return len(o.accusations(e).list) > 0
}

func (o *oracle) copiesTooSoon(e *entry) bool {
	for _, pg := range o.refPages(e.Inst, e.CopyFrom) {
		if pg != nil && !o.written(pg.gen) {
			return true
		}
	}
	for _, pg := range o.refPages(e.Inst, e.CopyTo) {
		if pg != nil && !pg.held() {
			return true
		}
	}
	return false
}
