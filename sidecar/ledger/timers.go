package ledger

import "container/heap"

// timer is something due at an applied time: exactly one of its targets is set.
type timer struct {
	at      int64
	n       uint64 // order among equals
	handoff *handoff
	inst    *instance // its reads that wait for a step
	req     *request  // stalled_reservation
	room    *room     // its verdict
}

// timers is a heap; each handoff, read, request and room has at most one, so
// their limits bound it.
type timers struct {
	all  timerHeap
	next uint64
}

func (ts *timers) add(t timer) {
	ts.next++
	t.n = ts.next
	heap.Push(&ts.all, t)
}

// fire calls what is due at that time or before, in order.
func (l *Ledger) fire(now int64) {
	for len(l.timers.all) > 0 && l.timers.all[0].at <= now {
		t := heap.Pop(&l.timers.all).(timer)
		l.now = max(l.now, t.at)
		switch {
		case t.handoff != nil:
			l.settled(t.handoff)
		case t.inst != nil:
			l.mature(t.inst, -1)
		case t.req != nil:
			l.stalledReservation(t.req)
		case t.room != nil:
			l.sayVerdicts(t.room)
		}
	}
}

type timerHeap []timer

func (h timerHeap) Len() int { return len(h) }

func (h timerHeap) Less(a, b int) bool {
	return h[a].at < h[b].at || h[a].at == h[b].at && h[a].n < h[b].n
}
func (h timerHeap) Swap(a, b int) { h[a], h[b] = h[b], h[a] }
func (h *timerHeap) Push(x any)   { *h = append(*h, x.(timer)) }

func (h *timerHeap) Pop() any {
	old := *h
	n := len(old) - 1
	t := old[n]
	old[n] = timer{}
	*h = old[:n]
	return t
}
