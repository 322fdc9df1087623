package ledger

import (
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// stale_read: a page was read (by attention, or as the source of a transfer)
// that was not written in its present generation.

// checkRead asks what a read can break.
func (l *Ledger) checkRead(c *call) {
	party := c.req.party
	for _, run := range c.f.Pages {
		pages := c.pool.pages[run.First:run.End()]
		for i := range pages {
			p := &pages[i]
			if p.owner == party && p.flags&(ownerRef|local|unknown|copied|null) == ownerRef|local && p.born >= c.pool.knownFrom {
				continue // its own page, filled by itself
			}
			if c.pool.mute(p) {
				continue
			}
			at := run.First + uint32(i)
			if l.foreignRead(c, at, p) {
				continue
			}
			l.tenantCrossing(c, at, p, "read")
			if !c.f.Step.Has {
				l.staleRead(c, at, p)
			}
		}
	}
}

// staleRead judges a read that need not wait for its step to end.
func (l *Ledger) staleRead(c *call, at uint32, p *page) bool {
	claim, seen, stale := l.stale(c.pool, p)
	if !stale {
		return false
	}
	l.accuse(finding.StaleRead, c.inst, c.req, c.room, c.pool).on(l, at, p.content).say(claim, seen)
	return true
}

// stale reports whether the page holds what somebody else left there, as far
// as a missing write may accuse (hard case 2): by observation where the
// handoff into it is watched, by claim where the stream promises writes.
func (l *Ledger) stale(pl *pool, p *page) (claim, seen string, stale bool) {
	switch {
	case p.written():
		return "", "", false
	case p.flags&watched != 0:
		claim = "read"
		if p.flags&claimed != 0 {
			claim = "read, claimed written by transfer"
		}
		return claim, unseenWrite, true
	case pl.promises(lifecycle.PagesWritten) && pl.inst.engine:
		return "read, never claimed written in its present generation", "not watched", true
	}
	return "", "", false
}

const unseenWrite = "not one complete write into its present generation was seen"

// unvouched is why a read makes a request unwitnessed that it cannot accuse.
const unvouched = "whether a page that it read was written is neither seen nor promised"

// pendingRead is a read whose step may still bring the writes that it needs:
// within one step writes come before reads (hard case 9).
type pendingRead struct {
	inst  *instance
	req   *request
	room  *room
	pool  *pool
	node  string
	t     int64 // as said
	due   int64 // applied time at which it is judged whatever the step
	tick  uint64
	step  int64
	pages []pendingPage
	lost  bool     // something was lost while it waited
	into  *handoff // whose judgement waits for it, or nil
	short shortage
}

type pendingPage struct {
	at    uint32
	whose finding.Party
	known bool
	claim string
	seen  string
	mute  bool // nothing vouches for it: it makes the request unwitnessed and accuses nobody

	holders []*request // who else held it when it was read
}

// maxHolders is how many others that hold a page are hit by a read of it. What the
// rest hold is asked when they read it.
const maxHolders = 64

// otherHolders are who else holds a page than the reader.
func (l *Ledger) otherHolders(c *call, at uint32, p *page) (others []*request) {
	if c.req != nil && p.refs == 1 {
		return nil // it is the reader's
	}
	l.eachHolder(c.pool, at, func(r *request) {
		if r != c.req && len(others) < maxHolders {
			others = append(others, r)
		}
	})
	return others
}

// awaitStep sets the unwritten pages of a read with a step aside.
func (l *Ledger) awaitStep(c *call) *pendingRead {
	var unwritten []pendingPage
	for _, run := range c.f.Pages {
		for at := run.First; at < run.End(); at++ {
			p := &c.pool.pages[at]
			if c.pool.mute(p) || c.req != nil && !c.req.holds(c.pool, at, p) {
				continue
			}
			if p.written() {
				continue
			}
			claim, seen, stale := l.stale(c.pool, p)
			if !stale && c.f.Ev != lifecycle.PagesRead {
				continue // what a sender reads bears on what arrives, which is judged there
			}
			whose, known := l.others(c.req, p.content)
			unwritten = append(unwritten, pendingPage{
				at: at, whose: whose, known: known, claim: claim, seen: seen, mute: !stale, holders: l.otherHolders(c, at, p),
			})
		}
	}
	if unwritten == nil {
		return nil
	}
	return l.pend(c, unwritten)
}

func (l *Ledger) pend(c *call, pages []pendingPage) *pendingRead {
	if l.pendingReads >= l.cfg.Limits.Pending {
		l.stats.Forgotten.Pending++
		unsee(c.room, c.inst, "more reads wait for their step than are remembered")
		return nil
	}
	pr := &pendingRead{
		inst: c.inst, req: c.req, room: c.room, pool: c.pool, node: c.f.Node,
		t: c.f.T, due: l.now + l.orderTime(), tick: l.tick, step: c.f.Step.V, pages: pages,
	}
	l.pendingReads++
	c.inst.pending = append(c.inst.pending, pr)
	l.timers.add(timer{at: pr.due, inst: c.inst})
	return pr
}

// vouchedFor leaves out what the judgement that the read brought about has seen
// to be written.
func (pr *pendingRead) vouchedFor() {
	if pr != nil {
		pr.pages = slices.DeleteFunc(pr.pages, func(pp pendingPage) bool { return pr.pool.pages[pp.at].written() })
	}
}

// mutePending is for a loss: the write that a read waits for may be what was
// lost, so that it accuses nobody.
func (i *instance) mutePending() {
	for _, pr := range i.pending {
		pr.lost = true
		for n := range pr.pages {
			pr.pages[n].mute = true
		}
		for n := range pr.short.pages {
			pr.short.pages[n].accuse = false
		}
	}
}

// writtenInStep takes pages that a write filled out of the reads of the same
// or a later step.
func (l *Ledger) writtenInStep(c *call) {
	if !c.f.Step.Has {
		return
	}
	for _, pr := range c.inst.pending {
		if pr.step < c.f.Step.V || pr.pool != c.pool {
			pr.short.writtenInStep(c, pr.step, pr.tick)
			continue
		}
		pr.short.writtenInStep(c, pr.step, pr.tick)
		pr.pages = slices.DeleteFunc(pr.pages, func(pp pendingPage) bool {
			p := &c.pool.pages[pp.at]
			return names(c.f.Pages, pp.at) && p.born <= pr.tick && p.written()
		})
	}
}

// awaitsWrite reports whether a request read a page that its step has not written yet.
func (i *instance) awaitsWrite(r *request) bool {
	return slices.ContainsFunc(i.pending, func(pr *pendingRead) bool { return pr.req == r && len(pr.pages) > 0 })
}

func names(runs lifecycle.Runs, at uint32) bool {
	for _, r := range runs {
		if r.First <= at && at < r.End() {
			return true
		}
	}
	return false
}

// mature judges the reads whose step is over: a fact of step now has come, or
// all that was said until then has been put in order.
func (l *Ledger) mature(inst *instance, now int64) {
	kept := inst.pending[:0]
	for _, pr := range inst.pending {
		if pr.step < now || pr.due <= l.now {
			l.judgeRead(pr)
		} else {
			kept = append(kept, pr)
		}
	}
	clear(inst.pending[len(kept):])
	inst.pending = kept
}

// foundMissing reports whether the judgement that a read brings about finds the
// page missing by observation, though nobody named it to the transfers.
func (l *Ledger) foundMissing(pr *pendingRead, at uint32) bool {
	if pr.into == nil || pr.lost || !pr.into.waits() || !pr.into.covered() {
		return false
	}
	p := &pr.pool.pages[at]
	own := p.born > pr.tick || pr.into.req == nil || p.owner == pr.into.req.party // handed on since: it was
	return own && slices.ContainsFunc(pr.short.pages, func(m lacking) bool {
		return m.watched && m.pool == pr.pool && m.at == at
	})
}

func (l *Ledger) judgeRead(pr *pendingRead) {
	l.pendingReads--
	if pr.req != nil && len(pr.pages) > 0 {
		pr.req.readFar = true
	}
	room := pr.room
	if room.gone && pr.req != nil {
		room = pr.req.room // it was said while the read waited
	}
	for _, pp := range pr.pages {
		if pp.mute && l.foundMissing(pr, pp.at) {
			pp.mute, pp.claim, pp.seen = false, "read", unseenWrite
		}
		if pp.mute {
			// The judgement that the read brought about may vouch for it.
			if p := &pr.pool.pages[pp.at]; p.born > pr.tick || !p.written() {
				unseeRead(room, pr.inst, unvouched)
			}
			continue
		}
		b := l.accuse(finding.StaleRead, pr.inst, pr.req, room, pr.pool)
		b.before, b.holders = true, append(b.holders, pp.holders...)
		b.pages = append(b.pages, pp.at)
		if pp.known {
			b.expose(pp.whose)
		}
		b.say(pp.claim, pp.seen)
	}
	if pr.into != nil {
		if pr.short.staged != nil {
			pr.short.staged = l.shortage(pr.into).staged // what was written locally in its step is owed no bytes
		}
		l.conclude(pr.into, pr.short, pr.t, pr.node)
	}
	l.settleAt(pr.t, pr.node)
}
