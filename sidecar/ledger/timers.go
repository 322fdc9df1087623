package ledger

// timer is something due at an applied time: exactly one of its targets is set.
type timer struct {
	at      int64
	n       uint64 // order among equals
	handoff *handoff
	inst    *instance // its reads that wait for a step
	room    *room     // its verdict
}

func (t *timer) before(o *timer) bool { return t.at < o.at || t.at == o.at && t.n < o.n }

// timers is a heap by time; each handoff, read and room has at most
// one, so their limits bound it. (container/heap would allocate for each.)
type timers struct {
	all  []timer
	next uint64
	wake int64 // nothing is due before, neither a timer nor a stall
}

func (ts *timers) add(t timer) {
	ts.next++
	t.n = ts.next
	ts.wake = min(ts.wake, t.at)
	ts.all = append(ts.all, t)
	for i := len(ts.all) - 1; i > 0; {
		up := (i - 1) / 2
		if ts.all[up].before(&ts.all[i]) {
			break
		}
		ts.all[up], ts.all[i] = ts.all[i], ts.all[up]
		i = up
	}
}

// due takes the earliest timer, if it is due.
func (ts *timers) due(now int64) (timer, bool) {
	if len(ts.all) == 0 || ts.all[0].at > now {
		return timer{}, false
	}
	t, n := ts.all[0], len(ts.all)-1
	ts.all[0], ts.all[n] = ts.all[n], timer{}
	ts.all = ts.all[:n]
	for i := 0; ; {
		least := i
		for down := 2*i + 1; down <= 2*i+2 && down < n; down++ {
			if ts.all[down].before(&ts.all[least]) {
				least = down
			}
		}
		if least == i {
			return t, true
		}
		ts.all[i], ts.all[least] = ts.all[least], ts.all[i]
		i = least
	}
}

// fire calls what is due at that time or before, in order.
func (l *Ledger) fire(now int64) {
	if now < l.timers.wake {
		return
	}
	l.stalled(now)
	for t, due := l.timers.due(now); due; t, due = l.timers.due(now) {
		l.now = max(l.now, t.at)
		switch {
		case t.handoff != nil:
			l.settled(t.handoff)
		case t.inst != nil:
			l.mature(t.inst, -1)
		case t.room != nil:
			l.sayVerdicts(t.room)
		}
	}
	l.timers.wake = l.stallsAt()
	if len(l.timers.all) > 0 {
		l.timers.wake = min(l.timers.wake, l.timers.all[0].at)
	}
}
