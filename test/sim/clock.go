package sim

import "iter"

// proc is one thread of life in the cluster: a request, a restart, an audit.
// It runs alone until it sleeps, so no state needs a lock.
type proc struct {
	s     *Sim
	r     *request // whose life it is; nil: nobody's
	yield func(int64) bool
	next  func() (int64, bool)
	stop  func()
}

// spawn starts body at the given time (ns).
func (s *Sim) spawn(at int64, body func(*proc)) {
	p := &proc{s: s, r: s.acting}
	p.next, p.stop = iter.Pull(func(yield func(int64) bool) {
		p.yield = yield
		body(p)
	})
	s.wakes.push(at, p)
}

// sleep lets d ns pass. Once the simulation has been given up it returns at
// once and whatever the process then says is dropped.
func (p *proc) sleep(d int64) {
	if !p.yield(p.s.now + max(d, 1)) {
		p.s.givenUp = true
	}
}

// turn wakes the process whose time has come; false when none is left.
func (s *Sim) turn() bool {
	p, at, ok := s.wakes.pop()
	if !ok {
		return false
	}
	s.now = max(s.now+1, at)
	s.acting = p.r
	if again, more := p.next(); more {
		s.wakes.push(again, p)
	}
	return true
}

// giveUp ends every process that still sleeps.
func (s *Sim) giveUp() {
	for {
		p, _, ok := s.wakes.pop()
		if !ok {
			return
		}
		p.stop()
	}
}

// queue is a heap by time; equal times keep the order of their arrival.
type queue[T any] struct {
	items []queued[T]
	count uint64
}

type queued[T any] struct {
	at    int64
	order uint64
	v     T
}

func (a *queued[T]) before(b *queued[T]) bool {
	return a.at < b.at || a.at == b.at && a.order < b.order
}

func (q *queue[T]) push(at int64, v T) {
	q.items = append(q.items, queued[T]{at, q.count, v})
	q.count++
	for i := len(q.items) - 1; i > 0; {
		up := (i - 1) / 2
		if !q.items[i].before(&q.items[up]) {
			return
		}
		q.items[i], q.items[up] = q.items[up], q.items[i]
		i = up
	}
}

func (q *queue[T]) first() (at int64, ok bool) {
	if len(q.items) == 0 {
		return 0, false
	}
	return q.items[0].at, true
}

func (q *queue[T]) pop() (v T, at int64, ok bool) {
	n := len(q.items)
	if n == 0 {
		return v, 0, false
	}
	top := q.items[0]
	q.items[0] = q.items[n-1]
	q.items[n-1] = queued[T]{}
	q.items = q.items[:n-1]
	q.sink()
	return top.v, top.at, true
}

func (q *queue[T]) sink() {
	for i := 0; ; {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(q.items); c++ {
			if q.items[c].before(&q.items[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		q.items[i], q.items[least] = q.items[least], q.items[i]
		i = least
	}
}
