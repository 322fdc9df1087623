package oracle

import (
	"math"
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// lack is what a handoff lacks in one pool.
type lack struct {
	pool     *pool
	pages    []*generation
	nameless int64
	seen     bool // by observation, not by claim
}

// assessment is what can be said of a handoff when it is judged.
type assessment struct {
	lacks     []lack
	tokens    bool   // a completion said fewer tokens than owed
	unseen    string // what could not be seen
	open      bool   // of an owed page, and a write of it may still come
	witnessed bool   // everything owed was observed, or written locally
}

func (a assessment) short() bool { return len(a.lacks) > 0 || a.tokens }

// assess compares what is owed with what is written. Claims of a step later
// than the one given do not count.
func (o *oracle) assess(h *handoff, step lifecycle.Opt[int64]) (a assessment) {
	a.witnessed = true
	for _, w := range o.owed(h, step) {
		l := lack{pool: w.pool}
		if w.pool.spec.Path == lifecycle.PathStaged && o.sees(h) && w.pool.pageBytes() > 0 && h.unseen == "" {
			l.seen = true
			l.nameless = o.stagedLack(h, w)
		} else {
			o.assessPages(h, w, step, &l, &a)
		}
		if len(l.pages) > 0 || l.nameless > 0 {
			a.lacks = append(a.lacks, l)
		}
	}
	prompt := o.promptOf(h)
	// Without its admission nobody knows what the receiver had already.
	prefixKnown := h.request().followed() || h.request() != nil && h.request().prefix.Has
	a.tokens = !h.allDummies() && prefixKnown && h.room.unseen == "" && h.tokens.Has && prompt.Has && h.tokens.V < prompt.V-o.prefixOf(h)
	return a
}

func (o *oracle) assessPages(h *handoff, w owed, step lifecycle.Opt[int64], l *lack, a *assessment) {
	for _, g := range w.pages {
		// What a handoff is owed is observed with it, named or not.
		seen := o.sees(h) && w.pool.direct()
		_, wasRead := o.readThen[g] // it was missing at the read, whatever bytes came since
		written := o.claimedBy(g, step) || o.stagedEnough(g)
		if seen {
			written = g.localBy(step)
		}
		written = written || g.allBytes() && !wasRead
		if !seen {
			a.witnessed = false
		}
		switch {
		case written:
		case g.page.gen != g && !slices.Contains(h.named(), g) && !wasRead:
			a.unseen = "what became of an owed page that was handed out again"
			a.witnessed = false
		case seen && !g.unknown || o.accuses(g):
			l.pages, l.seen = append(l.pages, g), l.seen || seen
		default:
			a.open = a.open || !g.unknown
			a.unseen = "whether an owed page was written"
			a.witnessed = false
		}
	}
	if w.nameless == 0 {
		return
	}
	if o.knowsGiven(h, w.pool) {
		l.nameless, l.seen = w.nameless, l.seen || o.sees(h)
	} else {
		a.unseen = "which pages the prompt was given"
		a.witnessed = false
	}
}

// knowsGiven: the receiver says every reservation, and whatever it lacks
// means something.
func (o *oracle) knowsGiven(h *handoff, p *pool) bool {
	return h.room.unseen == "" && p.inst.promises(p, lifecycle.PagesReserved) && p.inst.promises(p, lifecycle.PagesShared) &&
		(o.sees(h) && p.direct() || p.inst.promises(p, lifecycle.PagesWritten))
}

// stagedLack is how many pages' bytes did not come through the staging buffer.
func (o *oracle) stagedLack(h *handoff, w owed) int64 {
	pages := int64(len(w.pages)) + w.nameless
	came := h.stagedBytes(w.pool) / w.pool.pageBytes()
	return max(0, pages-int64(min(came, math.MaxInt64)))
}

// stagedEnough: a page of a staged pool is written where all the bytes owed to
// its handoff came through the staging buffer.
func (o *oracle) stagedEnough(g *generation) bool {
	p := g.page.pool
	if p.spec.Path != lifecycle.PathStaged || p.pageBytes() == 0 {
		return false
	}
	for _, t := range g.targets {
		h := t.handoff()
		if o.sees(h) && h.stagedBytes(p) > 0 && o.stagedLack(h, o.owedIn(h, p, lifecycle.Opt[int64]{})) == 0 {
			return true
		}
	}
	return false
}

// sealed: the judgement on its handoff has found all that was owed.
func (g *generation) sealed() bool {
	return g.page.pool.spec.Path == lifecycle.PathStaged && slices.ContainsFunc(g.targets, func(t *transfer) bool {
		h := t.handoff()
		return h.judged && h.witness && !h.short
	})
}

// pageBytes is how long one page is, 0 where nobody said so.
func (p *pool) pageBytes() uint64 {
	if p.spec.PageBytes > 0 {
		return p.spec.PageBytes
	}
	n := uint64(0)
	for _, r := range p.spec.Regions {
		if !staging(r) {
			n += r.Bytes
		}
	}
	return n
}

// completed reports whether a handoff got as far as to be short: a read, a
// success or a completion `last`; or every page that the receiver named is of
// a transfer that completed, of each sender that it was named for, and nothing
// says that the rest need not come.
func (o *oracle) completed(h *handoff) bool {
	if h.last || h.wasRead || h.success {
		return true
	}
	for _, r := range h.room.at {
		if r.stopped {
			return false
		}
	}
	type part struct {
		sender string
		gen    *generation
	}
	brought := map[part]bool{}
	for _, t := range h.transfers() {
		if t.gone || !t.received && !t.dummy() && !t.completed {
			return false
		}
		for _, g := range t.targets {
			p := part{t.sender, g}
			brought[p] = brought[p] || t.completed
		}
	}
	for _, came := range brought {
		if !came {
			return false
		}
	}
	return h.completedOK() && o.allNamed(h)
}

// allNamed: the receiver named as many pages as its tokens owe, and each page of a
// pool for as many senders.
func (o *oracle) allNamed(h *handoff) bool {
	if h.allDummies() {
		return true
	}
	if !h.namedEvenly() {
		return false
	}
	for _, p := range o.poolsOf(h) {
		named := 0
		for _, g := range h.named() {
			if g.page.pool == p {
				named++
			}
		}
		pages, unreserved := o.owedByTokens(h, p, lifecycle.Opt[int64]{})
		need := int64(len(pages)) + unreserved
		if !p.inst.engine { // what it was given is what it named
			first, last := p.neededFor(o.promptOf(h).Or(0), o.prefixOf(h))
			need = last - first
		}
		if need > int64(named) {
			return false
		}
	}
	return true
}

// namedEvenly: the receiver named each page of a pool for as many senders.
func (h *handoff) namedEvenly() bool {
	writers := map[*page]map[string]bool{}
	for _, t := range h.transfers() {
		for _, g := range t.targets {
			if writers[g.page] == nil {
				writers[g.page] = map[string]bool{}
			}
			writers[g.page][t.sender] = true
		}
	}
	count := map[*pool]int{}
	for pg, senders := range writers {
		if n, some := count[pg.pool]; some && n != len(senders) {
			return false
		}
		count[pg.pool] = len(senders)
	}
	return true
}

// awaits reports whether a read with a step will lead to the judgement.
func (o *oracle) awaits(h *handoff) bool {
	return slices.ContainsFunc(o.waiting, func(w *waitingRead) bool { return w.hand == h })
}

// judge is the one judgement on a handoff (hard case 5). f is the fact that
// led to it.
func (o *oracle) judge(h *handoff, f *lifecycle.Fact, why string, step lifecycle.Opt[int64]) {
	if h.judged || o.awaits(h) {
		return
	}
	if !h.isReceiver() {
		h.judged = true // the receiver is another
		return
	}
	a := o.assess(h, step)
	seen := o.sees(h)
	o.judgeClaims(h, f, a, seen, step)
	h.blur(h.senderUnseen())
	h.judged, h.seen = true, seen
	for _, l := range a.lacks {
		for _, g := range l.pages {
			own := h.request() == nil || same(g.holder, h.request())
			g.missed = g.missed || l.seen && own
		}
	}
	switch {
	case !o.completed(h):
		h.blur("it was never completed")
		return
	case a.unseen != "":
		h.unsure = a.unseen
	}
	h.witness = a.witnessed && seen
	if a.short() {
		h.short = true
		o.sayShort(h, f, why, a)
	}
}

func (o *oracle) sayShort(h *handoff, f *lifecycle.Fact, why string, a assessment) {
	c := o.charges()
	who := o.handoffParty(h)
	for _, l := range a.lacks {
		ch := c.of(finding.ShortHandoff, f, who, l.pool.name)
		ch.claim = why
		ch.observation = "less was written than owed"
		for _, g := range l.pages {
			lay, read := o.readThen[g]
			if !read && g.page.gen == g {
				lay = o.lies(g) // else nobody has read it, nor will
			}
			ch.strike(struck{g.page, lay}) // who shares it is asked when it reads it
		}
	}
	if len(a.lacks) == 0 {
		ch := c.of(finding.ShortHandoff, f, who, "")
		ch.claim = why
		ch.observation = "fewer tokens came than owed"
	}
	o.say(c)
}

// wouldBeShort reports whether a read would lead to a judgement that accuses.
func (o *oracle) wouldBeShort(h *handoff, step lifecycle.Opt[int64]) bool {
	return !h.judged && h.isReceiver() && o.assess(h, step).short()
}

// mayBecome reports whether a write of the step of a read may still change what
// the read finds.
func (o *oracle) mayBecome(h *handoff, step lifecycle.Opt[int64]) bool {
	a := o.assess(h, step)
	return a.short() || a.open
}

// handoffRead is judgement (b): a handoff's request reads a page that is owed. A
// read with a step that finds it short waits. Where nobody was seen to start a
// transfer, it is stale_read alone that speaks.
func (o *oracle) handoffRead(r *request, pages []*page) *handoff {
	if r == nil || r.room == nil {
		return nil
	}
	isRead := map[*generation]bool{}
	for _, pg := range pages {
		isRead[pg.gen] = true
	}
	for _, h := range r.room.handoffs {
		if h.receiver != r.inst.name || h.judged || !h.isReceiver() || h.request() != r || len(h.transfers()) == 0 {
			continue
		}
		for _, w := range o.owed(h, lifecycle.Opt[int64]{}) {
			if slices.ContainsFunc(w.pages, func(g *generation) bool { return isRead[g] }) {
				return h
			}
		}
	}
	return nil
}

// settledAt is when judgement (d) is due: no transfer of the room has been open
// for the settle time, whatever its receiver.
func (o *oracle) settledAt(h *handoff) (int64, bool) {
	if h.judged || h.lastEnd == nil || len(h.transfers()) == 0 || o.awaits(h) {
		return 0, false
	}
	for _, t := range h.room.transfers {
		if t.open() {
			return 0, false
		}
	}
	if r := h.request(); r != nil && !r.ended && !o.allNamed(h) {
		return 0, false // more of it may come
	}
	last := h.lastEnd.a
	for _, other := range h.room.handoffs {
		if other.lastEnd != nil {
			last = max(last, other.lastEnd.a)
		}
	}
	return plus(last, o.cfg.Settle), true
}

// judgeAtEnd is judgement (e): the trace ends, or the receiver restarts.
func (o *oracle) judgeAtEnd(h *handoff) {
	if h.judged {
		return
	}
	if h.lastEnd == nil || len(h.transfers()) == 0 {
		h.judged = true
		h.blur("it was never completed")
		return
	}
	o.judge(h, h.lastEnd.Fact, "its transfers ended", lifecycle.Opt[int64]{})
}
