package ledger

import (
	"fmt"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// capacityInversion: the context that an instance declares is longer than a
// pool that owes all can hold, here or on a peer, less what is never handed
// out. A prompt between the two must then be refused by somebody.
func (l *Ledger) capacityInversion(pl *pool, by *instance, context lifecycle.Opt[int64]) (inverted bool) {
	if pl.Owes != lifecycle.OwesAll || !context.Has || context.V <= pl.capacity() {
		return false
	}
	l.accuse(finding.CapacityInversion, pl.inst, nil, nil, pl).
		say(fmt.Sprintf("%s declares a context of %d tokens", by.name, context.V),
			fmt.Sprintf("the pool holds %d tokens (%d pages of %d, %d never handed out)",
				pl.capacity(), len(pl.pages), pl.PageTokens, pl.nulls))
	return true
}

// declaredContext is the longest context that an instance declared.
func (i *instance) declaredContext() (c lifecycle.Opt[int64]) {
	for _, pl := range i.pools {
		if pl != nil && pl.ContextTokens.Has && pl.ContextTokens.V > c.Or(-1) {
			c = pl.ContextTokens
		}
	}
	return c
}

// capacityOfPeer asks whether a pool holds the context that a peer declares,
// unless its own instance declared too much already, and was accused of that.
func (l *Ledger) capacityOfPeer(pl *pool, peer *instance) {
	if !pl.inverted {
		l.capacityInversion(pl, peer, peer.declaredContext())
	}
}
