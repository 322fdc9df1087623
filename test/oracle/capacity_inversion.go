package oracle

import (
	"math/bits"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// pair is two instances in their present epochs.
type pair struct {
	a, b           string
	epochA, epochB epoch
}

func (o *oracle) pairOf(a, b string) pair {
	if a > b {
		a, b = b, a
	}
	return pair{a, b, o.inst(a).epoch, o.inst(b).epoch}
}

// compare looks at two instances when a transfer joins them for the first
// time: at their capacities and at their layouts.
func (o *oracle) compare(e *entry, a, b string) {
	p := o.pairOf(a, b)
	if a == b || o.pairs[p] || len(o.inst(a).pools) == 0 || len(o.inst(b).pools) == 0 {
		return
	}
	o.pairs[p] = true
	c := o.charges()
	o.peerCapacity(e, o.inst(a), o.inst(b), c)
	o.peerCapacity(e, o.inst(b), o.inst(a), c)
	o.layoutMismatch(e, o.inst(p.a), o.inst(p.b), c)
	o.say(c)
}

// ownCapacity: a pool that owes all holds its own declared context.
func (o *oracle) ownCapacity(e *entry, p *pool) {
	if p.spec.ContextTokens.Has && !p.holds(p.spec.ContextTokens.V) {
		c := o.charges()
		o.chargeCapacity(e, p, c)
		o.say(c)
	}
}

// peerCapacity: what one instance declares, the pools of its peer must hold.
func (o *oracle) peerCapacity(e *entry, declares, has *instance, c *charges) {
	context := int64(0)
	for _, p := range declares.pools {
		context = max(context, p.spec.ContextTokens.Or(0))
	}
	for _, p := range has.sortedPools() {
		if !p.holds(context) {
			o.chargeCapacity(e, p, c)
		}
	}
}

func (o *oracle) chargeCapacity(e *entry, p *pool, c *charges) {
	ch := c.of(finding.CapacityInversion, e.Fact, party{inst: p.inst.name}, p.name)
	ch.claim, ch.observation = "the context was declared", "the pool cannot hold it"
}

// holds reports whether a context fits into a pool that owes all, less the
// pages that are never handed out.
func (p *pool) holds(context int64) bool {
	if p.spec.Owes != lifecycle.OwesAll {
		return true
	}
	pages := uint64(p.spec.Pages) - p.null.size()
	high, capacity := bits.Mul64(pages, uint64(max(0, p.spec.PageTokens)))
	return high > 0 || capacity >= uint64(context)
}
