package oracle

import (
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// doubleHold charges a reservation of pages that are held, or that the fact
// itself names twice.
func (o *oracle) doubleHold(e *entry, pages []*page, c *charges) {
	for _, pg := range pages {
		if pg.stillHeld() || o.twice(e, pg) {
			c.add(finding.DoubleHold, e.Fact, o.by(e.Fact), pg, "the page was handed out", "it was held already")
		}
	}
}

// stillHeld: it is known that somebody's reference has not ended.
func (pg *page) stillHeld() bool {
	i, p := pg.pool.inst, pg.pool
	if pg.gen.unknown {
		return false
	}
	return len(pg.refs) > 0 && i.promises(p, lifecycle.PagesReleased) ||
		pg.cached != nil && i.promises(p, lifecycle.PagesEvicted)
}

func (o *oracle) twice(e *entry, pg *page) bool {
	n := 0
	for _, run := range e.Pages {
		if run.First <= pg.no && pg.no < run.End() {
			n++
		}
	}
	return n > 1
}
