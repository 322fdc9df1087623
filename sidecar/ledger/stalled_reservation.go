package ledger

import (
	"fmt"
	"math"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// progress notes that a fact named a request. Those that hold pages which they
// reserved stand in a list, the one without progress for longest first.
func (l *Ledger) progress(r *request) {
	r.lastT = l.now
	l.unlist(r)
	if r.owned == 0 || r.stalled || r.wire || r.gone {
		return
	}
	r.holding = true
	if r.idler = l.busiest; r.idler != nil {
		r.idler.busier = r
	} else {
		l.idlest = r
		l.timers.wake = min(l.timers.wake, l.stallsAt())
	}
	l.busiest = r
}

func (l *Ledger) unlist(r *request) {
	if !r.holding {
		return
	}
	r.holding = false
	if r.idler != nil {
		r.idler.busier = r.busier
	} else {
		l.idlest = r.busier
	}
	if r.busier != nil {
		r.busier.idler = r.idler
	} else {
		l.busiest = r.idler
	}
	r.idler, r.busier = nil, nil
}

// stalled says which requests made no progress for the limit, each once.
func (l *Ledger) stalled(now int64) {
	for at := l.stallsAt(); l.idlest != nil && at <= now; at = l.stallsAt() {
		r := l.idlest
		l.unlist(r)
		if r.owned > 0 {
			l.now = max(l.now, at)
			l.stalledReservation(r)
		}
	}
}

// stallsAt is when the request without progress for longest has stalled.
func (l *Ledger) stallsAt() int64 {
	if l.idlest == nil {
		return math.MaxInt64
	}
	return l.idlest.lastT + l.cfg.Stall.Nanoseconds()
}

// stalledReservation: pages reserved with no progress for longer than the
// limit.
func (l *Ledger) stalledReservation(r *request) {
	r.stalled = true
	for _, pl := range r.inst.pools {
		if pl != nil && pl.promises(lifecycle.PagesReleased) {
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
