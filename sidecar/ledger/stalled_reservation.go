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
	l.accuse(finding.StalledReservation, r.inst, r, nil, nil).
		say(fmt.Sprintf("%d pages reserved", r.owned), fmt.Sprintf("no progress for %v", l.cfg.Stall))
	l.settleAt(l.now, r.inst.node)
}
