package ledger

import (
	"fmt"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// poolImbalance: an engine's own count of its pool does not add up, or it holds
// another number of pages than its events say, beyond a grace time. The sign
// says leak or surplus.
func (l *Ledger) poolImbalance(c *call) {
	pl, a := c.pool, c.f.Audit
	if sum := a.Free + a.Cached + a.Held + a.PendingDrain + pl.nulls; sum != int64(len(pl.pages)) {
		l.accuse(finding.PoolImbalance, c.inst, nil, nil, pl).
			say(fmt.Sprintf("free %d, cached %d, held %d, pending %d, null %d", a.Free, a.Cached, a.Held, a.PendingDrain, pl.nulls),
				fmt.Sprintf("%d pages: %s", len(pl.pages), leakOrSurplus(sum-int64(len(pl.pages)))))
	}
}

// heldImbalance compares the engine's held pages with the ledger's own count.
// In a batch, whose facts have no order, the count of this moment is not known.
func (l *Ledger) heldImbalance(c *call) {
	if l.batch {
		return
	}
	pl, differ := c.pool, c.f.Audit.Held-c.pool.holding
	switch {
	case pl.knownFrom != 0 || !pl.tellsHolders() || !pl.promises(lifecycle.PagesReleased):
	case differ == 0:
		pl.imbalanced, pl.imbalanceSaid = lifecycle.Opt[int64]{}, false
	case !pl.imbalanced.Has:
		pl.imbalanced = lifecycle.Some(l.now)
	case !pl.imbalanceSaid && l.now-pl.imbalanced.V >= l.cfg.Grace.Nanoseconds():
		pl.imbalanceSaid = true // once, until an audit agrees
		l.accuse(finding.PoolImbalance, c.inst, nil, nil, pl).
			say(fmt.Sprintf("%d pages held", c.f.Audit.Held),
				fmt.Sprintf("%d held by its own events: %s", pl.holding, leakOrSurplus(differ)))
	}
}

func leakOrSurplus(differ int64) string {
	if differ < 0 {
		return fmt.Sprintf("%d too few, a leak", -differ)
	}
	return fmt.Sprintf("%d too many, a surplus", differ)
}
