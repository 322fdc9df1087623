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
// time since both have pools: at their capacities and at their layouts.
func (o *oracle) compare(e *entry, a, b string) {
	p := o.pairOf(a, b)
	if a == b || o.pairs[p] || len(o.inst(a).pools) == 0 || len(o.inst(b).pools) == 0 {
		return
	}
	o.pairs[p] = true
	c := o.charges()
	for _, pool := range o.inst(a).sortedPools() {
		o.peerCapacity(e, o.inst(b), pool, c)
		o.layoutMismatch(e, pool, o.inst(b), c)
	}
	for _, pool := range o.inst(b).sortedPools() {
		o.peerCapacity(e, o.inst(a), pool, c)
	}
	o.say(c)
}

// opened looks at a pool as it is opened: at its own context, and at the peers
// that its instance was compared with before.
func (o *oracle) opened(e *entry, p *pool) {
	c := o.charges()
	if p.spec.ContextTokens.Has && !p.holds(p.spec.ContextTokens.V) {
		p.inverted = true
		o.chargeCapacity(e, p, c)
	}
	o.say(c)
	for _, peer := range o.instOrder {
		if peer != p.inst && o.pairs[o.pairOf(p.inst.name, peer.name)] {
			c := o.charges()
			o.peerCapacity(e, peer, p, c)
			o.layoutMismatch(e, p, peer, c)
			o.say(c)
		}
	}
}

// peerCapacity: what one instance declares, a pool of its peer must hold,
// unless that was accused of not holding what its own instance declares.
func (o *oracle) peerCapacity(e *entry, declares *instance, has *pool, c *charges) {
	context := int64(0)
	for _, p := range declares.pools {
		context = max(context, p.spec.ContextTokens.Or(0))
	}
	if !has.inverted && !has.holds(context) {
		o.chargeCapacity(e, has, c)
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
