package ledger

import (
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// checkReleased asks what giving a page back can break.
func (l *Ledger) checkReleased(c *call) {
	for _, run := range c.f.Pages {
		pages := c.pool.pages[run.First:run.End()]
		for i := range pages {
			p := &pages[i]
			at := run.First + uint32(i)
			switch {
			case p.owner == c.req.party && p.flags&ownerRef != 0 || c.req.sharing(c.pool, at, p):
				if p.act != 0 && p.refs == 1 && p.flags&cached == 0 {
					l.releasedEarly(c, at, p)
				}
			default:
				l.doubleRelease(c, at, p)
			}
		}
	}
}

// checkEvicted asks the same of the cache's reference.
func (l *Ledger) checkEvicted(c *call) {
	for _, run := range c.f.Pages {
		pages := c.pool.pages[run.First:run.End()]
		for i := range pages {
			p := &pages[i]
			at := run.First + uint32(i)
			switch {
			case p.flags&cached != 0:
				if p.act != 0 && p.refs == 0 {
					l.releasedEarly(c, at, p)
				}
			case p.flags&robbed == 0: // else a hand-out took it: double_hold said so
				l.doubleRelease(c, at, p)
			}
		}
	}
}

// doubleRelease: a page was released by one that did not hold it, or evicted
// while the cache did not.
func (l *Ledger) doubleRelease(c *call, at uint32, p *page) {
	if c.pool.mute(p) || !c.pool.tellsHolders() || c.req == nil && !c.pool.promises(lifecycle.PagesCached) {
		return
	}
	if c.req != nil && (c.req.lostMore || c.req.lost.find(c.pool.index, at) != nil || c.req.shares.find(c.pool.index, at) != nil) {
		return // it was taken from c.req by a hand-out: double_hold said so
	}
	seen := "by its own events nobody held it"
	if p.held() {
		seen = "by its own events held by others only"
	}
	l.accuse(finding.DoubleRelease, c.inst, c.req, c.room, c.pool).on(l, at, p.content).
		say("gave back a reference", seen)
}
