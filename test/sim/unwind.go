package sim

import "github.com/kvwitness/kvwitness/engine/lifecycle"

// unwind ends a handoff in the middle, and gives everything back once nothing
// can be written any more.
func (r *request) unwind(end ending) {
	s := r.s
	first, second := r.receivers, r.senders
	if s.chance(0.4) {
		first, second = second, first
	}
	if end == doomed {
		for _, h := range first {
			r.leaveOff(h, end)
		}
		s.hard(6, "aborted "+r.phase())
		r.crossing(first[0] == r.receivers[0])
	}
	r.wait(s.between(hop, 3*ms))
	r.hurries()
	r.runOut(end)
	for _, h := range append(first, second...) {
		r.leaveOff(h, end)
		r.settleHalf(h)
		r.wait(s.between(hop, ms))
	}
}

// phase is how far the request has come.
func (r *request) phase() string {
	open, over := 0, 0
	for _, t := range r.transfers {
		if t.over {
			over++
		} else if t.named || t.sent {
			open++
		}
	}
	switch {
	case open > 0:
		return "while a transfer runs"
	case r.delivered:
		return "while it decodes"
	case over > 0:
		return "between transfers"
	case r.receivers[0].heldPages() > 0:
		return "before the transfer"
	}
	return "before it holds anything"
}

func (h *half) heldPages() (n int) {
	for _, pages := range h.held {
		n += len(pages)
	}
	return n
}

// crossing lets the other side go on as it has not yet been told.
func (r *request) crossing(receiverFirst bool) {
	s := r.s
	for _, t := range r.transfers {
		if t.over || t.umbrella || t.dummy || !s.chance(0.6) || !t.rcv.alive() || !t.snd.alive() {
			continue
		}
		r.wait(s.between(hop, ms))
		switch {
		case receiverFirst && (t.named || t.chunk) && !t.sent && len(t.acts) > 0:
			t.start()
			t.acts = t.acts[1:]
			s.hard(6, "a transfer that crossed the receiver's abort")
		case !receiverFirst && !t.named && !t.chunk && len(t.acts) > 0:
			t.name()
			t.acts = t.acts[1:]
			s.hard(6, "a transfer that crossed the sender's abort")
		}
	}
}

// runOut lets open transfers run to their end, or fail.
func (r *request) runOut(end ending) {
	s := r.s
	for _, t := range r.transfers {
		if t.over || !t.named && !t.sent {
			t.over = true
			continue
		}
		if end == doomed && !r.hurried && t.sent && (t.named || t.chunk) && !t.rcv.in.staged && s.chance(0.4) {
			for len(t.acts) > 0 && t.rcv.alive() && t.snd.alive() {
				act := t.acts[0]
				t.acts = t.acts[1:]
				act()
				r.wait(s.between(hop, 200*µs))
			}
			s.hard(6, "a transfer that ran to its end after an abort")
		}
		t.fail()
	}
}

// leaveOff says that the request has ended here.
func (r *request) leaveOff(h *half, end ending) {
	switch {
	case h.ended || !h.in.engine:
	case end == doomed:
		h.abort("client gone")
	case r.s.chance(0.5):
		h.abort("peer failed")
	default:
		h.finish(500, lifecycle.FinishError)
	}
}

// settleHalf gives back what the half holds, once no transfer names it.
func (r *request) settleHalf(h *half) {
	for _, t := range r.transfers {
		if t.rcv == h || t.snd == h {
			t.fail()
			if !t.rcv.alive() || !t.snd.alive() {
				t.gone()
			}
		}
	}
	h.in.together(h.releaseAll)
}
