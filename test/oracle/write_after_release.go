package oracle

import (
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// claimedWrite charges pages_written by a request to which the present
// generation of a page does not belong: write_after_release where an earlier
// one did, else foreign_page. It returns the pages that it fills.
func (o *oracle) claimedWrite(e *entry, pages []*page, c *charges) (filled []*page) {
	r := o.who(e.Fact)
	for _, pg := range pages {
		switch o.writes(e, pg, r) {
		case fills:
			filled = append(filled, pg)
		case late:
			if pg.holdersKnown() {
				c.add(finding.WriteAfterRelease, e.Fact, o.by(e.Fact), pg, "the page was written", "the writer's generation of it had ended")
			}
		case foreign:
			if pg.holdersKnown() {
				c.add(finding.ForeignPage, e.Fact, o.by(e.Fact), pg, "the page was written", "another request reserved it")
			}
		}
	}
	return filled
}

// writing is what a claimed write is to a page.
type writing int

const (
	fills writing = iota
	passes
	late
	foreign
)

func (o *oracle) writes(e *entry, pg *page, r *request) writing {
	g := pg.gen
	switch {
	case e.Req == "" && e.Room == "":
		return fills // it accuses nobody and counts
	case same(g.holder, r) && !g.over:
		return fills
	case g.byCache && !g.over && (e.By == lifecycle.ByReload || e.By == lifecycle.ByCopy):
		return fills
	case g.unknown:
		return fills
	}
	switch o.standing(e, pg, r) {
	case excused:
		return passes
	case holder:
		if same(g.holder, r) {
			return fills
		}
	}
	if e.Req == "" && r.name() == "" && !o.strangerRoom(e, pg) {
		return fills
	}
	if pg.wasOf(r) {
		return late
	}
	return foreign
}

// strangerRoom: a write of a room that has no request on the instance is
// somebody else's for certain only where every request is known.
func (o *oracle) strangerRoom(e *entry, pg *page) bool {
	h := pg.gen.holder
	return h != nil && h.room != nil && h.room.id != e.Room && pg.pool.inst.promises(pg.pool, lifecycle.RequestAdmitted)
}

// lateBytes: a write of a transfer landed on a page after the generation that
// it named had ended.
func (o *oracle) lateBytes(f *lifecycle.Fact, pg *page, t *transfer, c *charges) {
	if pg.gen.unknown {
		return
	}
	who := party{inst: f.Inst, room: t.room, req: o.takes(t)}
	who.id = who.req.name()
	c.add(finding.WriteAfterRelease, f, who, pg, "the transfer's pages were released", "its bytes landed afterwards")
}
