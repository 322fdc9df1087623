package ledger

// activity is one transfer's hold on one page: as a target, with the bytes
// that arrived, or as a source. Those of a page form a list, the newest first.
// It holds no pointer, so that the garbage collector need not look at them.
type activity struct {
	born    uint64 // the generation that the transfer named
	tr      uint32 // the transfer's place in Ledger.transfers
	next    uint32
	source  bool
	closed  bool // its transfer is known to be over
	filled  bool // it was written when that generation ended
	local   bool // and locally
	claimed bool // a transfer was claimed to have written it
	settled bool // filled, local and claimed are meant
	implied bool // its receiver named no pages, and bytes came
	pieces  bool // it had pieces of regions, in pool.frags
}

// of is the transfer of an activity.
func (l *Ledger) of(a *activity) *transfer { return l.transfers[a.tr] }

// frag is a piece of a region of a page, in bytes from the page's start.
type frag struct {
	region int32
	posted bool
	lo, hi uint64
}

// name adds a transfer to the list of a page, once.
func (l *Ledger) name(pl *pool, at uint32, t *transfer, source bool) {
	p := &pl.pages[at]
	ended := 0
	for a := p.act; a != 0; a = pl.acts[a].next {
		rec := &pl.acts[a]
		if rec.tr == t.slot && rec.source == source && rec.born == p.born {
			return
		}
		if l.past(p, rec) {
			ended++
		}
	}
	if ended >= l.cfg.Limits.PastOwner {
		l.unnameOldest(pl, at)
	}
	if l.activities >= l.cfg.Limits.Activity {
		l.stats.Forgotten.Activity++
		unsee(t.room, pl.inst, "more pages are in transfer than are remembered")
		return
	}
	l.activities++
	rec := activity{tr: t.slot, next: p.act, born: p.born, source: source}
	p.act = pl.take(rec)
}

// past reports whether an activity need not be remembered: its transfer has ended,
// and what it brought does not lie in the page's present generation.
func (l *Ledger) past(p *page, rec *activity) bool {
	return l.of(rec).drained && (rec.source || rec.born != p.born)
}

// take finds room for an activity.
func (pl *pool) take(rec activity) uint32 {
	if n := len(pl.freed); n > 0 {
		a := pl.freed[n-1]
		pl.freed = pl.freed[:n-1]
		pl.acts[a] = rec
		return a
	}
	pl.acts = append(pl.acts, rec)
	pl.cover = append(pl.cover, make([]uint64, 2*pl.words)...)
	return uint32(len(pl.acts) - 1)
}

// unname takes a transfer from the list of a page.
func (l *Ledger) unname(pl *pool, at uint32, t *transfer) {
	p := &pl.pages[at]
	link := &p.act
	for *link != 0 {
		a := *link
		if rec := &pl.acts[a]; rec.tr == t.slot {
			*link = rec.next
			l.discard(pl, a)
		} else {
			link = &rec.next
		}
	}
}

// unnameOldest forgets the ended transfer that named the page longest ago, but for
// what it posted and was not seen to end.
func (l *Ledger) unnameOldest(pl *pool, at uint32) {
	p := &pl.pages[at]
	var oldest *uint32
	for link := &p.act; *link != 0; link = &pl.acts[*link].next {
		if l.past(p, &pl.acts[*link]) {
			oldest = link
		}
	}
	if oldest != nil {
		a := *oldest
		*oldest = pl.acts[a].next
		l.strayed(pl, at, a)
		l.discard(pl, a)
	}
}

func (l *Ledger) discard(pl *pool, a uint32) {
	if pl.acts[a].pieces {
		l.fragments -= len(pl.frags[a])
		delete(pl.frags, a)
	}
	l.activities--
	pl.acts[a] = activity{}
	clear(pl.okBits(a))
	clear(pl.postedBits(a))
	pl.freed = append(pl.freed, a)
}

// forgetTransfer takes a transfer out of every list.
func (l *Ledger) forgetTransfer(t *transfer) {
	for _, spans := range [2][]named{t.targets, t.sources} {
		for _, n := range spans {
			if n.pool.closed {
				continue
			}
			for at := n.first; at < n.first+n.count; at++ {
				l.unname(n.pool, at, t)
			}
		}
	}
	l.drain(t)
	l.transfers[t.slot] = nil
	l.freeSlots = append(l.freeSlots, t.slot)
}
