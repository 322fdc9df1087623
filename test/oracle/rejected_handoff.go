package oracle

import (
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// reject applies request_rejected.
func (o *oracle) reject(e *entry) {
	r := o.speaker(e.Fact)
	r.ended, r.stopped = true, true
	if r.room != nil && r.room.at[e.Inst] == r {
		r.room.rejected[e.Inst] = &rejection{o.applied}
	}
}

// abort applies request_aborted: it binds the instance that said so.
func (o *oracle) abort(e *entry) {
	r := o.speaker(e.Fact)
	r.ended, r.aborted, r.stopped = true, true, true
}

// rejectedStart charges an instance that starts a transfer for a request which
// it rejected or aborted.
func (o *oracle) rejectedStart(e *entry, pages []*page, c *charges) {
	if o.startsAnew(e) {
		return
	}
	who := o.by(e.Fact)
	rejected := who.room != nil && who.room.rejected[e.Inst] != nil
	if rejected || who.req != nil && who.req.aborted {
		o.chargeRejected(e, who, pages, "a transfer was started", c)
	}
}

// abortedReserve charges an instance that reserves for a request which it
// aborted.
func (o *oracle) abortedReserve(e *entry, pages []*page, c *charges) {
	if r := o.who(e.Fact); r != nil && r.aborted {
		o.chargeRejected(e, o.by(e.Fact), pages, "pages were reserved", c)
	}
}

func (o *oracle) chargeRejected(e *entry, who party, pages []*page, claim string, c *charges) {
	ch := c.of(finding.RejectedHandoff, e.Fact, who, e.Pool)
	ch.claim, ch.observation = claim, "the request was rejected or aborted before"
	for _, pg := range pages {
		c.page(ch, pg)
	}
}

// rejectedCompletion charges the completion of a transfer that an instance
// started on its side after it had rejected the request, or, as its sender,
// was never said to start.
func (o *oracle) rejectedCompletion(e *entry) {
	t := o.completes(e)
	if t == nil || e.Outcome != lifecycle.OK {
		return
	}
	charged := false
	if said := t.room.rejected[t.sender]; said != nil {
		charged = charged || !t.sent || t.sentAt >= said.moment
	}
	if said := t.room.rejected[t.receiver]; said != nil {
		charged = charged || t.received && t.receivedAt >= said.moment
	}
	if !charged {
		return
	}
	c := o.charges()
	o.chargeRejected(e, o.takerOf(t.room, e.Inst), nil, "a transfer was completed", c)
	o.say(c)
}

// rejectedSuccess charges a success of a room that was rejected, or of a
// request on the instance that aborted it. A recompute is none.
func (o *oracle) rejectedSuccess(e *entry, r *request) {
	rejected := r.room != nil && len(r.room.rejected) > 0 && !o.recomputed(r)
	if !rejected && !r.aborted {
		return
	}
	c := o.charges()
	o.chargeRejected(e, o.by(e.Fact), nil, "the request succeeded", c)
	o.say(c)
}

// recomputed: each receiver's request read something that it might read, everything
// of its own that it read was written locally, and what it shared was written; or
// that may have been so.
func (o *oracle) recomputed(r *request) bool {
	var readers []*request
	for _, h := range r.room.handoffs {
		if h.isReceiver() && h.request() != nil {
			readers = append(readers, h.request())
		}
	}
	if len(readers) == 0 {
		readers = []*request{r}
	}
	for _, reader := range readers {
		if !reader.followed() {
			return true // it may have been, out of sight
		}
		if len(reader.read) == 0 && !reader.readLate {
			return false
		}
		for _, x := range reader.read {
			if x.gen.unknown {
				return true // nothing is known of it
			}
			own := x.gen.holder == reader
			if own && !x.wasLocal() || !own && !o.written(x.gen) {
				return false
			}
		}
	}
	return true
}

// wasLocal: the page was written locally before it was read, or in the same
// step.
func (x reading) wasLocal() bool {
	if x.local {
		return true
	}
	for _, c := range x.gen.claims {
		if c.by != lifecycle.ByTransfer && c.step.Has && x.step.Has && c.step.V <= x.step.V {
			return true
		}
	}
	return false
}
