package oracle

import (
	"slices"

	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// earlyRelease charges the end of the last reference on a page while a
// transfer that names this generation is not drained (R22).
func (o *oracle) earlyRelease(e *entry, pages []*page, c *charges) {
	for _, pg := range pages {
		if t := o.undrained(pg.gen); t != nil && !pg.gen.unknown && o.endsLast(e, pg) {
			who := o.by(e.Fact)
			if e.Req == "" {
				who = o.transferParty(t, pg)
			}
			c.add(finding.EarlyRelease, e.Fact, who, pg, "the page was given up", "a transfer of it is not drained")
		}
	}
}

// earlyHandOut is the same for a page that is handed out while it is held: the
// transfer's request is named, not the new holder.
func (o *oracle) earlyHandOut(e *entry, pages []*page, c *charges) {
	for _, pg := range pages {
		if t := o.undrained(pg.gen); t != nil && !pg.gen.unknown && pg.held() {
			c.add(finding.EarlyRelease, e.Fact, o.transferParty(t, pg), pg, "the page was handed out again", "a transfer of it is not drained")
		}
	}
}

// endsLast: nobody holds the page once e was applied.
func (o *oracle) endsLast(e *entry, pg *page) bool {
	if e.Req == "" {
		return pg.cached != nil && len(pg.refs) == 0
	}
	r := o.who(e.Fact)
	return pg.ref(r) != nil && len(pg.refs) == 1 && pg.cached == nil
}

// undrained is a transfer of a generation whose writes, or reads, may still
// come.
func (o *oracle) undrained(g *generation) *transfer {
	for _, t := range slices.Concat(g.targets, g.sources) {
		if !o.isDrained(t) && o.drainTold(t, g) {
			return t
		}
	}
	return nil
}

// drainTold: had the transfer been drained, somebody in sight would have said
// so.
func (o *oracle) drainTold(t *transfer, g *generation) bool {
	for _, name := range []string{t.receiver, t.sender} {
		if o.inst(name).sighted > t.began {
			return false // it was attached later
		}
	}
	return !slices.Contains(t.sources, g) || o.inst(t.receiver).stream
}

// transferParty is a transfer's request on the instance of a page.
func (o *oracle) transferParty(t *transfer, pg *page) party {
	r := o.takes(t)
	if pg.pool.inst.name == t.sender {
		r = o.sends(t)
	}
	if r == nil {
		return party{inst: pg.pool.inst.name, room: t.room}
	}
	return partyOf(r)
}
