package ledger

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// short_handoff: a handoff was completed with less written than owed. What is
// owed is hard case 4.

// shortage is what a handoff lacks at the moment of its judgement.
type shortage struct {
	pages   []lacking
	unnamed map[*pool]int64 // owed by tokens and never reserved, so without ids
	staged  map[*pool]uint64
	used    bool   // read or a success, completed or not
	claimed bool   // an owed page is only claimed to be written
	blank   string // why something could not be said
}

// lacking is an owed page that is not written.
type lacking struct {
	pool   *pool
	at     uint32
	whose  finding.Party
	known  bool
	claim  bool // a transfer is claimed to have written it
	accuse bool // hard case 2 lets it accuse

	watched bool // by observation
}

// writtenInStep takes away pages that a write of the read's own step filled, if
// they are still of the generation that was read.
func (s *shortage) writtenInStep(c *call, step int64, read uint64) {
	if c.f.Step.V > step {
		return
	}
	s.pages = slices.DeleteFunc(s.pages, func(p lacking) bool {
		if p.pool != c.pool || !names(c.f.Pages, p.at) {
			return false
		}
		now := &c.pool.pages[p.at]
		return now.born <= read && (now.flags&local != 0 || !p.watched && now.written())
	})
}

// lists reports whether a page is among what is missing.
func (s *shortage) lists(pl *pool, at uint32) bool {
	return slices.ContainsFunc(s.pages, func(m lacking) bool { return m.pool == pl && m.at == at })
}

// shortage looks at every pool that the handoff names or its request got pages
// in.
func (l *Ledger) shortage(h *handoff) shortage {
	s := shortage{}
	if h.dummy() {
		return s
	}
	for _, pl := range h.recv.pools {
		if pl == nil || pl.Owes == lifecycle.OwesNone {
			continue
		}
		l.shortageIn(h, pl, &s)
	}
	return s
}

func (l *Ledger) shortageIn(h *handoff, pl *pool, s *shortage) {
	named := h.targetsIn(pl)
	owed := l.owedByTokens(h, pl)
	if len(named) == 0 && (h.req == nil || givenIn(h.req.given, pl.index) == 0) {
		return
	}
	if pl.Path == lifecycle.PathStaged && pl.pageBytes() > 0 && h.covered() {
		if slices.ContainsFunc(named, func(o owing) bool { p := &pl.pages[o.at]; return p.born <= o.tick && pl.unseen(p) }) {
			s.blank = firstOf(s.blank, "what an owed page holds is not known")
			return
		}
		pages := max(int64(len(named)), owed.total())
		for _, o := range named {
			if l.writtenLocally(h, pl, o) {
				pages--
			}
		}
		l.shortageStaged(h, pl, pages, s)
		return
	}
	for _, o := range named {
		l.lack(h, pl, o, s)
	}
	if owed.total() <= int64(len(named)) {
		return
	}
	for _, o := range owed.pages {
		if !slices.ContainsFunc(named, func(n owing) bool { return n.at == o.at }) {
			l.lack(h, pl, o, s)
		}
	}
	if owed.unnamed > 0 {
		if s.unnamed == nil {
			s.unnamed = map[*pool]int64{}
		}
		s.unnamed[pl] = owed.unnamed
	}
}

// owing is a page that is owed, of the generation at that tick.
type owing struct {
	at   uint32
	tick uint64
}

// targetsIn lists the pages that the receiver named in a pool, each once, in
// the generation in which it was named last.
func (h *handoff) targetsIn(pl *pool) []owing {
	var list []owing
	rising := true
	for _, t := range h.transfers {
		for _, n := range t.targets {
			if n.pool != pl {
				continue
			}
			for at := n.first; at < n.first+n.count; at++ {
				if pl.pages[at].flags&null == 0 {
					rising = rising && (len(list) == 0 || list[len(list)-1].at < at)
					list = append(list, owing{at, n.tick})
				}
			}
		}
	}
	if rising {
		return list
	}
	slices.SortStableFunc(list, func(a, b owing) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.tick, a.tick))
	})
	return slices.CompactFunc(list, func(a, b owing) bool { return a.at == b.at })
}

// lack adds an owed page to what is missing, unless it is written.
func (l *Ledger) lack(h *handoff, pl *pool, o owing, s *shortage) {
	p := &pl.pages[o.at]
	if p.born > o.tick {
		if rec := l.endedFor(h, pl, o); rec == nil {
			s.blank = firstOf(s.blank, "an owed page was handed out again before the handoff was judged")
		} else if !rec.filled {
			s.pages = append(s.pages, lacking{
				pool: pl, at: o.at, claim: rec.claimed,
				accuse: h.covered() && pl.shows() || pl.promises(lifecycle.PagesWritten) && h.recv.engine,
			})
		}
		return
	}
	if pl.unseen(p) {
		s.blank = firstOf(s.blank, "what an owed page holds is not known")
		return
	}
	watching := p.flags&watched != 0 || h.covered() && pl.shows() // also where the receiver did not name it
	if p.flags&(local|observed) != 0 {
		return
	}
	if p.flags&claimed != 0 && !watching {
		s.claimed = true
		return
	}
	whose, known := l.others(h.req, p.content)
	s.pages = append(s.pages, lacking{
		pool: pl, at: o.at, whose: whose, known: known, claim: p.flags&claimed != 0,
		accuse: watching || pl.promises(lifecycle.PagesWritten) && h.recv.engine, watched: watching,
	})
}

// writtenLocally is whether an owed page was written locally, in the generation in
// which it is owed.
func (l *Ledger) writtenLocally(h *handoff, pl *pool, o owing) bool {
	if p := &pl.pages[o.at]; p.born <= o.tick {
		return p.flags&local != 0
	}
	rec := l.endedFor(h, pl, o)
	return rec != nil && rec.local
}

// endedFor is what is remembered of an owed page whose generation has ended.
func (l *Ledger) endedFor(h *handoff, pl *pool, o owing) *activity {
	for a := pl.pages[o.at].act; a != 0; a = pl.acts[a].next {
		if rec := &pl.acts[a]; l.of(rec).into == h && !rec.source && !rec.implied && rec.born <= o.tick && rec.settled {
			return rec
		}
	}
	return nil
}

// shortageStaged compares bytes: what arrives in a staged pool is seen, but not
// page by page. What a transfer that failed, or whose peer is gone, left in the
// buffer went nowhere.
func (l *Ledger) shortageStaged(h *handoff, pl *pool, pages int64, s *shortage) {
	want := uint64(pages) * pl.pageBytes()
	var got uint64
	for _, t := range h.transfers {
		if lost := t.failed() || t.gone && t.outcome != lifecycle.OK; t.staged != nil && !lost {
			got += t.staged[pl].ok
		}
	}
	if got < want {
		if s.staged == nil {
			s.staged = map[*pool]uint64{}
		}
		s.staged[pl] = want - got
	}
}

// shortHandoff says what is missing, as far as it may accuse.
func (l *Ledger) shortHandoff(h *handoff, s *shortage) {
	for _, p := range s.pages {
		if !p.accuse {
			s.blank = firstOf(s.blank, "whether owed pages were written was neither seen nor promised by the engine")
			continue
		}
		b := l.shortIn(h, p.pool)
		b.pages = append(b.pages, p.at)
		if p.known {
			b.expose(p.whose)
		}
	}
	for pl, n := range s.unnamed {
		if !h.knowsGiven(pl) {
			s.blank = firstOf(s.blank, "the pages of the whole prompt were not named")
			continue
		}
		l.shortIn(h, pl).also(fmt.Sprintf("%d pages were never reserved", n))
	}
	for pl, n := range s.staged {
		l.shortIn(h, pl).also(fmt.Sprintf("%d bytes never came to the staging region", n))
	}
	l.fewTokens(h)
}

// knowsGiven reports whether the receiver says all that its request is given in the
// pool, and a page that it lacks would be missed.
func (h *handoff) knowsGiven(pl *pool) bool {
	missed := h.covered() && pl.direct > 0 || pl.promises(lifecycle.PagesWritten)
	return missed && h.recv.engine && pl.promises(lifecycle.PagesReserved) && pl.promises(lifecycle.PagesShared) && !h.room.late
}

// shortIn is the breach for one pool.
func (l *Ledger) shortIn(h *handoff, pl *pool) *breach {
	h.short = true
	b := l.accuse(finding.ShortHandoff, h.recv, h.req, h.room, pl)
	if b.claim == "" {
		b.claim = "handed off as complete"
		b.seen = "owed pages never written in their present generation"
		if h.covered() {
			b.seen += ", with every incoming write watched"
		} else {
			b.seen += ", by the engine's own events; not watched from outside"
		}
	}
	return b
}

// fewTokens: fewer tokens than owed is short, even within the last page.
func (l *Ledger) fewTokens(h *handoff) {
	prompt := h.promptTokens()
	if !prompt.Has || !h.tokens.Has || h.room.late || !h.req.followed() && (h.req == nil || !h.req.prefix.Has) {
		return // without its admission the prefix that it had is not known
	}
	if owed := prompt.V - h.prefixTokens(); h.tokens.V < owed {
		l.shortOfTokens(h).also(fmt.Sprintf("%d of %d owed tokens were handed over", h.tokens.V, owed))
	}
}

// shortOfTokens is the breach that already says which pages are missing, else
// one that names no pool.
func (l *Ledger) shortOfTokens(h *handoff) *breach {
	for i := range l.breaches {
		if b := &l.breaches[i]; b.kind == finding.ShortHandoff && b.room == h.room && b.inst == h.recv {
			return b
		}
	}
	h.short = true
	b := l.accuse(finding.ShortHandoff, h.recv, h.req, h.room, nil)
	b.say("handed off as complete", "too little, as the completion itself says")
	return b
}

func (b *breach) also(what string) { b.seen += "; " + what }
