package oracle

import (
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// batchRelease is a reference that the batch which is being applied gave up:
// within it, the request counts as a holder (R3c).
type batchRelease struct {
	page *page
	req  *request
	gen  *generation
}

// standing is how a request stands to a page that it reads or writes.
type standing int

const (
	stranger standing = iota
	holder            // it has, or had in this batch, a reference on the present generation
	excused           // it gave its reference up at this step or later, and nobody used the page since (R8)
)

func (o *oracle) standing(e *entry, pg *page, r *request) standing {
	if r == nil {
		return stranger
	}
	if pg.ref(r) != nil {
		return holder
	}
	if e.Step.Has && e.Step.V <= pg.pool.inst.blindTo {
		return excused // of a step that was out of sight
	}
	for _, b := range o.released {
		if b.page == pg && b.req == r {
			if b.gen == pg.gen {
				return holder
			}
			if !pg.usedSince(b.gen) {
				return excused
			}
		}
	}
	for _, l := range pg.let {
		if l.req == r && e.Step.Has && l.step.Has && e.Step.V <= l.step.V && !pg.usedSince(l.gen) {
			return excused
		}
	}
	return stranger
}

// usedSince: the page was handed out again after that generation, and as it is
// handed out now was read or filled.
func (pg *page) usedSince(gen *generation) bool { return pg.gen != gen && pg.gen.used }

// holdersKnown: that nobody said that a request has a reference means that it
// has none (R10, R11).
func (pg *page) holdersKnown() bool {
	p := pg.pool
	return !pg.gen.unknown && p.inst.promises(p, lifecycle.PagesReserved) && p.inst.promises(p, lifecycle.PagesShared)
}

// foreignRead charges a reader without a reference; it returns the pages that
// are the reader's.
func (o *oracle) foreignRead(e *entry, pages []*page, c *charges) (own []*page) {
	r := o.who(e.Fact)
	for _, pg := range pages {
		switch o.standing(e, pg, r) {
		case holder:
			own = append(own, pg)
		case stranger:
			if pg.holdersKnown() {
				c.add(finding.ForeignPage, e.Fact, o.by(e.Fact), pg, "a request reads the page", "it has no reference on it")
			}
		}
	}
	return own
}

// foreignShare: there is nothing to share in a page that neither the cache nor
// another request holds (R7). Of a cache whose pages nobody promises to tell,
// nothing is known.
func (o *oracle) foreignShare(e *entry, pages []*page, c *charges) {
	r := o.who(e.Fact)
	for _, pg := range pages {
		others := slices.ContainsFunc(pg.refs, func(ref *reference) bool { return !same(ref.req, r) })
		if pg.cached == nil && !others && pg.holdersKnown() && pg.pool.inst.promises(pg.pool, lifecycle.PagesCached) {
			c.add(finding.ForeignPage, e.Fact, o.by(e.Fact), pg, "a request shares the page", "nobody holds it")
		}
	}
}

// foreignCache: a page is cached by a request that does not hold it, or while
// it is free (R7).
func (o *oracle) foreignCache(e *entry, pages []*page, c *charges) {
	r := o.who(e.Fact)
	for _, pg := range pages {
		wrong := !pg.held() || e.Req != "" && pg.ref(r) == nil
		if wrong && pg.holdersKnown() && o.standing(e, pg, r) == stranger {
			c.add(finding.ForeignPage, e.Fact, o.by(e.Fact), pg, "the page was put into the cache", "its request does not hold it")
		}
	}
}

// foreignTransfer: a transfer names a page that its request does not hold.
func (o *oracle) foreignTransfer(e *entry, pages []*page, c *charges) {
	i := o.inst(e.Inst)
	if !i.engine {
		return // its start on the wire is the reservation (R6)
	}
	r := o.who(e.Fact)
	for _, pg := range pages {
		if pg.ref(r) != nil || !pg.holdersKnown() {
			continue
		}
		if r.name() == "" && (!i.promises(pg.pool, lifecycle.RequestAdmitted) || pg.heldByRoomless()) {
			continue
		}
		c.add(finding.ForeignPage, e.Fact, o.by(e.Fact), pg, "a transfer names the page", "its request does not hold it")
	}
}

// heldByRoomless: one of the holders may be the request of any room.
func (pg *page) heldByRoomless() bool {
	return slices.ContainsFunc(pg.refs, func(ref *reference) bool { return ref.req != nil && ref.req.room == nil })
}

// foreignBytes: a write was seen in a page that it has no business in.
func (o *oracle) foreignBytes(f *lifecycle.Fact, pg *page, w writer, c *charges) {
	named := w.t != nil && w.t.received
	if pg.gen.unknown || !named && !pg.pool.inst.promises(pg.pool, lifecycle.TransferStarted) {
		return
	}
	who := party{inst: f.Inst, room: w.room}
	if w.t != nil {
		who.room = w.t.room
	}
	if who.room != nil {
		who.req = who.room.at[f.Inst]
		who.id = who.req.name()
	}
	c.add(finding.ForeignPage, f, who, pg, "no transfer of that request targets the page", "bytes were written into it")
}
