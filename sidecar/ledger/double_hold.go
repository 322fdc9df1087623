package ledger

import (
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// checkReserved asks what a hand-out can break.
func (l *Ledger) checkReserved(c *call) {
	l.abortedReservation(c)
	named := repeats(c.f.Pages)
	for _, run := range c.f.Pages {
		pages := c.pool.pages[run.First:run.End()]
		for i := range pages {
			p := &pages[i]
			if p.act == 0 && !p.held() && named == nil {
				continue
			}
			at := run.First + uint32(i)
			l.doubleHold(c, at, p, named)
			l.handedOutEarly(c, at, p)
		}
	}
}

// doubleHold: a page was reserved while held.
func (l *Ledger) doubleHold(c *call, at uint32, p *page, named map[uint32]bool) {
	twice := named[at]
	if named != nil {
		named[at] = true
	}
	if c.pool.mute(p) || !c.inst.engine || !c.pool.stillHeld(p) && !twice {
		return
	}
	seen := "by its own events still held by the request that reserved it"
	switch {
	case !c.pool.stillHeld(p):
		seen = "named twice"
	case p.refs == 0 || !c.pool.promises(lifecycle.PagesReleased):
		seen = "by its own events still held by the prefix cache"
	}
	l.accuse(finding.DoubleHold, c.inst, c.req, c.room, c.pool).on(l, at, p.content).
		say("reserved as if it were free", seen)
}

// stillHeld reports whether it would have been said that all references had ended (R10).
func (pl *pool) stillHeld(p *page) bool {
	return p.refs > 0 && pl.promises(lifecycle.PagesReleased) || p.flags&cached != 0 && pl.promises(lifecycle.PagesEvicted)
}

// repeats returns a set to find pages that runs name twice; nil where the runs
// rise and so cannot.
func repeats(runs lifecycle.Runs) map[uint32]bool {
	for i := 1; i < len(runs); i++ {
		if runs[i].First < runs[i-1].End() {
			return map[uint32]bool{}
		}
	}
	return nil
}
