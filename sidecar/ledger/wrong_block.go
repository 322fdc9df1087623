package ledger

import "github.com/kvwitness/kvwitness/sidecar/finding"

// wrongBlock: a shared page's prefix key is not the one asked for.
func (l *Ledger) wrongBlock(c *call, at uint32, p *page, asked uint32) {
	if asked == 0 || p.key == 0 || p.key == asked {
		return
	}
	l.accuse(finding.WrongBlock, c.inst, c.req, c.room, c.pool).on(l, at, p.content).
		say("shared for prefix key "+c.f.Key, "by its own events cached under another prefix key")
}
