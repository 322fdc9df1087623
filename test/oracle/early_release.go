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
		if !o.isDrained(t) && o.drainTold(t) {
			return t
		}
	}
	return nil
}

// drainTold: had the transfer been drained, somebody in sight would have said
// so. Where the receiver is known from the wire alone, the wire tells.
func (o *oracle) drainTold(t *transfer) bool {
	if t.failed && t.handoff().mixed {
		return false // its last writes may have been seen
	}
	to, from := o.inst(t.receiver), o.inst(t.sender)
	alone := !to.engine && from.sighted == 0 // who is attached later may have been told before
	return to.inSight(t.began) && (alone || from.inSight(t.began))
}

// inSight: the instance was followed when a transfer began. Gaps since then
// are noted at the transfer.
func (i *instance) inSight(began int) bool { return i.sighted > 0 && i.sighted <= began }

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
