package sim

import (
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// goesOn makes a request that the sender has rejected go on as if it had not
// been: what the sender had computed is sent, or success is said.
func (r *request) goesOn() bool {
	s, p := r.s, r.pairs[0]
	if s.Strike == nil || !p.rcv.told() || !p.snd.told() || p.dummy {
		return false
	}
	kv := p.snd.in.pool("kv")
	switch {
	case len(p.snd.held[kv]) > 0 && s.strikes("rejected_handoff/transfer"):
		t := r.transfer(p.rcv, p.snd, "kv", nil, slices.Clone(p.snd.held[kv]))
		s.want(p.snd.in, "", r.room, "")
		t.start()
		return true
	case s.strikes("rejected_handoff/completion"):
		s.want(p.rcv.in, "", r.room, "")
		s.Strike.Want.Inst = ""
		f := lifecycle.Fact{Ev: lifecycle.TransferCompleted, Xfer: "99", Room: r.room, Peer: p.snd.in.name, Outcome: lifecycle.OK, Last: true}
		p.rcv.say(f)
		return true
	case s.strikes("rejected_handoff/success"):
		s.want(p.rcv.in, "", r.room, "")
		p.rcv.finish(200, lifecycle.FinishStop)
		return true
	}
	return false
}

// namesAfterAll has the receiver begin a transfer that it has itself refused.
func (r *request) namesAfterAll() {
	s, p := r.s, r.pairs[0]
	if p.dummy || !p.rcv.told() || !s.strikes("rejected_handoff/own_transfer") {
		return
	}
	t := r.transfer(p.rcv, p.snd, "kv", nil, nil)
	s.want(p.rcv.in, "", r.room, "")
	t.name()
}

// goesOnAborted makes an aborted half go on.
func (r *request) goesOnAborted(h *half) {
	s := r.s
	if !h.aborted || !h.told() || s.batch != nil {
		return
	}
	if s.strikes("rejected_handoff/aborted_reserves") {
		s.want(h.in, h.req, "", "")
		h.reserve(h.in.pool("kv"), 1)
	}
	for _, t := range r.transfers {
		if t.snd == h && !t.sent && !t.over && len(t.acts) > 0 && s.strikes("rejected_handoff/aborted_transfers") {
			s.want(h.in, "", r.room, "")
			t.start()
			t.acts = t.acts[1:]
			return
		}
	}
	if s.strikes("rejected_handoff/aborted_succeeds") {
		s.want(h.in, h.req, "", "")
		h.say(lifecycle.Fact{Ev: lifecycle.RequestFinished, Req: h.req, Room: r.room, HTTPStatus: 200, Finish: lifecycle.FinishStop})
	}
}
