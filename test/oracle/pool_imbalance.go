package oracle

import (
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// poolImbalance applies pool_audit (R27). before is what the ledger counted
// ahead of the batch that the audit is in: it may have been taken then.
func (o *oracle) poolImbalance(e *entry, before map[*pool]int64) {
	p := o.inst(e.Inst).pools[e.Pool]
	if p == nil || e.Audit == nil {
		return
	}
	a := e.Audit
	sum := a.Free + a.Cached + a.Held + a.PendingDrain + int64(p.null.size())
	c := o.charges()
	if sum != int64(p.spec.Pages) {
		ch := c.of(finding.PoolImbalance, e.Fact, party{inst: e.Inst}, p.name)
		ch.claim, ch.observation = "the engine counted its pages", "they do not add up"
	}
	earlier, counted := before[p]
	switch {
	case p.anyUnknown() || !p.countable() || a.Held == p.heldByRequests() || counted && a.Held == earlier:
		p.differs, p.differsSaid = lifecycle.Opt[int64]{}, false
	case !p.differs.Has:
		p.differs = lifecycle.Some(e.a)
	case plus(p.differs.V, o.cfg.Grace) <= e.a && !p.differsSaid:
		ch := c.of(finding.PoolImbalance, e.Fact, party{inst: e.Inst}, p.name)
		ch.claim, ch.observation = "the engine counted held pages", "the ledger counts another number"
		p.differsSaid = true
	}
	o.say(c)
}

// heldByRequests is how many pages some request has a reference on.
func (p *pool) heldByRequests() (n int64) {
	for _, pg := range p.pages {
		if len(pg.refs) > 0 {
			n++
		}
	}
	return n
}

// countable: the ledger's own count means something only where every
// reservation and every release is said.
func (p *pool) countable() bool {
	for _, ev := range []lifecycle.Ev{lifecycle.PagesReserved, lifecycle.PagesShared, lifecycle.PagesReleased} {
		if !p.inst.promises(p, ev) {
			return false
		}
	}
	return true
}

// heldNow counts every pool of an instance.
func (o *oracle) heldNow(inst string) map[*pool]int64 {
	held := map[*pool]int64{}
	for _, p := range o.inst(inst).pools {
		held[p] = p.heldByRequests()
	}
	return held
}
