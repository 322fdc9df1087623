package ledger

import (
	"fmt"

	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// stalledReservation: pages reserved with no progress for longer than the
// limit. Called by the request's timer; said once for each stall.
func (l *Ledger) stalledReservation(r *request) {
	r.timed = false
	if r.owned == 0 || r.stalled || r.gone {
		return
	}
	if due := r.lastT + l.cfg.Stall.Nanoseconds(); due > l.now {
		l.timeStall(r)
		return
	}
	r.stalled = true
	for _, pl := range r.inst.pools {
		if pl != nil {
			l.stalledIn(r, pl)
		}
	}
	l.settleAt(l.now, r.inst.node)
}

func (l *Ledger) stalledIn(r *request, pl *pool) {
	for i := range pl.pages {
		if p := &pl.pages[i]; p.owner == r.party && p.flags&ownerRef != 0 {
			l.accuse(finding.StalledReservation, r.inst, r, nil, pl).on(l, uint32(i), p.content).
				say("reserved", fmt.Sprintf("no progress for %v", l.cfg.Stall))
		}
	}
}
