package ledger

import (
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// reserve begins a new generation of each page.
func (l *Ledger) reserve(c *call) {
	who, state := partyID(0), ownerRef
	switch {
	case c.req != nil:
		who = c.req.party
	case c.f.Holder == "cache":
		who = l.parties.add(party{inst: c.inst.name})
		state = cached
	default:
		state = ownerRef | unknown // a nameless holder: nothing is known of who may read or write
		l.reservedBy(c)
	}
	for _, run := range c.f.Pages {
		taken := l.handOut(c.pool, run, who, state)
		if c.req != nil {
			c.req.owned += taken
			c.req.give(l, c.pool, run, l.tick, false)
		}
	}
	if c.req != nil {
		l.progress(c.req)
	} else if who != 0 {
		l.parties.drop(who, 0)
	}
}

// reservedBy notes that an instance reserved pages for a room whose request there
// nobody named.
func (l *Ledger) reservedBy(c *call) {
	if rm := l.roomOf(c.f); rm != nil && !slices.Contains(rm.reserved, c.inst) {
		rm.reserved = append(rm.reserved, c.inst)
	}
}

// handOut gives the pages of a run to a new owner and returns how many.
func (l *Ledger) handOut(pl *pool, run lifecycle.Run, who partyID, state flags) int {
	left := moves{ps: &l.parties}
	pages := pl.pages[run.First:run.End()]
	taken := 0
	refs := uint32(1)
	if state&cached != 0 {
		refs = 0
	}
	for i := range pages {
		p := &pages[i]
		if p.flags&null != 0 {
			continue
		}
		if p.act != 0 {
			l.generationEnds(pl, p)
		}
		if p.refs == 0 {
			pl.holding += int64(refs)
		} else {
			l.losesOwner(pl, run.First+uint32(i), p)
			pl.holding -= int64(1 - refs)
		}
		if p.owner != 0 {
			left.leave(p.owner)
		}
		lost := p.flags & robbed
		if p.flags&cached != 0 {
			lost = robbed // its eviction says nothing: double_hold did
		}
		p.born, p.owner, p.refs, p.key, p.flags = l.tick, who, refs, 0, state|lost
		taken++
	}
	left.flush()
	if who != 0 {
		l.parties.all[who].pages += uint32(taken)
	}
	l.stats.PagesReserved += uint64(taken)
	return taken
}

// losesOwner takes a page from a request that still held it (double_hold). When
// that request gives the page back later, it says nothing.
func (l *Ledger) losesOwner(pl *pool, at uint32, p *page) {
	if p.flags&ownerRef == 0 || p.owner == 0 {
		return
	}
	if r := l.parties.all[p.owner].req; r != nil {
		r.owned--
		if len(r.lost) >= l.cfg.Limits.Releases {
			l.stats.Forgotten.Releases++
			r.lostMore = true
			unsee(r.room, r.inst, "more of its pages were handed out to others than are remembered")
			return
		}
		r.lost.add(span{pool: pl.index, first: at, count: 1})
	}
}

// generationEnds lets open handoffs remember what a page held before it is
// handed out again.
func (l *Ledger) generationEnds(pl *pool, p *page) {
	unseen := pl.unseen(p)
	if !p.written() && l.partlyFilled(pl, p) {
		l.ownContent(p) // who reads the page next reads what came of it
	}
	for a := p.act; a != 0; a = pl.acts[a].next {
		rec := &pl.acts[a]
		rec.closed = rec.closed || !l.of(rec).open()
		if !unseen && rec.born == p.born && !rec.settled {
			rec.settled, rec.filled, rec.local, rec.claimed = true, p.written(), p.flags&local != 0, p.flags&claimed != 0
		}
	}
}

// share gives a request a reference on pages that the cache holds.
func (l *Ledger) share(c *call) {
	if c.f.Domain.Has && !c.req.domain(l).Has {
		l.parties.all[c.req.party].domain = c.f.Domain
	}
	c.req.takenBack(c.pool)
	for _, run := range c.f.Pages {
		for at := run.First; at < run.End(); at++ {
			p := &c.pool.pages[at]
			if p.flags&null != 0 || c.req.holds(c.pool, at, p) {
				continue
			}
			if p.refs == 0 {
				c.pool.holding++
			}
			p.refs++
			c.req.shares.add(span{pool: c.pool.index, first: at, count: 1, tick: l.tick})
		}
		c.req.give(l, c.pool, run, l.tick, true)
	}
}

// write fills pages, as claimed. What somebody else than the owner writes does
// not fill the generation; it only says whose bytes lie there.
func (l *Ledger) write(c *call) {
	fill := local
	if c.f.By == lifecycle.ByTransfer {
		fill = claimed
	}
	filled := 0
	for _, run := range c.f.Pages {
		pages := c.pool.pages[run.First:run.End()]
		left := moves{ps: &l.parties}
		came := moves{ps: &l.parties}
		for i := range pages {
			p := &pages[i]
			owner := c.req == nil || p.owner == c.req.party
			if p.flags&null != 0 || !owner && !c.pool.mute(p) && !l.anybodys(p, c.f.By) {
				continue
			}
			p.flags |= fill
			filled++
			whose := p.owner
			if !owner && c.pool.mute(p) {
				whose = c.req.party // to whom it was handed out is not known
			}
			if p.content != whose && p.written() {
				l.takesContent(p, whose, &left, &came)
			}
		}
		left.flush()
		came.arrive()
	}
	l.stats.PagesWrittenClaim += uint64(filled)
	if len(c.inst.pending) > 0 {
		l.writtenInStep(c)
	}
}

// takesContent notes whose bytes lie in a page now.
func (l *Ledger) takesContent(p *page, whose partyID, left, came *moves) {
	if p.content != 0 {
		left.leave(p.content)
	}
	if whose != 0 {
		came.come(whose)
	}
	p.content = whose
}

// anybodys reports whether the page is handed out, and anybody may write it so: one
// that the cache reserved is filled by whoever reloads or copies into it, and of a
// request without id it is not known who it is.
func (l *Ledger) anybodys(p *page, by lifecycle.By) bool {
	owner := &l.parties.all[p.owner] // of the cache, or of nobody, it has no request
	return p.held() && owner.id == "" && (owner.req != nil || by == lifecycle.ByReload || by == lifecycle.ByCopy)
}

// copyPages carries content, domain and written state along.
func (l *Ledger) copyPages(c *call) {
	src, dst, next := l.copied(c)
	for a, b, ok := next(); ok; a, b, ok = next() {
		l.copyPage(src, dst, a, b)
	}
}

// copied are the pools of a copy, and what walks its pages.
func (l *Ledger) copied(c *call) (src, dst *pool, next func() (uint32, uint32, bool)) {
	from, to := c.f.CopyFrom, c.f.CopyTo
	src = l.locate(c.inst, firstOf(from.Pool, c.f.Pool), nil)
	dst = l.locate(c.inst, firstOf(to.Pool, c.f.Pool), nil)
	if src == nil || dst == nil || !l.fits(src, from.Pages, nil) || !l.fits(dst, to.Pages, nil) {
		return nil, nil, func() (uint32, uint32, bool) { return 0, 0, false }
	}
	return src, dst, pairs(from.Pages, to.Pages)
}

// copiesTooSoon reports whether a copy is of a page that is not written, or into one
// that nobody holds.
func (l *Ledger) copiesTooSoon(c *call) bool {
	src, dst, next := l.copied(c)
	for a, b, ok := next(); ok; a, b, ok = next() {
		p, q := &src.pages[a], &dst.pages[b]
		if p.flags&null == 0 && !p.written() || q.flags&null == 0 && !q.held() {
			return true
		}
	}
	return false
}

func (l *Ledger) copyPage(src, dst *pool, a, b uint32) {
	p, q := &src.pages[a], &dst.pages[b]
	if q.flags&null != 0 {
		return
	}
	left, came := moves{ps: &l.parties}, moves{ps: &l.parties}
	l.takesContent(q, p.content, &left, &came)
	came.arrive() // before leaving, lest the party be forgotten in between
	left.flush()
	q.flags &^= local | claimed | observed
	switch {
	case src.mute(p):
		q.flags |= unknown
	case p.written():
		q.flags |= local | copied
		l.stats.PagesWrittenClaim++
	}
}

// pairs walks two lists of runs page by page.
func pairs(a, b lifecycle.Runs) func() (uint32, uint32, bool) {
	var i, j int
	var x, y uint32
	return func() (uint32, uint32, bool) {
		for i < len(a) && x == a[i].Count {
			i, x = i+1, 0
		}
		for j < len(b) && y == b[j].Count {
			j, y = j+1, 0
		}
		if i == len(a) || j == len(b) {
			return 0, 0, false
		}
		x, y = x+1, y+1
		return a[i].First + x - 1, b[j].First + y - 1, true
	}
}

// cache gives the prefix cache a reference.
func (l *Ledger) cache(c *call) {
	key := hashKey(c.f.Key)
	for _, run := range c.f.Pages {
		pages := c.pool.pages[run.First:run.End()]
		for i := range pages {
			p := &pages[i]
			if p.flags&null != 0 {
				continue
			}
			p.flags |= cached
			if key != 0 {
				p.key = key
			}
			who := p.owner
			if who == 0 && c.req != nil && p.content == c.req.party {
				who = p.content // to whom it was handed out is not known
			}
			if c.f.Domain.Has && who != 0 && !l.parties.all[who].domain.Has {
				l.parties.all[who].domain = c.f.Domain
			}
		}
	}
}

// hashKey is 32 bits of FNV-1a: two keys that differ look equal once in four
// billion times, which hides a wrong_block and never makes one.
func hashKey(key string) uint32 {
	if key == "" {
		return 0
	}
	h := uint32(2166136261)
	for i := 0; i < len(key); i++ {
		h = (h ^ uint32(key[i])) * 16777619
	}
	return max(h, 1)
}

// release takes a request's references back.
func (l *Ledger) release(c *call) {
	step := int64(-1)
	if c.f.Step.Has {
		step = c.f.Step.V
	}
	for _, run := range c.f.Pages {
		l.releaseRun(c, run, span{pool: c.pool.index, tick: l.tick, t: c.f.T, step: step})
	}
	l.retire(c.room)
}

// releaseRun takes back the pages of a run that the request holds, and lets it
// remember them as given back.
func (l *Ledger) releaseRun(c *call, run lifecycle.Run, back span) {
	pages := c.pool.pages[run.First:run.End()]
	for i := range pages {
		p := &pages[i]
		held := true
		switch {
		case p.owner == c.req.party && p.flags&ownerRef != 0:
			p.flags &^= ownerRef
			c.req.owned--
		case c.req.sharing(c.pool, run.First+uint32(i), p):
		case c.pool.unseen(p):
			held = false // it may have held it
		default:
			continue
		}
		if held {
			if p.refs--; p.refs == 0 {
				c.pool.holding--
			}
		}
		if at := run.First + uint32(i); back.count > 0 && back.end() == at {
			back.count++
		} else {
			c.req.remember(l, back)
			back.first, back.count = at, 1
		}
	}
	c.req.remember(l, back)
	c.req.lost.remove(c.pool.index, run.First, run.Count)
	c.req.shares.remove(c.pool.index, run.First, run.Count)
}

// evict takes the cache's reference back, else that of an earlier generation.
func (l *Ledger) evict(c *call) {
	for _, run := range c.f.Pages {
		pages := c.pool.pages[run.First:run.End()]
		for i := range pages {
			if p := &pages[i]; p.flags&cached != 0 {
				p.flags &^= cached
			} else {
				p.flags &^= robbed
			}
		}
	}
}

// readUnwritten notes the read of a page that was not written locally. One that
// is not written at all may still be, in the same step.
func (l *Ledger) readUnwritten(c *call, p *page) {
	if c.pool.unseen(p) {
		unsee(c.room, c.inst, "a page that it read holds what was there before anybody watched")
		c.req.readBlank = true
	}
	if p.flags&local != 0 {
		return
	}
	if p.owner != c.req.party && p.written() {
		return // shared: that it was written in its generation is enough
	}
	if c.f.Step.Has && !p.written() {
		return // awaitStep decides
	}
	c.req.readFar = true
	if _, _, stale := l.stale(c.pool, p); !stale && !p.written() && !c.pool.unseen(p) {
		unseeRead(c.room, c.inst, unvouched)
	}
}

// mayRead reports whether the page is, or was in time, the reader's.
func (l *Ledger) mayRead(c *call, at uint32, p *page) bool {
	return c.req.holds(c.pool, at, p) || l.inTime(c, at, p)
}

// read notes that pages were read in their generation.
func (l *Ledger) read(c *call) {
	r := c.req
	l.firstRead(c)
	n := 0
	for _, run := range c.f.Pages {
		pages := c.pool.pages[run.First:run.End()]
		n += len(pages)
		for i := range pages {
			p := &pages[i]
			if p.flags&wasRead == 0 && r.holds(c.pool, run.First+uint32(i), p) {
				p.flags |= wasRead
			}
			r.read = r.read || p.flags&null == 0 && l.mayRead(c, run.First+uint32(i), p)
			if p.flags&null == 0 && (p.flags&(local|unknown) != local || p.born < c.pool.knownFrom) {
				if r.holds(c.pool, run.First+uint32(i), p) || c.pool.unseen(p) {
					l.readUnwritten(c, p) // of others' pages foreign_page speaks
				}
			}
		}
	}
	l.stats.PagesRead += uint64(n)
}
