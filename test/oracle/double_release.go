package oracle

import (
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// doubleRelease charges a request that gives up what it does not have. A
// reference that ended because the page was handed out again says nothing.
func (o *oracle) doubleRelease(e *entry, pages []*page, c *charges) {
	r := o.who(e.Fact)
	for _, pg := range pages {
		robbed := r != nil && slices.Contains(pg.robbed, r)
		if pg.ref(r) == nil && !robbed && pg.holdersKnown() {
			c.add(finding.DoubleRelease, e.Fact, o.by(e.Fact), pg, "the page was released", "its request did not hold it")
		}
	}
}

// doubleEvict is the same for the cache.
func (o *oracle) doubleEvict(e *entry, pages []*page, c *charges) {
	for _, pg := range pages {
		if pg.cached == nil && !pg.robbedCache && pg.holdersKnown() && pg.pool.inst.promises(pg.pool, lifecycle.PagesCached) {
			c.add(finding.DoubleRelease, e.Fact, o.by(e.Fact), pg, "the page was evicted", "the cache did not hold it")
		}
	}
}
