package oracle

// judgeDue judges, the earliest first, everything whose time has passed at x
// (R1): reads that waited, handoffs that settled, reservations that rested.
func (o *oracle) judgeDue(x int64, f *entry) {
	for {
		at, what := x, func() {}
		found := false
		earlier := func(due int64, act func()) {
			if due <= x && (!found || due < at) {
				at, what, found = due, act, true
			}
		}
		for _, w := range o.waiting {
			earlier(w.due, func() { o.decideRead(w) })
		}
		for _, r := range o.roomOrder {
			for _, h := range r.handoffs {
				if due, any := o.settledAt(h); any && h.isReceiver() {
					earlier(due, func() { o.judgeAtEnd(h) })
				}
			}
		}
		for _, i := range o.instOrder {
			for _, r := range i.requests {
				if due := plus(r.named, o.cfg.Stall); due <= x && r.stalls() {
					earlier(due, func() { o.stalledReservation(r, f.Fact) })
				}
			}
		}
		if !found {
			return
		}
		what()
	}
}
