package ledger

import (
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// foreign_page: a reader without a reference, a writer that is not the request
// that reserved the generation, or a transfer that names a page its request
// does not hold.

// foreignRead reports whether the reader has no reference; the other rules for
// readers then do not ask (tenant_crossing, stale_read).
func (l *Ledger) foreignRead(c *call, at uint32, p *page) bool {
	if c.req.holds(c.pool, at, p) {
		return false
	}
	if !l.inTime(c, at, p) && c.pool.tellsHolders() {
		l.accuse(finding.ForeignPage, c.inst, c.req, c.room, c.pool).on(l, at, p.content).
			say("read", "by its own events the reader holds no reference on it")
	}
	return true
}

// checkWritten asks whether the writer may write.
func (l *Ledger) checkWritten(c *call) {
	if c.req == nil {
		return
	}
	for _, run := range c.f.Pages {
		pages := c.pool.pages[run.First:run.End()]
		for i := range pages {
			p := &pages[i]
			if p.owner == c.req.party && p.held() || c.pool.mute(p) {
				continue
			}
			l.strangeWrite(c, run.First+uint32(i), p)
		}
	}
}

// strangeWrite tells a writer whose generation ended (write_after_release) from
// one that never had the page (foreign_page).
func (l *Ledger) strangeWrite(c *call, at uint32, p *page) {
	switch {
	case l.anybodys(p, c.f.By), l.inTime(c, at, p), !c.pool.tellsHolders():
	case p.owner == c.req.party || c.req.past.find(c.pool.index, at) != nil || c.req.lost.find(c.pool.index, at) != nil:
		l.accuse(finding.WriteAfterRelease, c.inst, c.req, c.room, c.pool).on(l, at, p.content).
			say("written by "+c.f.By.String(), "by its own events the writer's generation of it had ended")
	default:
		l.accuse(finding.ForeignPage, c.inst, c.req, c.room, c.pool).on(l, at, p.content).
			say("written by "+c.f.By.String(), "by its own events the writer did not reserve it")
	}
}

// inTime is hard case 9: a read or write dated no later than the release is
// none of a stranger, unless the page was handed out again and then read or
// filled. Facts of one batch have no order. Who held the page in a step that was
// out of sight is not known.
func (l *Ledger) inTime(c *call, at uint32, p *page) bool {
	if c.f.Step.Has && c.f.Step.V <= c.inst.blindTo {
		return true
	}
	s := c.req.past.find(c.pool.index, at)
	if s == nil {
		return false
	}
	sameStep := c.f.Step.Has && s.step >= c.f.Step.V
	sameBatch := l.batch && s.t == c.f.T
	if !sameStep && !sameBatch {
		return false
	}
	again := p.born > s.tick
	return !again || p.flags&wasRead == 0 && !p.filled() && !l.partlyFilled(c.pool, p)
}

// foreignCache: the cache was given a page by one that does not hold it, or
// that nobody holds.
func (l *Ledger) foreignCache(c *call) {
	for _, run := range c.f.Pages {
		pages := c.pool.pages[run.First:run.End()]
		for i := range pages {
			p := &pages[i]
			at := run.First + uint32(i)
			if c.pool.mute(p) || p.held() && (c.req == nil || c.req.holds(c.pool, at, p)) {
				continue
			}
			if c.req != nil && l.inTime(c, at, p) || !c.pool.tellsHolders() {
				continue
			}
			l.accuse(finding.ForeignPage, c.inst, c.req, c.room, c.pool).on(l, at, p.content).
				say("put into the prefix cache", "by its own events not held by the request that put it there")
		}
	}
}

// foreignShare: there was nothing to share. What the cache holds is known only where the
// engine promises to tell it.
func (l *Ledger) foreignShare(c *call, at uint32, p *page) {
	others := p.refs
	if c.req.holds(c.pool, at, p) {
		others--
	}
	if p.flags&cached == 0 && others == 0 && c.pool.tellsHolders() && c.pool.promises(lifecycle.PagesCached) {
		l.accuse(finding.ForeignPage, c.inst, c.req, c.room, c.pool).on(l, at, p.content).
			say("shared from the prefix cache", "by its own events the cache does not hold it")
	}
}

// foreignTransfer: a transfer names a page that its request does not hold.
func (l *Ledger) foreignTransfer(c *call, at uint32, p *page) bool {
	if !c.pool.tellsHolders() || c.req != nil && c.req.holds(c.pool, at, p) {
		return false
	}
	if c.req == nil && !c.inst.tellsAllRequests() {
		return false
	}
	l.accuse(finding.ForeignPage, c.inst, c.req, c.room, c.pool).on(l, at, p.content).
		say("named by a transfer as its "+sideWord(c.f.Side), "by its own events its request does not hold the page")
	c.misnames = true
	return true
}

// tellsAllRequests reports whether a request that the instance has would be
// known: its stream promises admissions and hand-outs, and was never out of
// sight.
func (i *instance) tellsAllRequests() bool {
	return i.seenSince == 0 && i.promises(lifecycle.RequestAdmitted) && i.promises(lifecycle.PagesReserved)
}

func sideWord(s lifecycle.Side) string {
	if s == lifecycle.Sender {
		return "source"
	}
	return "target"
}
