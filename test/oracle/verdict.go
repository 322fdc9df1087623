package oracle

import (
	"cmp"
	"slices"

	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// verdicts are one a room and receiver; one a request of no room; one a room
// that has no receiver (R23).
func (o *oracle) verdicts() (all []finding.Verdict) {
	for _, r := range o.roomOrder {
		all = append(all, o.roomVerdicts(r)...)
	}
	for _, i := range o.instOrder {
		for _, r := range i.requests {
			if r.room == nil && r.id != "" {
				why := cmp.Or(r.unseen, r.unread, "nobody watched it")
				all = append(all, o.verdict(nil, r, i.name, finding.Unwitnessed, why))
			}
		}
	}
	return all
}

func (o *oracle) roomVerdicts(r *room) (all []finding.Verdict) {
	for _, h := range r.handoffs {
		if h.isReceiver() && len(h.transfers()) > 0 {
			outcome, why := o.outcome(h)
			all = append(all, o.verdict(r, h.request(), h.receiver, outcome, why))
		}
	}
	if len(all) > 0 {
		return all
	}
	for _, h := range r.handoffs {
		if h.lastEnd != nil && h.request() != nil && len(h.request().given) > 0 { // it was told, and had reserved
			outcome, why := o.outcome(h)
			all = append(all, o.verdict(r, h.request(), h.receiver, outcome, why))
		}
	}
	if len(all) > 0 {
		return all
	}
	at := ""
	for _, named := range r.seenAt {
		at = cmp.Or(at, named)
	}
	if len(r.admitted) > 0 {
		at = r.admitted[0]
	}
	if at == "" {
		return nil
	}
	return append(all, o.verdict(r, r.at[at], at, finding.Unwitnessed, cmp.Or(r.unseen, "it was handed to nobody")))
}

// outcome is clean where all of section 1 is met, else unwitnessed.
func (o *oracle) outcome(h *handoff) (finding.Outcome, string) {
	r := h.request()
	unseen := cmp.Or(h.blurred(), h.unsure)
	if r != nil {
		unseen = cmp.Or(unseen, r.unread)
	}
	for _, missing := range []struct {
		is  bool
		why string
	}{
		{unseen != "", unseen},
		{!h.reserved(), "the receiver named no reservation"},
		{!h.completedOK(), "it was never completed"},
		{!h.seen, "its path was not watched"},
		{!h.witness, "not every page owed could be observed"},
	} {
		if missing.is {
			return finding.Unwitnessed, missing.why
		}
	}
	return finding.Clean, "everything owed was seen to be written"
}

// blurred is the first thing that was not seen of the handoff, or of the requests
// on either side of it; of a sender's what came after the judgement is nothing to it.
func (h *handoff) blurred() string {
	unseen := cmp.Or(h.unseen, h.room.unseen)
	if half := h.room.at[h.receiver]; half != nil {
		unseen = cmp.Or(unseen, half.unseen)
	}
	if !h.judged {
		unseen = cmp.Or(unseen, h.senderUnseen())
	}
	return unseen
}

func (h *handoff) senderUnseen() (unseen string) {
	for _, inst := range h.senders() {
		if half := h.room.at[inst]; half != nil {
			unseen = cmp.Or(unseen, half.unseen)
		}
	}
	return unseen
}

// verdict is the outcome, unless a finding makes it violated.
func (o *oracle) verdict(room *room, r *request, inst string, outcome finding.Outcome, why string) finding.Verdict {
	v := finding.Verdict{Verdict: outcome, Req: r.name(), Inst: inst, Why: why, T: o.now}
	if room != nil {
		v.Room, v.Synthetic = room.id, room.synthetic
	}
	if r != nil {
		v.Synthetic = v.Synthetic || r.synthetic
	}
	for _, s := range o.said {
		if why := s.violates(room, r); why != "" {
			v.Verdict, v.Why = finding.Violated, why
			break
		}
	}
	return v
}

// violates says why a finding makes a room, or a request of none, violated.
func (s *saying) violates(room *room, r *request) string {
	if s.finding.Severity == finding.Warning {
		return ""
	}
	if r != nil && s.req == r || room != nil && (s.room == room || s.req != nil && s.req.room == room) {
		return s.finding.Kind.String()
	}
	for _, victim := range s.victims {
		if victim == r && r != nil || room != nil && victim.room == room {
			return "victim of " + s.finding.Kind.String()
		}
	}
	return ""
}

// reserved: the receiver named its reservation, be it an empty one, or its
// request was given pages.
func (h *handoff) reserved() bool {
	if r := h.request(); r != nil && len(r.given) > 0 {
		return true
	}
	return slices.ContainsFunc(h.transfers(), func(t *transfer) bool { return t.received })
}
