package oracle

import (
	"cmp"
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

func sortPieces(pieces []piece) {
	slices.SortStableFunc(pieces, func(a, b piece) int {
		return cmp.Or(cmp.Compare(a.pool.name, b.pool.name), cmp.Compare(a.region, b.region))
	})
}

// post is a write that was seen as posted: what it will mean if its transfer
// completes without an error.
type post struct {
	fact    *lifecycle.Fact
	hits    []hit
	charges *charges
	settled bool // it landed, or failed
}

// hit is a piece that is its transfer's to fill.
type hit struct {
	piece piece
	gen   *generation
	by    *transfer
}

// moved applies bytes_moved: whose write it is, what it fills and what it
// breaks (hard case 8).
func (o *oracle) moved(e *entry) {
	if e.Outcome == lifecycle.Errored {
		o.settlePosts(e, nil)
		return
	}
	pieces := o.pieces(e.Inst, e.Addr, e.Bytes)
	sources := o.sourcePages(e.Fact)
	c := o.charges()
	var hits []hit
	posters := map[*transfer]bool{}
	for _, p := range pieces {
		t, ambiguous := o.writerOf(e.Fact, p)
		for _, x := range ambiguous {
			x.handoff().blur("a write could be of two transfers")
			x.toReq.blur("a write could be of two transfers")
		}
		if t != nil {
			posters[t] = true
			o.touch(t)
		}
		if len(ambiguous) == 0 {
			hits = append(hits, o.strike(e.Fact, p, t, c)...)
		}
	}
	o.staleSource(e.Fact, sources, posters, c)
	if e.Outcome != lifecycle.Posted {
		o.settlePosts(e, posters)
		o.fill(hits)
		o.say(c)
		return
	}
	if len(posters) == 1 {
		for t := range posters {
			t.posted = append(t.posted, &post{e.Fact, hits, c, false})
		}
		return
	}
	// More than one transfer, or none: nothing will ever say that it landed.
	for t := range posters {
		t.posted = append(t.posted, &post{e.Fact, nil, o.charges(), false})
	}
}

// fill notes bytes that landed where they belong.
func (o *oracle) fill(hits []hit) {
	for _, h := range hits {
		if h.gen == nil {
			h.by.staged[h.piece.pool] = h.by.staged[h.piece.pool].with(h.piece.from, h.piece.to)
			continue
		}
		g := h.gen
		if g.bytes == nil {
			g.bytes = map[int]spans{}
		}
		g.bytes[h.piece.region] = g.bytes[h.piece.region].with(h.piece.from, h.piece.to)
		g.used = true
		if h.by != nil {
			g.content = &content{h.by.toReq, g}
		}
	}
}

// stagedBytes are those that came through a pool's staging buffer, retries
// counted once.
func (h *handoff) stagedBytes(p *pool) (n uint64) {
	for _, t := range h.transfers() {
		n += t.staged[p].size()
	}
	return n
}

// land is the completion of a transfer without an error: what it posted
// counts.
func (o *oracle) land(t *transfer) {
	for _, p := range t.posted {
		if p.settled {
			continue
		}
		p.settled = true
		var still []hit
		for _, h := range p.hits {
			if h.gen == nil || h.gen.page.gen == h.gen && !h.gen.over {
				still = append(still, h)
			}
		}
		o.fill(still)
		o.say(p.charges)
	}
}

// settlePosts: a write that was posted before is now seen to have landed or
// failed.
func (o *oracle) settlePosts(e *entry, of map[*transfer]bool) {
	for _, t := range o.transfers {
		if t.receiver != e.Inst || e.From != "" && t.sender != e.From || len(of) > 0 && !of[t] {
			continue
		}
		for _, p := range t.posted {
			if p.fact.Addr == e.Addr && p.fact.Bytes == e.Bytes && p.fact.QP == e.QP {
				p.settled = true
			}
		}
	}
}

// writerOf finds the transfer that a write belongs to. If two requests could
// own it, it belongs to neither: both are returned as ambiguous.
func (o *oracle) writerOf(f *lifecycle.Fact, p piece) (t *transfer, ambiguous []*transfer) {
	into := o.between(f.Inst, f.From)
	steps := [][]*transfer{byXfer(f, into), o.bySource(f, into), openOn(p, into)}
	for n, found := range steps {
		if len(found) == 0 {
			continue
		}
		if n < 2 && sameRequest(found) == nil {
			found = narrow(found, p)
		}
		if sameRequest(found) == nil {
			return nil, found
		}
		return best(found, p), nil
	}
	return o.lastEnded(f, p), nil
}

// between are the transfers into an instance from a peer; from any, where
// nobody said from whom.
func (o *oracle) between(inst, from string) (ts []*transfer) {
	for _, t := range o.transfers {
		if t.receiver == inst && (from == "" || t.sender == from) && t.started() {
			ts = append(ts, t)
		}
	}
	return ts
}

func byXfer(f *lifecycle.Fact, into []*transfer) (found []*transfer) {
	for _, t := range into {
		if f.Xfer != "" && t.xfer == f.Xfer {
			found = append(found, t)
		}
	}
	return found
}

// openOn are the open transfers that target the page.
func openOn(p piece, into []*transfer) (found []*transfer) {
	for _, t := range into {
		if t.open() && t.aims(p) {
			found = append(found, t)
		}
	}
	return found
}

// bySource are the transfers of whoever holds, on the sender, the page that
// the bytes came from.
func (o *oracle) bySource(f *lifecycle.Fact, into []*transfer) (found []*transfer) {
	for _, pg := range o.sourcePages(f) {
		for _, ref := range pg.refs {
			for _, t := range into {
				if ref.req != nil && ref.req == o.sends(t) && !slices.Contains(found, t) {
					found = append(found, t)
				}
			}
		}
	}
	return found
}

// sends is the request that a transfer is for, on the sender.
func (o *oracle) sends(t *transfer) *request {
	if t.fromReq != nil {
		return t.fromReq
	}
	return t.room.at[t.sender]
}

// takes is the request that a transfer is for, on the receiver.
func (o *oracle) takes(t *transfer) *request {
	if t.toReq != nil {
		return t.toReq
	}
	return t.room.at[t.receiver]
}

// aims reports whether a transfer targets a page, of whatever generation; or,
// for a staging buffer, its pool.
func (t *transfer) aims(p piece) bool {
	return slices.ContainsFunc(t.targets, func(g *generation) bool {
		return g.page == p.page || p.page == nil && g.page.pool == p.pool
	})
}

// generation is the latest generation of a page that a transfer named.
func (t *transfer) generation(pg *page) (named *generation) {
	for _, g := range t.targets {
		if g.page == pg {
			named = g
		}
	}
	return named
}

// sameRequest is one of the transfers, if all are of one room.
func sameRequest(ts []*transfer) *transfer {
	for _, t := range ts {
		if t.room != ts[0].room {
			return nil
		}
	}
	return ts[0]
}

// narrow prefers, of transfers of several requests, those that target the
// page, and of these the open ones.
func narrow(ts []*transfer, p piece) []*transfer {
	for _, want := range []func(*transfer) bool{
		func(t *transfer) bool { return t.aims(p) },
		func(t *transfer) bool { return t.open() },
	} {
		var kept []*transfer
		for _, t := range ts {
			if want(t) {
				kept = append(kept, t)
			}
		}
		if len(kept) > 0 {
			ts = kept
		}
	}
	return ts
}

// best is, of the transfers of one room, the one that named the page's present
// generation, else one that named the page, else the last.
func best(ts []*transfer, p piece) *transfer {
	chosen := ts[len(ts)-1]
	for _, t := range ts {
		if t.aims(p) {
			chosen = t
		}
	}
	for _, t := range ts {
		if p.page != nil && t.generation(p.page) == p.page.gen {
			chosen = t
		}
	}
	return chosen
}

// lastEnded is the last ended transfer from the peer on the page.
func (o *oracle) lastEnded(f *lifecycle.Fact, p piece) (last *transfer) {
	for _, t := range o.between(f.Inst, f.From) {
		if t.ended && t.aims(p) && (last == nil || t.endedAt >= last.endedAt) {
			last = t
		}
	}
	return last
}

// sourcePages are the pages of the sender that the bytes came from.
func (o *oracle) sourcePages(f *lifecycle.Fact) (pages []*page) {
	if !f.FromAddr.Has || f.From == "" || f.Bytes > ^uint64(0)-f.FromAddr.V {
		return nil
	}
	for _, p := range o.pieces(f.From, f.FromAddr.V, f.Bytes) {
		if p.page != nil && !slices.Contains(pages, p.page) {
			pages = append(pages, p.page)
		}
	}
	return pages
}

// strike decides what one piece of a write means: it fills its page, or it is
// charged.
func (o *oracle) strike(f *lifecycle.Fact, p piece, t *transfer, c *charges) []hit {
	if p.page == nil {
		if t == nil {
			return nil
		}
		return []hit{{p, nil, t}}
	}
	pg := p.page
	if t == nil {
		o.foreignBytes(f, pg, nil, c)
		return nil
	}
	named := t.generation(pg)
	r := o.takes(t)
	switch {
	case named == pg.gen && !pg.gen.over:
		return []hit{{p, pg.gen, t}}
	case r != nil && pg.gen.holder == r && !pg.gen.over:
		return []hit{{p, pg.gen, t}} // its own page, though it did not name it
	case named != nil:
		o.lateBytes(f, pg, t, c)
	case pg.wasOf(r):
		o.lateBytes(f, pg, t, c)
	default:
		o.foreignBytes(f, pg, t, c)
	}
	return nil
}
