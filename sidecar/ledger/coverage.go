package ledger

import (
	"math/bits"
	"slices"
	"sort"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// bytesMoved books bytes that were seen to arrive in an instance's memory.
func (l *Ledger) bytesMoved(c *call) {
	f := c.f
	from := l.sender(f.From)
	if c.inst.doubts > 0 && f.Outcome != lifecycle.Posted {
		l.settleDoubts(c, from)
	}
	end := f.Addr + f.Bytes
	if end < f.Addr {
		l.stats.Impossible++
		return
	}
	found := false
	for addr := f.Addr; addr < end; {
		st, next := c.inst.stretchAt(addr)
		if st == nil {
			if next <= addr {
				break
			}
			addr = min(next, end)
			continue
		}
		found = true
		stop := min(end, st.base+st.bytes)
		if st.bit < 0 {
			l.staged(c, from, st, stop-addr)
		} else {
			l.arrived(c, from, st, addr-st.base, stop-st.base)
		}
		addr = stop
	}
	if !found {
		l.stats.Elsewhere++
	}
	if f.FromAddr.Has && from != nil {
		if found && c.tr == nil {
			c.tr = l.runningAs(c)
		}
		l.sourceRead(c, from)
	}
}

// sender is the instance that bytes came from, nil if none is known by that
// name. Writes come in trains, so the last one is kept at hand.
func (l *Ledger) sender(name string) *instance {
	if l.lastSender == nil || l.lastSender.name != name {
		l.lastSender = l.insts[name]
	}
	return l.lastSender
}

// stretchAt is the region that an address lies in, or nil and where the next
// one begins (0: none).
func (i *instance) stretchAt(addr uint64) (*stretch, uint64) {
	all := i.byAddr
	n := sort.Search(len(all), func(k int) bool { return all[k].base > addr })
	if n > 0 && addr-all[n-1].base < all[n-1].bytes {
		return &all[n-1], 0
	}
	if n < len(all) {
		return nil, all[n].base
	}
	return nil, 0
}

// page is the page at an offset of the region, and the offset within it.
func (st *stretch) page(off uint64) (uint32, uint64) {
	if st.shift >= 0 {
		return uint32(off >> st.shift), off & (st.stride - 1)
	}
	return uint32(off / st.stride), off % st.stride
}

// arrived books bytes [lo, hi) of a region, page by page.
func (l *Ledger) arrived(c *call, from *instance, st *stretch, lo, hi uint64) {
	for lo < hi {
		at, in := st.page(lo)
		n := min(hi-lo, st.stride-in)
		if in < st.each && st.pool.pages[at].flags&null == 0 {
			l.pageHit(c, from, st, at, in, min(in+n, st.each))
		}
		lo += n
	}
}

// hit is a piece of what bytes_moved says: bytes [lo, hi) of a page in a region.
type hit struct {
	st     *stretch
	lo, hi uint64
}

// pageHit books bytes [lo, hi) of one page in one region.
func (l *Ledger) pageHit(c *call, from *instance, st *stretch, at uint32, lo, hi uint64) {
	pl := st.pool
	c.hit = hit{st, lo, hi}
	if l.endsStray(c, from, pl, at) {
		return
	}
	a := l.whoseWrite(c, from, pl, at)
	if a == 0 {
		l.straysFrom(c, at)
		return
	}
	rec := &pl.acts[a]
	c.tr = l.of(rec)
	n := int64(hi - lo)
	switch c.f.Outcome {
	case lifecycle.Errored:
		l.completes(pl, at, l.of(rec), n)
		l.unpost(pl, a, st, lo, hi)
		return
	case lifecycle.Posted:
		l.of(rec).posted += n
		l.cover(pl, a, st, lo, hi, true)
	default:
		l.completes(pl, at, l.of(rec), n)
		l.cover(pl, a, st, lo, hi, false)
		l.unpost(pl, a, st, lo, hi)
	}
	l.complete(pl, at)
}

// completes takes n bytes on a page from what is posted. A completion that names no
// xfer may be of an earlier try of the same sender there, whose bytes it then ends.
func (l *Ledger) completes(pl *pool, at uint32, t *transfer, n int64) {
	n = t.unposted(n)
	for a := pl.pages[at].act; a != 0 && n > 0; a = pl.acts[a].next {
		if other := l.of(&pl.acts[a]); other.into == t.into && other.send == t.send {
			n = other.unposted(n)
		}
	}
}

// unposted takes up to n bytes from what is posted, and returns how many are left.
func (t *transfer) unposted(n int64) int64 {
	taken := min(n, t.posted)
	t.posted -= taken
	return n - taken
}

// cover adds bytes to an activity, those that were only posted apart.
func (l *Ledger) cover(pl *pool, a uint32, st *stretch, lo, hi uint64, posted bool) {
	set := pl.okBits(a)
	if posted {
		set = pl.postedBits(a)
	}
	if lo == 0 && hi == st.each {
		set[st.bit/64] |= 1 << (st.bit % 64)
		return
	}
	l.addFrag(pl, a, frag{int32(st.bit), posted, lo, hi})
	if whole(pl.frags[a], int32(st.bit), st.each, posted) {
		set[st.bit/64] |= 1 << (st.bit % 64)
	}
}

// addFrag keeps the pieces of a region apart until they are whole, joining
// those that touch.
func (l *Ledger) addFrag(pl *pool, a uint32, n frag) {
	pl.acts[a].pieces = true
	kept := pl.frags[a][:0]
	for _, g := range pl.frags[a] {
		if g.region == n.region && g.posted == n.posted && g.lo <= n.hi && n.lo <= g.hi {
			n.lo, n.hi = min(n.lo, g.lo), max(n.hi, g.hi)
			l.fragments--
		} else {
			kept = append(kept, g)
		}
	}
	if l.fragments >= l.cfg.Limits.Fragments {
		pl.frags[a] = kept
		t := l.of(&pl.acts[a])
		l.stats.Forgotten.Fragments++
		unsee(t.room, pl.inst, "more pieces of pages arrived than are remembered")
		l.unwatch(t.into)
		return
	}
	l.fragments++
	pl.frags[a] = append(kept, n)
}

func whole(frags []frag, region int32, each uint64, posted bool) bool {
	for _, g := range frags {
		if g.region == region && g.posted == posted && g.lo == 0 && g.hi == each {
			return true
		}
	}
	return false
}

// unpost takes back bytes whose write ended with an error.
func (l *Ledger) unpost(pl *pool, a uint32, st *stretch, lo, hi uint64) {
	set := pl.postedBits(a)
	word, bit := st.bit/64, uint64(1)<<(st.bit%64)
	region := int32(st.bit)
	if set[word]&bit != 0 && !whole(pl.frags[a], region, st.each, true) {
		l.addFrag(pl, a, frag{region, true, 0, st.each})
	}
	set[word] &^= bit
	if !pl.acts[a].pieces {
		return
	}
	var cut []frag
	pl.frags[a] = slices.DeleteFunc(pl.frags[a], func(g frag) bool {
		if g.region != region || !g.posted || g.hi <= lo || hi <= g.lo {
			return false
		}
		if g.lo < lo {
			cut = append(cut, frag{region, true, g.lo, lo})
		}
		if hi < g.hi {
			cut = append(cut, frag{region, true, hi, g.hi})
		}
		l.fragments--
		return true
	})
	for _, g := range cut {
		l.addFrag(pl, a, g)
	}
}

// complete marks a page whose every byte in every region was seen to arrive in
// its present generation (hard case 1), from however many writers.
func (l *Ledger) complete(pl *pool, at uint32) {
	p := &pl.pages[at]
	if p.flags&observed != 0 {
		return
	}
	for region := 0; region < pl.direct; region += 64 {
		ok, pieces := l.okWord(pl, p, region/64)
		missing := fullWord(pl.direct-region) &^ ok
		if missing != 0 && !pieces {
			return
		}
		for ; missing != 0; missing &= missing - 1 {
			if !l.patched(pl, p, region+bits.TrailingZeros64(missing)) {
				return
			}
		}
	}
	p.flags |= observed
	l.stats.PagesWrittenSeen++
	l.ownContent(p)
}

// ownContent notes that the page's bytes are its owner's now.
func (l *Ledger) ownContent(p *page) {
	if p.content != p.owner {
		left, came := moves{ps: &l.parties}, moves{ps: &l.parties}
		l.takesContent(p, p.owner, &left, &came)
		came.arrive()
		left.flush()
	}
}

func fullWord(n int) uint64 {
	if n >= 64 {
		return ^uint64(0)
	}
	return 1<<n - 1
}

// okWord is one word of the regions that some writer covered alone, and whether
// there are pieces of others.
func (l *Ledger) okWord(pl *pool, p *page, word int) (ok uint64, pieces bool) {
	for a := p.act; a != 0; a = pl.acts[a].next {
		if rec := &pl.acts[a]; rec.born == p.born && !rec.source {
			ok |= pl.okBits(a)[word]
			pieces = pieces || rec.pieces
		}
	}
	return ok, pieces
}

// patched reports whether pieces of several writers cover a region together.
func (l *Ledger) patched(pl *pool, p *page, region int) bool {
	var pieces []frag
	for a := p.act; a != 0; a = pl.acts[a].next {
		rec := &pl.acts[a]
		if rec.born != p.born || rec.source {
			continue
		}
		for _, g := range pl.frags[a] {
			if int(g.region) == region && !g.posted {
				pieces = append(pieces, g)
			}
		}
	}
	slices.SortFunc(pieces, func(a, b frag) int {
		if a.lo < b.lo {
			return -1
		}
		return boolInt(a.lo > b.lo)
	})
	reach := uint64(0)
	for _, g := range pieces {
		if g.lo > reach {
			return false
		}
		reach = max(reach, g.hi)
	}
	return reach >= pl.each[region]
}

// landed is for the end of a write that was posted, and counted when its transfer
// completed ok: it landed between the two, whatever became of the page since, so
// that its end says nothing anew.
func (l *Ledger) landed(c *call, from *instance, at uint32) (was bool) {
	if c.f.Outcome == lifecycle.Posted {
		return false
	}
	pl := c.hit.st.pool
	for a := pl.pages[at].act; a != 0; a = pl.acts[a].next {
		t := l.of(&pl.acts[a])
		ofIt := t.outcome == lifecycle.OK && (t.send == from || c.f.From == "") && (c.f.Xfer == "" || t.xfer == c.f.Xfer)
		if !pl.acts[a].source && ofIt && pl.isPosted(a, &c.hit) {
			l.unpost(pl, a, c.hit.st, c.hit.lo, c.hit.hi)
			was = true
		}
	}
	return was
}

// isPosted reports whether all these bytes of a page were posted and not seen to end.
func (pl *pool) isPosted(a uint32, h *hit) bool {
	if bit := h.st.bit; pl.postedBits(a)[bit/64]>>(bit%64)&1 == 1 {
		return true
	}
	return pl.acts[a].pieces && slices.ContainsFunc(pl.frags[a], func(g frag) bool {
		return g.posted && int(g.region) == h.st.bit && g.lo <= h.lo && h.hi <= g.hi
	})
}

// promote lets what was posted count once its transfer completed ok. That it was
// posted stays known until it is seen to end.
func (l *Ledger) promote(t *transfer) {
	t.posted = 0
	l.doubtsCameTrue(t)
	for _, n := range t.targets {
		if n.pool.closed || n.pool.direct == 0 {
			continue
		}
		for at := n.first; at < n.first+n.count; at++ {
			l.promotePage(n.pool, at, t)
		}
	}
	for pl, s := range t.staged {
		t.staged[pl] = stagedBytes{ok: s.ok + s.posted}
	}
}

func (l *Ledger) promotePage(pl *pool, at uint32, t *transfer) {
	for a := pl.pages[at].act; a != 0; a = pl.acts[a].next {
		rec := &pl.acts[a]
		if rec.tr != t.slot || rec.source {
			continue
		}
		ok, posted := pl.okBits(a), pl.postedBits(a)
		for i := range ok {
			ok[i] |= posted[i]
		}
		if !rec.pieces {
			continue
		}
		for _, g := range slices.Clone(pl.frags[a]) {
			if g.posted {
				g.posted = false
				l.addFrag(pl, a, g)
			}
		}
	}
	l.complete(pl, at)
}

// partlyFilled reports whether any byte was seen to arrive in the page's
// present generation.
func (l *Ledger) partlyFilled(pl *pool, p *page) bool {
	for a := p.act; a != 0; a = pl.acts[a].next {
		rec := &pl.acts[a]
		if rec.born != p.born || rec.source {
			continue
		}
		arrived := func(g frag) bool { return !g.posted }
		if slices.ContainsFunc(pl.okBits(a), nonZero) || rec.pieces && slices.ContainsFunc(pl.frags[a], arrived) {
			return true
		}
	}
	return false
}

func nonZero(w uint64) bool { return w != 0 }
