package ledger

import (
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// digest is a content_digest that may still be compared with that of the other
// side.
type digest struct {
	inst   *instance
	pool   string
	page   lifecycle.Opt[int64]
	side   lifecycle.Side
	digest string
}

// contentMismatch: digests of sender and receiver of the same content differ.
// Several senders into one receiver each hold a part, which no digest of the
// whole can be compared with.
func (l *Ledger) contentMismatch(c *call) {
	d := digestOf(c)
	for _, other := range c.room.digests {
		if other.side == d.side || other.pool != d.pool || other.page != d.page || other.digest == d.digest {
			continue
		}
		recv, send := d.inst, other.inst
		if d.side == lifecycle.Sender {
			recv, send = send, recv
		}
		if !c.room.soleSender(recv, send) {
			continue
		}
		pl := recv.byName[d.pool]
		b := l.accuse(finding.ContentMismatch, recv, c.room.on(recv), c.room, pl)
		b.say("handed over unchanged", "the digests of sender and receiver differ")
		if at, given, known := c.room.promptPage(recv, pl, d.page); known {
			b.asOf = given
			if p := &pl.pages[at]; p.born <= given {
				b.on(l, at, p.content)
			} else {
				b.pages = append(b.pages, at)
			}
		}
	}
}

// promptPage is the page that holds the prompt's page n, and the tick at which it
// was given, as far as the order of the request's pages is known.
func (rm *room) promptPage(recv *instance, pl *pool, n lifecycle.Opt[int64]) (at uint32, given uint64, known bool) {
	r := rm.on(recv)
	if r == nil || pl == nil || !n.Has {
		return 0, 0, false
	}
	logical := r.firstLogical(pl)
	for _, g := range r.given {
		if g.pool != pl.index {
			continue
		}
		if n.V >= logical && n.V < logical+int64(g.count) {
			return g.first + uint32(n.V-logical), g.tick, true
		}
		logical += int64(g.count)
	}
	return 0, 0, false
}

func digestOf(c *call) digest {
	return digest{c.inst, c.f.Pool, c.f.PromptPage, c.f.Side, c.f.Digest}
}

// soleSender reports whether send is the one that sends to recv in this room.
func (rm *room) soleSender(recv, send *instance) bool {
	h := rm.into(recv)
	if h == nil {
		return false
	}
	for _, t := range h.transfers {
		if t.send != send {
			return false
		}
	}
	return len(h.transfers) > 0
}

func (l *Ledger) keepDigest(c *call) {
	if len(c.room.digests) >= l.cfg.Limits.Digests {
		l.stats.Forgotten.Digests++
		unsee(c.room, c.inst, "the room has more digests than are remembered")
		return
	}
	c.room.digests = append(c.room.digests, digestOf(c))
}
