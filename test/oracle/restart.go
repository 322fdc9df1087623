package oracle

import (
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// open applies pool_opened. A new epoch is a restart (R5). It returns the pool, nil
// where that is nothing new.
func (o *oracle) open(e *entry) *pool {
	i := o.inst(e.Inst)
	if e.Epoch.Has && i.epoch.Has && i.epoch != e.Epoch {
		o.restart(e, i)
	}
	if e.Epoch.Has {
		i.epoch = e.Epoch
	}
	if i.pools[e.Pool] != nil || e.Spec == nil {
		return nil // it says nothing new
	}
	p := &pool{
		inst: i, name: e.Pool, spec: e.Spec, openedBy: e.Src, openedAt: e.a,
		unknown: e.Spec.Since == lifecycle.SinceAttach, pages: map[uint32]*page{},
	}
	if p.spec.PageTokens == 0 { // not said: one page is enough for any prompt
		spec := *e.Spec
		spec.PageTokens, p.tokensUnsaid = 1<<30, true
		p.spec = &spec
	}
	for _, run := range e.Spec.NullIDs {
		p.null = p.null.with(uint64(run.First), min(uint64(run.End()), uint64(e.Spec.Pages)))
	}
	i.pools[e.Pool] = p
	i.missed, i.unsure = i.missed || p.unknown, i.unsure || p.unknown
	return p
}

// restart ends everything that an epoch of an instance had.
func (o *oracle) restart(e *entry, i *instance) {
	o.waiting = slices.DeleteFunc(o.waiting, func(w *waitingRead) bool {
		if w.inst == i && w.hand != nil {
			w.hand.wasRead, w.hand.success = false, false // what was still to be told is lost
		}
		return w.inst == i
	})
	o.strays = slices.DeleteFunc(o.strays, func(s stray) bool { return s.inst == i.name })
	for _, t := range o.transfers {
		if t.sender == i.name || t.receiver == i.name {
			o.part(e, t)
		}
	}
	for _, r := range o.roomOrder {
		for _, h := range r.handoffs {
			if h.receiver == i.name && len(h.transfers()) > 0 && !h.judged {
				o.judgeAtEnd(h)
				h.blur("the receiver restarted")
			}
			if !h.judged && slices.Contains(h.senders(), i.name) {
				h.blur("a sender restarted")
			}
		}
	}
	for _, r := range i.requests {
		if r.runs() && !r.handedOver() {
			r.blur("the instance restarted")
		}
		r.over, r.ended = true, true
	}
	if i.epoch.Has {
		i.over[i.epoch.V] = true
	}
	i.step, i.blindTo, i.unsure = -1, -1, false
	i.pools = map[string]*pool{}
	i.covers = map[coverKey]*cover{}
	i.regions = map[region]bool{}
}

// endPool applies pool_closed: what has pages there ends with it.
func (o *oracle) endPool(e *entry, p *pool) {
	in := func(g *generation) bool { return g.page.pool == p }
	for _, t := range o.transfers {
		if !slices.ContainsFunc(t.targets, in) && !slices.ContainsFunc(t.sources, in) {
			continue
		}
		if t.receiver == p.inst.name {
			o.judgeAtEnd(t.handoff())
		}
		t.drained = true
		if t.open() {
			t.ended, t.endedAt, t.failed = true, o.applied, true
		}
	}
	for _, pg := range p.pages {
		for _, ref := range pg.refs {
			ref.req.blur("its pool was closed")
		}
	}
	o.waiting = slices.DeleteFunc(o.waiting, func(w *waitingRead) bool { return w.inst == p.inst && w.fact.Pool == p.name })
	delete(p.inst.pools, p.name)
}
