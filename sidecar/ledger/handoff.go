package ledger

import (
	"fmt"
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// handoff is what a room hands to one receiver: reservation, transfers,
// completion, first read (DESIGN section 3). It is judged once.
type handoff struct {
	room      *room
	recv      *instance
	req       *request // the receiver's, nil where it is not known
	transfers []*transfer
	began     uint64 // tick of its first transfer_started, 0: none

	completed bool  // it completed ok, as far as was said
	lastSaid  bool  // a completion was marked last
	lastOK    int64 // when the last completion came, as said
	node      string
	tokens    lifecycle.Opt[int64] // the most that a completion said

	told      bool // of a completion
	timed     bool
	judging   bool // a read that waits for its step will judge it
	judged    bool
	latecomer bool // a transfer of it began before it was seen
	severed   bool // a peer of it is gone: what is missing need not come
	blurred   bool // writes came that could be of another request as well
	misnamed  bool // a transfer_started of it named a page that is another's
	short     bool
	proven    bool // its incoming data were seen completely until it was judged
	sealed    bool // every owed page was seen to arrive or written locally

	senderBlank string // what was not seen at a sender when it was judged, "" if nothing
}

// handoff finds or begins the room's handoff to recv.
func (l *Ledger) handoff(rm *room, recv *instance) *handoff {
	if h := rm.into(recv); h != nil {
		return h
	}
	h := &handoff{room: rm, recv: recv, req: rm.on(recv)}
	h.latecomer = rm.begunBefore != nil && slices.Contains(*rm.begunBefore, recv)
	rm.handoffs = append(rm.handoffs, h)
	recv.waiting[h] = struct{}{}
	return h
}

// into is the room's handoff to an instance, or nil.
func (rm *room) into(recv *instance) *handoff {
	for _, h := range rm.handoffs {
		if h.recv == recv {
			return h
		}
	}
	return nil
}

// begun reports whether a transfer of the room was started.
func (rm *room) begun() bool {
	for _, h := range rm.handoffs {
		if h.began != 0 {
			return true
		}
	}
	return false
}

// receiverSpoke reports whether some receiver of the room started a transfer.
func (rm *room) receiverSpoke() bool {
	return slices.ContainsFunc(rm.transfers, func(t *transfer) bool { return t.recvTick != 0 })
}

// receives reports whether its instance is known to be the receiver (hard case
// 3): it said so, or where none did a sender names it.
func (h *handoff) receives() bool {
	return h.startedByReceiver() || h.began != 0 && !h.room.receiverSpoke()
}

// waits reports whether it is still to be judged: of one that only seemed to be
// one, as another instance receives, there is nothing to judge.
func (h *handoff) waits() bool { return !h.judged && (!h.room.begun() || h.receives()) }

// covered reports whether the handoff's incoming data are seen completely: for
// each sender, since before its first transfer_started (hard case 2).
func (h *handoff) covered() bool {
	if h.judged {
		return h.proven
	}
	if h.began == 0 || h.blurred || h.latecomer {
		return false
	}
	for _, t := range h.transfers {
		if !h.recv.sight.complete(t.send.name, h.began) {
			return false
		}
	}
	return true
}

// blur is for writes that could be of two requests: they cover neither, so that
// what is missing in either does not accuse, and neither is clean.
func (l *Ledger) blur(h *handoff) {
	unsee(h.room, h.recv, "writes came that could be of another request as well")
	if !h.judged && !h.blurred {
		h.blurred = true
		l.unwatch(h)
	}
}

// busy reports whether a transfer of the room is open.
func (rm *room) busy() bool {
	for _, t := range rm.transfers {
		if t.open() {
			return true
		}
	}
	return false
}

// allOK reports whether each page that the receiver named for a sender is of some
// transfer of that sender which completed ok: where one failed and was not made again,
// the engine knows that the handoff is not complete. What only the sender named must
// complete too.
func (h *handoff) allOK() bool {
	unfinished := func(t *transfer) bool {
		unnamed := t.recvTick == 0 && len(t.targets)+len(t.sources) > 0
		return t.open() || t.outcome != lifecycle.OK && unnamed
	}
	if slices.ContainsFunc(h.transfers, unfinished) {
		return false
	}
	failed := func(t *transfer) bool { return t.outcome != lifecycle.OK }
	if !slices.ContainsFunc(h.transfers, failed) {
		return true
	}
	ok := map[*instance]map[pageOf]struct{}{}
	for _, t := range h.transfers {
		if ok[t.send] == nil {
			ok[t.send] = map[pageOf]struct{}{}
		}
		if t.outcome == lifecycle.OK {
			collect(ok[t.send], t.targets)
		}
	}
	for _, t := range h.transfers {
		for _, n := range t.targets {
			for at := n.first; at < n.first+n.count; at++ {
				if _, done := ok[t.send][pageOf{n.pool, at}]; !done {
					return false
				}
			}
		}
	}
	return true
}

// ended reports whether a transfer of the handoff has ended.
func (h *handoff) ended() bool {
	return slices.ContainsFunc(h.transfers, func(t *transfer) bool { return t.endedTick != 0 })
}

// goesOn reports whether the receiver's request has not ended, as far as known.
func (h *handoff) goesOn() bool { return h.req != nil && !h.req.ended }

// allNamed reports whether the receiver named as many pages as its tokens owe, and
// of each pool all for as many senders: one that names its pages chunk by chunk has
// more to come, however long that takes.
func (l *Ledger) allNamed(h *handoff) bool {
	if h.dummy() {
		return true
	}
	if !h.namedEvenly() {
		return false
	}
	for _, pl := range h.recv.pools {
		if pl == nil || pl.Owes == lifecycle.OwesNone {
			continue
		}
		if named := int64(len(h.targetsIn(pl))); l.owesMore(h, pl, named) {
			return false
		}
	}
	return true
}

// namedEvenly reports whether the receiver named the pages of each pool for as many
// senders: where several write one page, each is to write its part of the others.
func (h *handoff) namedEvenly() bool {
	other := func(t *transfer) bool { return t.send != h.transfers[0].send }
	if !slices.ContainsFunc(h.transfers, other) {
		return true
	}
	bySender := map[*instance]map[pageOf]struct{}{}
	for _, t := range h.transfers {
		if t.recvTick == 0 {
			continue // it named none; they are those that bytes arrived in
		}
		if bySender[t.send] == nil {
			bySender[t.send] = map[pageOf]struct{}{}
		}
		collect(bySender[t.send], t.targets)
	}
	writers := map[pageOf]int{}
	for _, pages := range bySender {
		for p := range pages {
			writers[p]++
		}
	}
	most := map[*pool]int{}
	for p, n := range writers {
		most[p.pool] = max(most[p.pool], n)
	}
	for p, n := range writers {
		if n < most[p.pool] {
			return false
		}
	}
	return true
}

// owesMore reports whether the tokens owe more pages of a pool than were named. What
// a receiver that is known from the wire alone was given is what it named.
func (l *Ledger) owesMore(h *handoff, pl *pool, named int64) bool {
	if !h.recv.engine {
		first, last := h.owedRange(pl, h.promptTokens().Or(0))
		return named > 0 && last-first > named
	}
	if h.req == nil || givenIn(h.req.given, pl.index) == 0 {
		return false
	}
	o := l.owedByTokens(h, pl)
	owed := o.unnamed
	for _, p := range o.pages {
		if page := &pl.pages[p.at]; page.born > p.tick || page.flags&local == 0 {
			owed++
		}
	}
	return owed > named
}

// settleLater judges the handoff a settle time after the last transfer of its
// room ended, unless something judges it before (hard case 5).
func (l *Ledger) settleLater(h *handoff) {
	if !h.judged && !h.timed && !h.room.busy() {
		h.timed = true
		l.timers.add(timer{at: h.room.lastEnd + l.settleTime(), handoff: h})
	}
}

// settled is called by that timer.
func (l *Ledger) settled(h *handoff) {
	h.timed = false
	switch {
	case h.judged || h.judging || h.room.busy() || h.goesOn() && !l.allNamed(h):
	case h.room.lastEnd+l.settleTime() > l.now:
		l.settleLater(h)
	default:
		l.judge(h, h.lastOK, h.node)
	}
}

// dummy reports whether every transfer that the receiver named has no pages:
// such a rank owes nothing.
func (h *handoff) dummy() bool {
	named := false
	for _, t := range h.transfers {
		if t.recvTick != 0 {
			named = true
			if len(t.targets) > 0 {
				return false
			}
		}
	}
	return named
}

// judge decides the handoff. t and node are those of the fact that brought the
// judgement about.
func (l *Ledger) judge(h *handoff, t int64, node string) {
	if !h.judged && !h.judging {
		l.conclude(h, l.shortage(h), t, node)
	}
}

// judgeOnUse is judge by a first read or a success, which a handoff that was
// never completed does not survive either.
func (l *Ledger) judgeOnUse(h *handoff, c *call) {
	if !h.judged && !h.judging {
		s := l.shortage(h)
		s.used = true
		l.conclude(h, s, c.f.T, c.f.Node)
	}
}

// conclude ends the handoff with what is missing.
func (l *Ledger) conclude(h *handoff, s shortage, t int64, node string) {
	h.judging = false
	if h.judged {
		return
	}
	if !h.waits() {
		h.judged = true // the receiver is another (hard case 3)
		delete(h.recv.waiting, h)
		return
	}
	h.proven = h.covered()
	used := s.used || h.completed && (h.lastSaid || h.allOK() && !h.severed && !h.room.givenUp() && l.allNamed(h))
	h.completed = h.completed && used
	if used {
		l.shortHandoff(h, &s)
	}
	if h.proven && (s.used || h.anyEnded()) { // else what is claimed may only be posted yet
		l.claimedUnseen(h, &s)
		s.sawMissing(h.req)
	}
	if h.completed && !h.short {
		l.compareHalves(h, t, node)
	}
	h.sealed = used && h.proven && !h.short && s.blank == "" && !s.claimed && len(s.pages) == 0
	if s.blank != "" {
		unseeRead(h.room, h.recv, s.blank)
	}
	h.judged, h.senderBlank = true, h.room.senderBlank(h)
	delete(h.recv.waiting, h)
	l.sealPages(h)
	l.settleAt(t, node)
	l.retire(h.room)
}

func (h *handoff) anyEnded() bool {
	return slices.ContainsFunc(h.transfers, func(t *transfer) bool { return t.endedTick != 0 })
}

// sawMissing notes at the pages that nothing was seen to arrive in, though the
// receiver did not name them all: who reads them reads what was there before.
func (s *shortage) sawMissing(r *request) {
	for _, m := range s.pages {
		if p := &m.pool.pages[m.at]; m.watched && (r == nil || p.owner == r.party) {
			p.flags |= watched
		}
	}
}

// sealPages makes the judgement on pages last: where the writes were watched,
// what a transfer merely claims does not count any more; in a staged pool all
// bytes that were owed came, so that its pages were seen to be written.
func (l *Ledger) sealPages(h *handoff) {
	if !h.proven {
		return
	}
	h.eachTarget(func(pl *pool, at uint32, tick uint64) {
		switch p := &pl.pages[at]; {
		case p.born > tick:
		case p.flags&watched != 0:
			p.flags &^= claimed
		case h.sealed && pl.Path == lifecycle.PathStaged:
			p.flags |= observed
			l.ownContent(p)
		}
	})
}

// eachTarget calls each for every page that the receiver named, with the tick
// of the naming.
func (h *handoff) eachTarget(each func(pl *pool, at uint32, tick uint64)) {
	for _, t := range h.transfers {
		for _, n := range t.targets {
			if n.pool.closed {
				continue
			}
			for at := n.first; at < n.first+n.count; at++ {
				each(n.pool, at, n.tick)
			}
		}
	}
}

// firstRead judges a handoff at the first read of a page that it owes.
func (l *Ledger) firstRead(c *call) {
	h := c.room.into(c.inst)
	var pr *pendingRead
	if c.f.Step.Has {
		pr = l.awaitStep(c)
	}
	if h == nil || h.judged || h.judging || h.began == 0 || !h.owesAny(l, c) {
		return
	}
	if c.f.Step.Has && pr == nil && h.lacksAny(l) {
		pr = l.pend(c, nil) // what it lacks is not what was read
	}
	if pr == nil || !h.lacksAny(l) {
		l.judgeOnUse(h, c)
		pr.vouchedFor()
		return
	}
	pr.into, pr.short = h, l.shortage(h)
	pr.short.used = true
	h.judging = true
}

func (h *handoff) lacksAny(l *Ledger) bool {
	s := l.shortage(h)
	return len(s.pages)+len(s.staged) > 0
}

// owesAny reports whether a read names a page that the handoff owes: not one that its
// request has filled itself.
func (h *handoff) owesAny(l *Ledger, c *call) bool {
	if c.pool.Owes == lifecycle.OwesNone {
		return false
	}
	for _, run := range c.f.Pages {
		for at := run.First; at < run.End(); at++ {
			if c.pool.pages[at].flags&local == 0 && l.names(h, c.pool, at) && l.reads(c, at) {
				return true
			}
		}
	}
	owed := l.owedByTokens(h, c.pool)
	for _, g := range owed.pages {
		if names(c.f.Pages, g.at) && l.reads(c, g.at) {
			return owed.total() > int64(len(h.targetsIn(c.pool)))
		}
	}
	return false
}

// reads reports whether the page may be the reader's own: of others' pages
// foreign_page speaks.
func (l *Ledger) reads(c *call, at uint32) bool {
	p := &c.pool.pages[at]
	return c.pool.mute(p) || c.req.holds(c.pool, at, p)
}

// names reports whether the receiver named the page in this handoff.
func (l *Ledger) names(h *handoff, pl *pool, at uint32) bool {
	for a := pl.pages[at].act; a != 0; a = pl.acts[a].next {
		if rec := &pl.acts[a]; l.of(rec).into == h && !rec.source && rec.born == pl.pages[at].born {
			return true
		}
	}
	return false
}

func (h *handoff) String() string {
	return fmt.Sprintf("room %s into %s", h.room.id, h.recv.name)
}
