package ledger

import (
	"fmt"

	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// early_release: the last reference on a page ended, or it was handed out
// again, while a transfer that targets or reads it was not drained.

// releasedEarly judges the end of the last reference.
func (l *Ledger) releasedEarly(c *call, at uint32, p *page) {
	if t, source := l.undrained(c.pool, p); t != nil && !c.pool.mute(p) {
		req := c.req
		if req == nil {
			req = t.room.on(c.inst)
		}
		l.accuse(finding.EarlyRelease, c.inst, req, t.room, c.pool).on(l, at, p.content).
			say("released", notDrained(t, source))
	}
}

// handedOutEarly judges a hand-out over a page that was never given back: of an
// instance that says no releases, or together with double_hold. A page that
// was given back too early was reported then.
func (l *Ledger) handedOutEarly(c *call, at uint32, p *page) {
	if !p.held() || c.pool.mute(p) {
		return
	}
	if t, source := l.undrained(c.pool, p); t != nil && t.room != c.room {
		l.accuse(finding.EarlyRelease, c.inst, t.room.on(c.inst), t.room, c.pool).on(l, at, p.content).
			say("handed out again", notDrained(t, source))
	}
}

// undrained is a transfer that names the page's present generation and of
// which a write, or a read of a source, may still come (hard case 7).
func (l *Ledger) undrained(pl *pool, p *page) (t *transfer, source bool) {
	for a := p.act; a != 0; a = pl.acts[a].next {
		rec := &pl.acts[a]
		if rec.born == p.born && l.of(rec).running() && !rec.implied && !l.drainedAsSeen(l.of(rec)) && l.of(rec).wouldBeTold() {
			return l.of(rec), rec.source
		}
	}
	return nil, false
}

// drainedAsSeen: observed completions cover all its writes. A transfer that
// failed posts no more; where its writes are seen completely, none is open.
func (l *Ledger) drainedAsSeen(t *transfer) bool {
	return t.failed() && t.posted == 0 && len(t.doubts) == 0 && !t.into.blurred && t.recv.sight.complete(t.send.name, t.began())
}

// wouldBeTold reports whether a drain of the transfer would have been seen: who
// is told of it is one side or the other, so neither may have been out of sight
// since the transfer began. Where the receiver is known from the wire alone, the
// wire tells.
func (t *transfer) wouldBeTold() bool {
	began := t.began()
	if began <= t.recv.seenSince || began <= t.send.seenSince {
		return false
	}
	if t.room.late {
		return false // what came too late may have told of it
	}
	if t.into.blurred && t.failed() {
		return false // its last writes may have been seen and not told apart
	}
	return t.recv.followed() && (t.send.followed() || !t.recv.engine)
}

// followed reports whether the instance has a stream that was seen.
func (i *instance) followed() bool { return i.engine || len(i.byName) > 0 }

func notDrained(t *transfer, source bool) string {
	if source {
		return fmt.Sprintf("a transfer to %s that reads it is not drained", t.recv.name)
	}
	return fmt.Sprintf("a transfer from %s that writes it is not drained", t.send.name)
}
