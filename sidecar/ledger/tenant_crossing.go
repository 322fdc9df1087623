package ledger

import (
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// checkShared asks what a prefix-cache hit can break.
func (l *Ledger) checkShared(c *call) {
	asked := hashKey(c.f.Key)
	for _, run := range c.f.Pages {
		pages := c.pool.pages[run.First:run.End()]
		for i := range pages {
			p := &pages[i]
			if c.pool.mute(p) {
				continue
			}
			at := run.First + uint32(i)
			l.foreignShare(c, at, p)
			l.tenantCrossing(c, at, p, "shared")
			l.wrongBlock(c, at, p, asked)
		}
	}
}

// tenantCrossing: a page of one domain was shared with, or read under a
// reference by, a request of another. A domain that was not said is unknown
// and accuses nobody; an empty one is shared by all, by intent.
func (l *Ledger) tenantCrossing(c *call, at uint32, p *page, how string) {
	page, asker := l.domainOf(p), c.req.domain(l)
	if !asker.Has && c.f.Ev == lifecycle.PagesShared {
		asker = c.f.Domain
	}
	if !page.Has || !asker.Has || page.V == "" || page.V == asker.V {
		return
	}
	l.accuse(finding.TenantCrossing, c.inst, c.req, c.room, c.pool).on(l, at, p.content).
		say(how+" by a request of domain "+quoted(asker.V), "by its own events the page is of domain "+quoted(page.V))
}

// domainOf is the domain of the request whose generation the page is, for a
// copy that of its content.
func (l *Ledger) domainOf(p *page) lifecycle.Opt[string] {
	if p.flags&copied != 0 {
		return l.parties.all[p.content].domain
	}
	return l.parties.all[p.owner].domain
}

func quoted(domain string) string {
	if domain == "" {
		return "none (shared by all)"
	}
	return domain
}
