package ledger

import (
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// What was only posted may never land: like the pages that it fills (hard case
// 1), the rules that it breaks wait until its transfer completes. Then they are
// said with the time of the post.

// wrong is a page that bytes break a rule on. room may be nil: it is the
// request's.
type wrong struct {
	kind        finding.Kind
	inst        *instance
	req         *request
	room        *room
	pool        *pool
	at          uint32
	claim, seen string
}

// doubt is something wrong that was posted and not seen to land.
type doubt struct {
	wrong
	whose finding.Party
	known bool
	tick  uint64 // of the post
	t     int64  // as said
	node  string
	qp    lifecycle.Opt[uint64]
	lo    uint64 // the addresses of which it is not known
	hi    uint64
}

// maxDoubts is on how many pages the posts into one instance may break rules
// before the rest is not remembered.
const maxDoubts = 4096

// wrongBytes accuses at once, or once the transfer completes where the bytes
// were only posted.
func (l *Ledger) wrongBytes(c *call, t *transfer, w wrong) {
	whose := w.pool.pages[w.at].content
	if c.f.Outcome != lifecycle.Posted {
		l.accuse(w.kind, w.inst, w.req, w.room, w.pool).on(l, w.at, whose).say(w.claim, w.seen)
		return
	}
	if t == nil || t.drained || t.recv.doubts >= maxDoubts {
		return
	}
	d := doubt{wrong: w, tick: l.tick, t: c.f.T, node: c.f.Node, qp: c.f.QP, lo: c.f.Addr, hi: c.f.Addr + c.f.Bytes}
	d.whose, d.known = l.others(w.req, whose)
	t.doubts = append(t.doubts, d)
	t.recv.doubts++
}

// settleDoubts: of some addresses it is known now whether they landed; if they
// did, that accuses by itself.
func (l *Ledger) settleDoubts(c *call, from *instance) {
	f := c.f
	for t := range c.inst.running {
		if t.recv != c.inst || len(t.doubts) == 0 || f.From != "" && t.send != from || f.Xfer != "" && t.xfer != f.Xfer {
			continue
		}
		kept := t.doubts[:0]
		for _, d := range t.doubts {
			if !d.settledBy(f) {
				kept = append(kept, d)
			}
		}
		t.recv.doubts -= len(t.doubts) - len(kept)
		t.doubts = kept
	}
}

// settledBy takes the addresses of a completion from the doubt, and reports
// whether none is left.
func (d *doubt) settledBy(f *lifecycle.Fact) bool {
	if d.qp.Has && f.QP.Has && d.qp != f.QP {
		return false
	}
	lo, hi := f.Addr, f.Addr+f.Bytes
	if lo <= d.lo {
		d.lo = max(d.lo, hi)
	} else if hi >= d.hi {
		d.hi = min(d.hi, lo)
	}
	return d.lo >= d.hi
}

// doubtsCameTrue: the transfer completed, so all that it posted has landed.
func (l *Ledger) doubtsCameTrue(t *transfer) {
	for i, d := range t.doubts {
		if i > 0 && t.doubts[i-1].tick != d.tick {
			l.settleAt(t.doubts[i-1].t, t.doubts[i-1].node)
		}
		if d.pool.closed {
			continue
		}
		b := l.accuse(d.kind, d.inst, d.req, d.room, d.pool)
		b.asOf = d.tick
		b.pages = append(b.pages, d.at)
		if d.known {
			b.expose(d.whose)
		}
		b.say(d.claim, d.seen)
	}
	if n := len(t.doubts); n > 0 {
		l.settleAt(t.doubts[n-1].t, t.doubts[n-1].node)
	}
	l.dropDoubts(t)
}

func (l *Ledger) dropDoubts(t *transfer) {
	t.recv.doubts -= len(t.doubts)
	t.doubts = nil
}
