package sim

import (
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// rejected is the life of a request that one side refuses; it reports false
// where the refusal is taken back and the handoff goes on.
func (r *request) rejected() bool {
	if r.s.chance(0.4) {
		r.rejectedByReceiver()
		return true
	}
	return r.rejectedBySender()
}

// rejectedByReceiver: the sender may have begun before it is told.
func (r *request) rejectedByReceiver() {
	s := r.s
	for _, h := range r.senders {
		r.computeOn(h, h.in.pool("kv").pagesOf(r.prompt))
	}
	r.calm = true
	for _, h := range r.receivers {
		h.admit()
		h.reject()
		h.ended = true
	}
	s.hard(6, "rejected by the receiver")
	r.namesAfterAll()
	for _, p := range r.pairs {
		if p.dummy || !s.chance(0.3) {
			continue
		}
		r.wait(s.between(hop, ms))
		t := r.transfer(p.rcv, p.snd, "kv", nil, slices.Clone(p.snd.held[p.snd.in.pool("kv")]))
		t.start()
		s.hard(6, "a transfer that crossed the receiver's rejection")
	}
	r.wait(s.between(hop, 2*ms))
	r.runOut(wrecked)
	for _, h := range r.senders {
		r.leaveOff(h, doomed)
		r.settleHalf(h)
	}
}

// rejectedBySender: the receiver has reserved, and perhaps names its pages
// before it is told.
func (r *request) rejectedBySender() bool {
	s := r.s
	r.prepare()
	r.calm = true
	late := s.chance(0.5)
	if !late {
		r.nameAll()
	}
	for _, h := range r.senders {
		if s.chance(0.3) {
			r.computeOn(h, h.in.pool("kv").pagesOf(r.prompt))
		} else {
			h.admit()
		}
		h.reject()
		h.entered, h.ended = true, true
	}
	s.hard(6, "rejected by the sender")
	if late {
		r.wait(s.between(hop, ms))
		r.nameAll()
		s.hard(6, "a reservation that crossed the sender's rejection")
	}
	r.wait(s.between(hop, 2*ms))
	if r.goesOn() {
		r.runOut(wrecked)
		for _, h := range r.halves() {
			r.settleHalf(h)
		}
		return true
	}
	for _, h := range r.senders {
		h.releaseAll()
		h.prefix = 0
	}
	if s.chance(s.Mix.Readmit) {
		r.refusing = false
		return r.readmitted()
	}
	r.runOut(wrecked)
	h := r.receivers[0]
	if len(r.receivers) == 1 && h.in.written && h.in.engine && !h.in.staged && h.alive() && s.chance(s.Mix.Recompute) {
		r.recompute(h)
		return true
	}
	for _, h := range r.receivers {
		if s.chance(0.5) {
			h.abort("rejected by prefill")
		} else {
			h.finish(400, lifecycle.FinishError)
		}
		r.settleHalf(h)
	}
	return true
}

func (r *request) nameAll() {
	for _, p := range r.pairs {
		if held := p.rcv.held[p.rcv.in.pool("kv")]; !p.dummy && len(held) > 0 {
			low := int(p.rcv.prefix / r.s.layout.pageTokens)
			high := min(len(held), p.rcv.in.pool("kv").pagesOf(r.prompt))
			r.transfer(p.rcv, p.snd, "kv", slices.Clone(held[low:high]), nil).name()
		}
	}
}

// readmitted takes the refusal back: the transfers that were named fail, and
// the request goes on as if new.
func (r *request) readmitted() bool {
	r.runOut(wrecked)
	for _, h := range r.halves() {
		if !h.alive() {
			panic(interrupt{wrecked})
		}
	}
	for _, h := range r.senders {
		h.entered, h.ended = false, false
	}
	r.s.hard(6, "rejected and admitted again")
	r.calm = false
	return false
}

// recompute is the receiver doing the whole prompt itself.
func (r *request) recompute(h *half) {
	s, kv := r.s, h.in.pool("kv")
	for _, p := range h.in.pools {
		pages := h.held[p]
		if p == kv {
			pages = pages[h.prefix/s.layout.pageTokens:]
		}
		if p.name != "aux" {
			h.write(p, pages, lifecycle.ByForward, 0)
		}
	}
	s.hard(6, "rejected and recomputed by the receiver")
	r.wait(s.between(hop, ms))
	h.readAll()
	r.decode(h)
	h.finish(200, lifecycle.FinishStop)
	h.leave()
}
