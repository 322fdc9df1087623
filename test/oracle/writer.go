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
	fact   *lifecycle.Fact
	parts  []part
	source *charges // what its source means
	known  spans    // the addresses of which it is known whether they landed
	landed spans    // those where it filled something by the completion of the transfer alone
}

// part is what one piece of a write means: it fills a page, or it is charged.
type part struct {
	piece   piece
	by      *transfer
	fills   bool
	gen     *generation // that it fills; nil for a staging buffer
	charges *charges
}

func (p *post) settled() bool { return p.known.covers(p.fact.Addr, p.fact.Addr+p.fact.Bytes) }

// moved applies bytes_moved: whose write it is, what it fills and what it
// breaks (hard case 8).
func (o *oracle) moved(e *entry) {
	o.settlePosts(e)
	if e.Outcome == lifecycle.Errored {
		for _, p := range o.pieces(e.Inst, e.Addr, e.Bytes) {
			o.endsStray(e.Fact, p)
		}
		return
	}
	parts, writers := o.partsOf(e.Fact)
	if e.Outcome != lifecycle.Posted {
		c := o.charges()
		o.staleSource(e.Fact, writers, c)
		o.take(parts, nil, c)
		o.say(c)
		return
	}
	o.postedAstray(e.Fact, parts)
	for _, t := range writers {
		p := &post{fact: e.Fact, source: o.charges()}
		o.staleSource(e.Fact, []*transfer{t}, p.source)
		for _, x := range parts {
			if x.by == t {
				p.parts = append(p.parts, x)
			}
		}
		t.posted = append(t.posted, p)
	}
}

// partsOf decides what each piece of a write means, and whose it is.
func (o *oracle) partsOf(f *lifecycle.Fact) (parts []part, writers []*transfer) {
	for _, p := range o.pieces(f.Inst, f.Addr, f.Bytes) {
		w := o.writerOf(f, p)
		if o.endsStray(f, p) && !o.belongs(w.t, p.page) {
			continue
		}
		for _, t := range w.either {
			h := t.handoff()
			h.mixed = true
			h.blur("a write could be of it or of another")
			o.takes(t).blur("a write could be of it or of another")
		}
		if h := w.owed; h != nil {
			h.mixed = true
			h.blur("a write could be of it or of another")
		}
		if len(w.either) > 0 || w.unheard {
			continue
		}
		if w.t != nil && !slices.Contains(writers, w.t) {
			writers = append(writers, w.t)
			o.touch(w.t)
		}
		x := part{piece: p, by: w.t, charges: o.charges()}
		o.strike(f, w, &x)
		parts = append(parts, x)
	}
	return parts, writers
}

// take lets parts of a write land, but for addresses of which something else
// is known already.
func (o *oracle) take(parts []part, known spans, c *charges) {
	for _, x := range parts {
		for _, left := range known.holes(x.piece.addr, x.piece.addr+x.piece.to-x.piece.from) {
			if x.fills {
				o.fill(x, left)
			}
			c.merge(x.charges)
		}
	}
}

// fill notes bytes that landed where they belong.
func (o *oracle) fill(x part, at span) {
	from := x.piece.from + at.from - x.piece.addr
	to := from + at.to - at.from
	if x.gen == nil {
		x.by.staged[x.piece.pool] = x.by.staged[x.piece.pool].with(from, to)
		return
	}
	g := x.gen
	if g.page.gen != g || g.over {
		return // posted before the generation ended
	}
	if g.bytes == nil {
		g.bytes = map[int]spans{}
	}
	g.bytes[x.piece.region] = g.bytes[x.piece.region].with(from, to)
	if !slices.Contains(g.brought, x.by) {
		g.brought = append(g.brought, x.by)
	}
	g.used = true
	g.laid = append(g.laid, laid{content{o.takes(x.by), g}, false})
}

// stagedBytes are those that came through a pool's staging buffer, retries
// counted once. What a transfer that failed left there went nowhere.
func (h *handoff) stagedBytes(p *pool) (n uint64) {
	for _, t := range h.transfers() {
		if !t.failed {
			n += t.staged[p].size()
		}
	}
	return n
}

// land is the completion of a transfer without an error: what it posted, and
// nothing is known to have failed, counts.
func (o *oracle) land(t *transfer) {
	for _, p := range t.posted {
		c := o.charges()
		o.take(p.parts, p.known, c)
		if !p.settled() {
			c.merge(p.source)
		}
		o.say(c)
		for _, x := range p.parts {
			for _, s := range p.known.holes(x.piece.addr, x.piece.addr+x.piece.to-x.piece.from) {
				if x.fills {
					p.landed = p.landed.with(s.from, s.to)
				}
			}
		}
		p.known = p.known.with(p.fact.Addr, p.fact.Addr+p.fact.Bytes)
	}
}

// hasLanded: the write was posted by a transfer that completed since, so it landed
// before that; only its end is seen now (R18). It ends once.
func (o *oracle) hasLanded(f *lifecycle.Fact, p piece) (was bool) {
	if f.Outcome == lifecycle.Posted {
		return false
	}
	for _, t := range o.between(f.Inst, f.From) {
		if f.Xfer == "" || t.xfer == f.Xfer {
			was = t.hasLanded(p) || was
		}
	}
	return was
}

// hasLanded is the same of the posts of one transfer, together.
func (t *transfer) hasLanded(p piece) bool {
	from, to := p.addr, p.addr+p.to-p.from
	var all spans
	for _, x := range t.posted {
		for _, s := range x.landed {
			all = all.with(s.from, s.to)
		}
	}
	if !all.covers(from, to) {
		return false
	}
	for _, x := range t.posted {
		x.landed = x.landed.without(from, to)
	}
	return true
}

// settlePosts: of some addresses that were posted before it is now seen that
// the write landed, or failed.
func (o *oracle) settlePosts(e *entry) {
	if e.Outcome == lifecycle.Posted {
		return
	}
	for _, t := range o.between(e.Inst, e.From) {
		if e.Xfer != "" && t.xfer != e.Xfer {
			continue
		}
		for _, p := range t.posted {
			apart := e.Addr+e.Bytes <= p.fact.Addr || p.fact.Addr+p.fact.Bytes <= e.Addr
			if !apart && (!p.fact.QP.Has || !e.QP.Has || p.fact.QP == e.QP) {
				p.known = p.known.with(e.Addr, e.Addr+e.Bytes)
			}
		}
		o.drainSeen(t)
	}
}

// writer is whose write it was: one transfer's; one of several, nobody knows
// whose; or that of a room that has no transfer into the page.
type writer struct {
	t       *transfer
	either  []*transfer
	room    *room
	unheard bool     // of a transfer whose start nobody saw
	owed    *handoff // that may have been owed it
}

// writerOf is hard case 8: by xfer, by the source, by the open transfer on the
// page, by the last ended one.
func (o *oracle) writerOf(f *lifecycle.Fact, p piece) writer {
	into := o.between(f.Inst, f.From)
	if found := byXfer(f, into); len(found) > 0 {
		return o.oneOf(o.narrow(found, p), p)
	}
	if rooms := o.sourceRooms(f); len(rooms) > 0 {
		var found []*transfer
		for _, t := range into {
			if slices.Contains(rooms, t.room) && o.aims(t, p) {
				found = append(found, t)
			}
		}
		if len(found) > 0 {
			return o.oneOf(o.narrow(found, p), p)
		}
		if len(rooms) == 1 && p.page != nil {
			return writer{room: rooms[0]}
		}
	}
	open, last := o.openOn(p, into), o.lastEnded(f, p)
	switch {
	case f.Xfer != "" && p.page == nil: // a staging buffer, where nothing is of a page
		return writer{unheard: true}
	case f.Xfer != "" && (len(open) > 0 || last != nil || o.owedTo(f, p) != nil):
		return writer{either: open, owed: o.owedTo(f, p), unheard: true} // it names another
	case len(open) > 0:
		return o.oneOf(open, p)
	}
	return writer{t: last}
}

// owedTo is the handoff, not judged yet, of the request to which the page was handed
// out.
func (o *oracle) owedTo(f *lifecycle.Fact, p piece) *handoff {
	r := p.page.gen.holder
	if r == nil || r.room == nil || p.page.ref(r) == nil {
		return nil
	}
	for _, h := range r.room.handoffs {
		if h.receiver == f.Inst && !h.judged {
			return h
		}
	}
	return nil
}

// oneOf: if two requests could own a write, it belongs to neither.
func (o *oracle) oneOf(found []*transfer, p piece) writer {
	for _, t := range found {
		if t.room != found[0].room {
			return writer{either: found}
		}
	}
	return writer{t: o.best(found, p)}
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
func (o *oracle) openOn(p piece, into []*transfer) (found []*transfer) {
	for _, t := range into {
		if t.open() && o.aims(t, p) {
			found = append(found, t)
		}
	}
	return found
}

// sourceRooms are the rooms of those who hold, on the sender, the pages that
// the bytes came from.
func (o *oracle) sourceRooms(f *lifecycle.Fact) (rooms []*room) {
	for _, pg := range o.sourcePages(f) {
		for _, ref := range pg.refs {
			if pg.gen.unknown || ref.req == nil || ref.req.room == nil {
				return nil // somebody who is not known
			}
			if !slices.Contains(rooms, ref.req.room) {
				rooms = append(rooms, ref.req.room)
			}
		}
	}
	return rooms
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
// for a staging buffer, its pool. Where the receiver need not say its starts, or has
// said none, the pages of its request are the targets.
func (o *oracle) aims(t *transfer, p piece) bool {
	unsaid := !p.pool.inst.promises(p.pool, lifecycle.TransferStarted) || !t.handoff().receiverSide()
	if r := o.takes(t); !t.received && r != nil && unsaid {
		return p.page != nil && (same(p.page.gen.holder, r) && p.page.ref(r) != nil || p.page.broughtBy(t)) || p.page == nil && len(r.given[p.pool]) > 0
	}
	return slices.ContainsFunc(t.targets, func(g *generation) bool {
		return g.page == p.page || p.page == nil && g.page.pool == p.pool
	})
}

// broughtBy: bytes of the transfer filled some generation of the page.
func (pg *page) broughtBy(t *transfer) bool {
	by := func(g *generation) bool { return slices.Contains(g.brought, t) }
	return by(pg.gen) || slices.ContainsFunc(pg.earlier, by)
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

// narrow prefers, of transfers of several requests, those that target the
// page, and of these the open ones.
func (o *oracle) narrow(ts []*transfer, p piece) []*transfer {
	for _, want := range []func(*transfer) bool{
		func(t *transfer) bool { return o.aims(t, p) },
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
func (o *oracle) best(ts []*transfer, p piece) *transfer {
	chosen := ts[len(ts)-1]
	for _, t := range ts {
		if o.aims(t, p) {
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
		if t.ended && o.aims(t, p) && (last == nil || t.endedAt >= last.endedAt) {
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

// strike decides what one piece of a write means.
func (o *oracle) strike(f *lifecycle.Fact, w writer, x *part) {
	pg := x.piece.page
	if pg == nil {
		x.fills = w.t != nil
		return
	}
	switch {
	case w.t == nil && w.room == nil:
		o.foreignBytes(f, pg, w, x.charges)
	case w.t == nil:
		o.strikeOfRoom(f, w, x)
	default:
		o.strikeOfTransfer(f, w, x)
	}
}

func (o *oracle) strikeOfTransfer(f *lifecycle.Fact, w writer, x *part) {
	pg := x.piece.page
	switch {
	case o.belongs(w.t, pg):
		if g := w.t.generation(pg); g != nil && g != pg.gen && w.t.hasLanded(x.piece) {
			return // in the earlier generation that it named
		}
		x.fills, x.gen = true, pg.gen
	case w.t.generation(pg) != nil || pg.wasOf(o.takes(w.t)):
		if !o.hasLanded(f, x.piece) {
			o.lateBytes(f, pg, w.t, x.charges)
		}
	default:
		o.foreignBytes(f, pg, w, x.charges)
	}
}

// belongs reports whether what a transfer writes into a page is for its present
// generation: it named it, or the page is its request's.
func (o *oracle) belongs(t *transfer, pg *page) bool {
	return t != nil && !pg.gen.over && (t.generation(pg) == pg.gen || same(pg.gen.holder, o.takes(t)))
}

// strikeOfRoom: the source is a room's, and no transfer of the room goes into
// the page.
func (o *oracle) strikeOfRoom(f *lifecycle.Fact, w writer, x *part) {
	pg := x.piece.page
	r := w.room.at[f.Inst]
	if same(pg.gen.holder, r) && !pg.gen.over {
		return // its own page
	}
	o.foreignBytes(f, pg, w, x.charges)
}
