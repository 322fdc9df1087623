package ledger

import (
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// writeAfterRelease: a write landed on a page after the writer's generation of
// it had ended. The request is that of the transfer; whoever holds the page
// now is its victim. (A claimed write of this kind is found in strangeWrite.)
func (l *Ledger) writeAfterRelease(c *call, rec *activity, pl *pool, at uint32, p *page) {
	if c.f.Outcome == lifecycle.Errored || pl.mute(p) || l.landed(c, l.of(rec).send, at) {
		return // nothing landed, or on a page of which nothing is known, or before
	}
	seen := "a write of its transfer landed after the page was released"
	if rec.born != p.born {
		seen = "a write of its transfer landed after the page was handed out again"
	}
	t := l.of(rec)
	if named := l.runningAs(c); named != nil {
		t = named // though it does not name the page
	}
	c.tr = t
	l.wrongBytes(c, t, wrong{kind: finding.WriteAfterRelease, inst: c.inst, req: t.room.on(c.inst), room: t.room, pool: pl, at: at, claim: "released", seen: seen})
}
