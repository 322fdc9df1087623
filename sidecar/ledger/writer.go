package ledger

import (
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// whoseWrite is hard case 8: which transfer bytes on a page belong to. It
// returns the activity that they cover, or 0 where they cover nothing: a write
// after release, one of two that could own it, or a stranger's.
func (l *Ledger) whoseWrite(c *call, from *instance, pl *pool, at uint32) uint32 {
	p := &pl.pages[at]
	if a := p.act; a != 0 {
		// The common case: of the transfers that name the page only the last is
		// open, and nothing in the fact points elsewhere.
		rec := &pl.acts[a]
		t := l.of(rec)
		if !rec.source && rec.born == p.born && t.send == from && p.held() && t.open() &&
			(c.f.Xfer == "" || c.f.Xfer == t.xfer) && !c.f.FromAddr.Has && pl.allClosed(rec.next) {
			return a
		}
	}
	a, two := l.candidate(c, from, pl, p)
	if two {
		return 0
	}
	if a == 0 || !l.of(&pl.acts[a]).open() && (c.f.Xfer == "" || l.of(&pl.acts[a]).xfer != c.f.Xfer || pl.acts[a].born != p.born) {
		if b := l.unnamedTarget(c, from, pl, at, p, a != 0); b != 0 {
			a = b
		}
	}
	if a == 0 {
		l.strangersBytes(c, pl, at, p)
		return 0
	}
	rec := &pl.acts[a]
	if rec.born == p.born && p.held() {
		return a
	}
	l.writeAfterRelease(c, rec, pl, at, p)
	return 0
}

// allClosed reports whether the transfers from this activity on are known to be
// over.
func (pl *pool) allClosed(a uint32) bool {
	for ; a != 0; a = pl.acts[a].next {
		if !pl.acts[a].closed {
			return false
		}
	}
	return true
}

// unnamedTarget is for a transfer that its receiver never named (hard case 3),
// though it may have named others where no stream promises them, or the bytes name
// it: its targets are the pages that its request reserved there. open: only a
// transfer that still runs is meant.
func (l *Ledger) unnamedTarget(c *call, from *instance, pl *pool, at uint32, p *page, open bool) uint32 {
	r := l.parties.all[p.owner].req
	if r == nil || p.flags&ownerRef == 0 {
		return 0
	}
	h := r.room.into(pl.inst)
	if h == nil || c.f.Xfer == "" && h.startedByReceiver() && pl.inst.engine && pl.promises(lifecycle.TransferStarted) {
		return 0
	}
	for i := len(h.transfers) - 1; i >= 0; i-- {
		t := h.transfers[i]
		if t.sendTick == 0 || t.recvTick != 0 || open && !t.open() || from != nil && t.send != from || c.f.Xfer != "" && t.xfer != c.f.Xfer {
			continue
		}
		l.name(pl, at, t, false)
		t.targets = addNamed(t.targets, named{pl, at, 1, p.born})
		pick := l.newestOf(pl, p, func(o *transfer) bool { return o == t })
		if pick != 0 {
			pl.acts[pick].implied = true
		}
		return pick
	}
	return 0
}

// candidate picks the transfer by xfer, else by the holder of the source
// address, else the one open, else the last that ended. two: more than one
// request could own the write, so both are unwitnessed.
func (l *Ledger) candidate(c *call, from *instance, pl *pool, p *page) (pick uint32, two bool) {
	fits := func(t *transfer) bool { return from == nil && c.f.From == "" || t.send == from && from != nil }
	if c.f.Xfer != "" {
		if a := l.newestOf(pl, p, func(t *transfer) bool { return fits(t) && t.xfer == c.f.Xfer }); a != 0 {
			return a, false
		}
	}
	if rooms := l.sourceRooms(c, from); len(rooms) > 0 {
		a := l.newestOf(pl, p, func(t *transfer) bool { return fits(t) && rooms[t.room] })
		if a != 0 || c.f.Xfer == "" && len(rooms) == 1 {
			return a, false
		}
	}
	if c.f.Xfer != "" {
		return 0, l.ofUnheard(c, pl, p, fits)
	}
	for a := p.act; a != 0; a = pl.acts[a].next {
		rec := &pl.acts[a]
		if rec.source || !l.of(rec).open() || !fits(l.of(rec)) {
			continue
		}
		switch {
		case pick == 0:
			pick = a
		case l.of(&pl.acts[pick]).room != l.of(rec).room:
			l.couldOwn(pl, p, fits)
			return 0, true
		case rec.born > pl.acts[pick].born:
			pick = a
		}
	}
	if pick == 0 {
		pick = l.newestOf(pl, p, fits)
	}
	return pick, false
}

// ofUnheard is for bytes that name a transfer which does not name the page: those
// that do name it are not their writers. It reports whether the bytes are of one
// whose start nobody saw; then they tell nothing, but that they may be what the
// page was owed.
func (l *Ledger) ofUnheard(c *call, pl *pool, p *page, fits func(*transfer) bool) bool {
	if l.runningAs(c) != nil {
		return false
	}
	owed := l.owedTo(pl, p)
	if owed != nil && owed.started(c) {
		return false
	}
	if owed != nil {
		l.blur(owed)
	}
	if l.newestOf(pl, p, fits) != 0 {
		l.couldOwn(pl, p, fits)
		return true
	}
	return owed != nil
}

// started reports whether the handoff has a transfer that a fact names by xfer and
// peer, be it one that was said to be gone since.
func (h *handoff) started(c *call) bool {
	return slices.ContainsFunc(h.transfers, func(t *transfer) bool {
		return t.xfer == c.f.Xfer && t.send.name == c.f.From && t.sendTick != 0
	})
}

// owedTo is the handoff, not judged yet, of the request to which the page was handed
// out; nil if there is none.
func (l *Ledger) owedTo(pl *pool, p *page) *handoff {
	r := l.parties.all[p.owner].req
	if r == nil || p.flags&ownerRef == 0 {
		return nil
	}
	if h := r.room.into(pl.inst); h != nil && !h.judged {
		return h
	}
	return nil
}

// couldOwn makes every request that could own a write unwitnessed.
func (l *Ledger) couldOwn(pl *pool, p *page, fits func(*transfer) bool) {
	for a := p.act; a != 0; a = pl.acts[a].next {
		if rec := &pl.acts[a]; !rec.source && l.of(rec).open() && fits(l.of(rec)) {
			l.blur(l.of(rec).into)
		}
	}
}

// newestOf is the latest target activity whose transfer is wanted, an open
// transfer before one that ended.
func (l *Ledger) newestOf(pl *pool, p *page, want func(*transfer) bool) (pick uint32) {
	for a := p.act; a != 0; a = pl.acts[a].next {
		rec := &pl.acts[a]
		if rec.source || !want(l.of(rec)) {
			continue
		}
		if pick == 0 || later(l.of(rec), l.of(&pl.acts[pick])) {
			pick = a
		}
	}
	return pick
}

func later(a, b *transfer) bool {
	if a.open() != b.open() {
		return a.open()
	}
	return !a.open() && a.endedTick > b.endedTick
}

// sourceRooms are the rooms whose request on the sender holds the page at the
// source address; nil where that is not known.
func (l *Ledger) sourceRooms(c *call, from *instance) map[*room]bool {
	if !c.f.FromAddr.Has || from == nil {
		return nil
	}
	st, _ := from.stretchAt(c.f.FromAddr.V)
	if st == nil || st.bit < 0 {
		return nil
	}
	at, _ := st.page(c.f.FromAddr.V - st.base)
	if st.pool.mute(&st.pool.pages[at]) {
		return nil
	}
	var rooms map[*room]bool
	known := true
	l.eachHolder(st.pool, at, func(r *request) {
		if rooms == nil {
			rooms = map[*room]bool{}
		}
		rooms[r.room] = true
		known = known && r.room.id != "" // else it may be of any
	})
	if !known {
		return nil
	}
	return rooms
}

// strangersBytes: no transfer from that peer, open or ended, targets the page.
func (l *Ledger) strangersBytes(c *call, pl *pool, at uint32, p *page) {
	if l.writesWhatItHad(c, pl, at, p) {
		return
	}
	if pl.mute(p) || !c.inst.engine || !pl.promises(lifecycle.TransferStarted) || c.f.Outcome == lifecycle.Errored || c.f.Outcome == lifecycle.Posted {
		return
	}
	var req *request
	rm := l.writersRoom(c)
	if rm != nil {
		if req = rm.on(c.inst); req != nil && req.holds(pl, at, p) {
			return
		}
	}
	l.accuse(finding.ForeignPage, c.inst, req, rm, pl).on(l, at, p.content).
		say("no transfer names the page", "bytes from "+firstOf(c.f.From, "an unknown instance")+" arrived there")
}

// writesWhatItHad is for bytes that name their transfer, on a page that its request
// was given and does not have any more: wherever the receiver names no pages.
func (l *Ledger) writesWhatItHad(c *call, pl *pool, at uint32, p *page) bool {
	t := l.runningAs(c)
	if t == nil || pl.mute(p) || c.f.Outcome == lifecycle.Errored {
		return false
	}
	r := t.room.on(c.inst)
	if r == nil || r.holds(pl, at, p) || r.past.find(pl.index, at) == nil && r.lost.find(pl.index, at) == nil {
		return false
	}
	c.tr = t
	l.wrongBytes(c, t, wrong{
		kind: finding.WriteAfterRelease, inst: c.inst, req: r, room: t.room, pool: pl, at: at,
		claim: "released", seen: "a write that names its transfer landed there afterwards",
	})
	return true
}

// writersRoom is the room of a write that no transfer into the page explains:
// that of its xfer, else that of the only request that holds its source.
func (l *Ledger) writersRoom(c *call) *room {
	if t := l.runningAs(c); t != nil {
		return t.room
	}
	if rooms := l.sourceRooms(c, l.insts[c.f.From]); len(rooms) == 1 {
		for rm := range rooms {
			return rm
		}
	}
	return nil
}

// runningAs is the transfer that a fact names by xfer and peer, though not on
// this page.
func (l *Ledger) runningAs(c *call) *transfer {
	if c.f.Xfer == "" || c.f.From == "" {
		return nil
	}
	for t := range c.inst.running {
		if t.xfer == c.f.Xfer && t.send.name == c.f.From {
			return t
		}
	}
	return nil
}

// sourceRead: the pages at the source address were read for the transfer. They
// are stale where they were not written in their present generation.
func (l *Ledger) sourceRead(c *call, from *instance) {
	st, _ := from.stretchAt(c.f.FromAddr.V)
	if st == nil || st.bit < 0 || c.f.Outcome == lifecycle.Errored {
		return
	}
	end := min(c.f.FromAddr.V-st.base+c.f.Bytes, st.bytes)
	for off := c.f.FromAddr.V - st.base; off < end; {
		at, in := st.page(off)
		p := &st.pool.pages[at]
		if !p.written() && !st.pool.mute(p) {
			l.staleSource(c, from, st.pool, at, p)
		}
		off += st.stride - in
	}
}

func (l *Ledger) staleSource(c *call, from *instance, pl *pool, at uint32, p *page) {
	claim, seen, stale := l.stale(pl, p)
	if !stale {
		return
	}
	var req *request
	if c.tr != nil {
		req = c.tr.room.on(from)
	}
	if req == nil && p.flags&ownerRef != 0 {
		req = l.parties.all[p.owner].req
	}
	l.wrongBytes(c, c.tr, wrong{kind: finding.StaleRead, inst: from, req: req, pool: pl, at: at, claim: "sent; " + claim, seen: seen})
}
