package oracle

import (
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// sequenceGap: numbers of a stream that never came before a higher one was
// applied (R2, R12).
func (o *oracle) sequenceGap(e *entry, s *stream) {
	if !s.begun || e.Seq.V <= s.top {
		return
	}
	missing := s.seen.holes(s.top+1, e.Seq.V)
	if len(missing) == 0 {
		return
	}
	if s.report(missing) {
		o.sayBlind(e.Fact, e.Inst, "numbers of the stream are missing")
	}
	o.loseSight(e.Inst, e.Src)
}

// report notes missing numbers; it says whether some of them are new.
func (s *stream) report(missing spans) (news bool) {
	for _, m := range missing {
		news = news || !s.reported.covers(m.from, m.to)
		s.reported = s.reported.with(m.from, m.to)
	}
	return news
}

// lost applies stream_gap and events_lost.
func (o *oracle) lost(e *entry) {
	if o.isNews(e) {
		o.sayBlind(e.Fact, e.Inst, "facts were lost")
	}
	o.withdrawSight(e)
}

func (o *oracle) isNews(e *entry) bool {
	if e.Ev != lifecycle.StreamGap {
		return true
	}
	s := o.stream(streamKey{e.Inst, o.epochOf(e), e.Of})
	return s.report(spans{{e.GapFrom, e.GapTo + 1}})
}

// withdrawSight: a fact without an instance is about every one of its node.
func (o *oracle) withdrawSight(e *entry) {
	if e.Inst != "" {
		o.loseSight(e.Inst, e.Of)
		return
	}
	for _, i := range o.instOrder {
		if i.nodes[e.Node] {
			o.loseSight(i.name, e.Of)
		}
	}
}

// loseSight is what a gap of one source costs (R12).
func (o *oracle) loseSight(inst string, of lifecycle.Src) {
	i := o.inst(inst)
	switch of {
	case lifecycle.RDMA, lifecycle.TCP, lifecycle.CUDA:
		i.uncover(of, "")
	case lifecycle.Engine, lifecycle.Wire:
		if of == lifecycle.Engine || !i.engine {
			for _, p := range i.pools {
				p.forget()
			}
		}
		o.loseRequests(i)
	}
}

// loseRequests: what was going on when facts were lost is unwitnessed, and
// whether a transfer was drained then is not known.
func (o *oracle) loseRequests(i *instance) {
	const why = "facts of the instance were lost"
	i.missed, i.unsure = true, true
	for _, r := range i.live() {
		if !r.handedOver() {
			r.blur(why)
		}
		r.lost = true
	}
	for _, r := range i.requests {
		r.aborted = false // it may have been admitted again
	}
	for _, r := range o.roomOrder {
		delete(r.rejected, i.name)
	}
	for _, t := range o.transfers {
		if t.sender != i.name && t.receiver != i.name {
			continue
		}
		t.drainUnknown = true
		if h := t.handoff(); !h.judged {
			h.blur(why)
		}
	}
}

// handedOver: it only sends, and what it sends was judged where it arrived.
func (r *request) handedOver() bool {
	if r == nil || r.room == nil {
		return false
	}
	sends := false
	for _, h := range r.room.handoffs {
		sent := slices.Contains(h.senders(), r.inst.name)
		receives := h.receiver == r.inst.name && h.isReceiver() && len(h.transfers()) > 0
		if receives || sent && !h.judged && h.isReceiver() {
			return false
		}
		sends = sends || sent
	}
	return sends
}

// blindByCoverage: coverage ends while a handoff into the instance is open.
func (o *oracle) blindByCoverage(e *entry) {
	i := o.inst(e.Inst)
	for _, t := range o.transfers {
		h := t.handoff()
		if t.receiver != e.Inst || !t.started() || h.judged || e.Peer != "" && t.sender != e.Peer {
			continue
		}
		if i.coveredBy(e.Of, t.sender, o.applied+1) {
			o.sayBlind(e.Fact, e.Inst, "coverage ended while a handoff was open")
			return
		}
	}
}

func (o *oracle) sayBlind(f *lifecycle.Fact, inst, why string) {
	c := o.charges()
	ch := c.of(finding.Blind, f, party{inst: inst}, "")
	ch.claim, ch.observation = "", why
	o.say(c)
}
