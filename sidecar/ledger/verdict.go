package ledger

import (
	"fmt"

	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// A request has one verdict at each receiver (DESIGN section 1): violated; else
// clean, which needs reservation, complete observed coverage, completion and no
// gap; else unwitnessed, with what was not seen.

// sayVerdicts gives a room's verdicts, once.
func (l *Ledger) sayVerdicts(rm *room) {
	if rm.said {
		return
	}
	rm.said = true
	l.verdictsOf(rm, l.give)
}

// revise says violated after all, where the verdict was given before the fact
// that shows the violation came.
func (l *Ledger) revise(rm *room) {
	if !rm.said || rm.revised {
		return
	}
	rm.revised = true
	l.verdictsOf(rm, func(v finding.Verdict) {
		v.Why += ", found after the request had ended"
		l.give(v)
	})
}

func (l *Ledger) give(v finding.Verdict) {
	l.stats.Verdicts[v.Verdict]++
	l.verdicts = append(l.verdicts, v)
}

// verdictsOf judges a room: once for each receiver, or once for the request
// where there is none.
func (l *Ledger) verdictsOf(rm *room, say func(finding.Verdict)) {
	receivers := rm.receivers()
	for _, h := range receivers {
		v := finding.Verdict{Req: idOf(h.req), Room: rm.id, Inst: h.recv.name, T: l.now, Synthetic: rm.isSynthetic()}
		v.Verdict, v.Why = rm.outcome(h)
		say(v)
	}
	inst := rm.firstInst()
	if receivers != nil || inst == nil {
		return
	}
	v := finding.Verdict{Req: idOf(rm.on(inst)), Room: rm.id, Inst: inst.name, T: l.now, Synthetic: rm.isSynthetic()}
	v.Verdict, v.Why = rm.localOutcome()
	say(v)
}

// receivers is hard case 3: who started a receiver-side transfer; else the
// peers that a sender named; else those told of a completion that had
// reserved.
func (rm *room) receivers() []*handoff {
	var started, named, told []*handoff
	for _, h := range rm.handoffs {
		switch {
		case h.startedByReceiver():
			started = append(started, h)
		case h.began != 0:
			named = append(named, h)
		case h.told:
			told = append(told, h)
		}
	}
	switch {
	case started != nil:
		return started
	case named != nil:
		return named
	}
	return told
}

func (h *handoff) startedByReceiver() bool {
	for _, t := range h.transfers {
		if t.recvTick != 0 {
			return true
		}
	}
	return false
}

func (rm *room) outcome(h *handoff) (finding.Outcome, string) {
	if rm.violated != "" {
		return finding.Violated, rm.violated
	}
	if why := rm.notSeen(h); why != "" {
		return finding.Unwitnessed, why
	}
	return finding.Clean, "every owed page was seen to be written"
}

// notSeen is the first thing that stands between a handoff and clean.
func (rm *room) notSeen(h *handoff) string {
	for _, u := range rm.unseen {
		if u.inst == nil || u.inst == h.recv {
			return u.what
		}
	}
	blank := h.senderBlank
	if !h.judged {
		blank = rm.senderBlank(h)
	}
	switch {
	case blank != "":
		return blank
	case !h.completed:
		return "the handoff was not completed"
	case !h.startedByReceiver() && (h.req == nil || !h.req.reserved):
		return "no reservation was named"
	case !h.proven:
		return fmt.Sprintf("the data into %s were not watched", h.recv.name)
	case !h.sealed:
		return "not every owed page was seen to be written"
	}
	return ""
}

// senderBlank is the first thing that was not seen at a sender. What is not seen
// there after the judgement takes nothing back: it was seen to arrive.
func (rm *room) senderBlank(h *handoff) string {
	for _, u := range rm.unseen {
		if !u.own && u.inst != nil && h.sentBy(u.inst) {
			return u.what
		}
	}
	return ""
}

func (h *handoff) sentBy(inst *instance) bool {
	for _, t := range h.transfers {
		if t.send == inst {
			return true
		}
	}
	return false
}

func (rm *room) localOutcome() (finding.Outcome, string) {
	switch {
	case rm.violated != "":
		return finding.Violated, rm.violated
	case len(rm.unseen) > 0:
		return finding.Unwitnessed, rm.unseen[0].what
	}
	return finding.Unwitnessed, "no handoff: what was written locally is only claimed"
}

// idOf is the id of the receiver's request, "" where only the wire is known.
func idOf(r *request) string {
	if r == nil {
		return ""
	}
	return r.id
}

// firstInst is the first instance that admitted the room's request, else the
// first that named it.
func (rm *room) firstInst() *instance {
	for _, r := range rm.reqs {
		if r.admitted != 0 {
			return r.inst
		}
	}
	if rm.named == nil && len(rm.reqs) > 0 {
		return rm.reqs[0].inst
	}
	return rm.named
}

func (rm *room) isSynthetic() bool {
	for _, r := range rm.reqs {
		if r.synthetic {
			return true
		}
	}
	return rm.synthetic
}
