package ucp

import (
	"cmp"
	"slices"
)

// Bounds of what waits to be over.
const (
	MaxOutstanding = 1 << 12 // of an endpoint
	MaxRequests    = 1 << 14 // of a process
)

// Extent is bytes that one call moved, contiguous on both sides.
type Extent struct {
	Remote, Local, Bytes uint64
	Op                   Op
}

// outstanding is an extent that is not known to be over.
type outstanding struct {
	Extent
	n uint64 // of its endpoint's moves
}

// pending is a request that is under way: of one move, or a flush of all that these
// endpoints had been handed.
type pending struct {
	of   *Endpoint
	n    uint64
	upto map[*Endpoint]uint64
}

// Ends is told of each extent that is over: ok, or failed.
type Ends func(e *Endpoint, x Extent, ok bool)

// Move takes in a call, of an endpoint that is known. It is remembered until it is
// over.
func (ps *Paths) Move(e *Endpoint, m *Moved) {
	e.moves++
	request := m.Returned.Request()
	if m.Returned.Failed() || m.Op == Get && request == 0 {
		return // it is over
	}
	if len(e.waiting) >= MaxOutstanding {
		ps.forgotten++
		e.waiting = nil // they stay posted
	}
	e.waiting = append(e.waiting, outstanding{Extent{m.Remote, m.Local, m.Bytes, m.Op}, e.moves})
	if p := ps.processes[e.Process]; request != 0 && p.ends {
		ps.await(p, request, pending{of: e, n: e.moves})
	}
}

func (ps *Paths) await(p *process, request uint64, what pending) {
	if len(p.requests) >= MaxRequests {
		ps.forgotten += uint64(len(p.requests))
		clear(p.requests) // what they are of stays posted
	}
	p.requests[request] = what
}

// Flush takes in a flush. What was moved before it began is over when it has ended.
func (ps *Paths) Flush(f *Flushed, ended Ends) {
	p := ps.processes[f.PID]
	if p == nil || f.Returned.Failed() {
		return
	}
	upto := p.handed(f)
	switch {
	case f.Returned.AtOnce():
		over(upto, ended)
	case p.ends:
		ps.await(p, f.Returned.Request(), pending{upto: upto})
	default:
		for e := range upto {
			e.waiting = nil // nobody will know
		}
	}
}

// handed is what the endpoints of a flush have been handed so far.
func (p *process) handed(f *Flushed) map[*Endpoint]uint64 {
	upto := map[*Endpoint]uint64{}
	if !f.OfWorker {
		if e := p.endpoints[f.What]; e != nil {
			upto[e] = e.moves
		}
		return upto
	}
	for _, e := range p.endpoints {
		if e.Worker == f.What {
			upto[e] = e.moves
		}
	}
	return upto
}

// Done takes in that a request is over.
func (ps *Paths) Done(d *Done, ended Ends) {
	p := ps.processes[d.PID]
	if p == nil {
		return
	}
	what, known := p.requests[d.Request]
	delete(p.requests, d.Request)
	switch {
	case !known:
	case what.of != nil:
		what.of.end(what.n, !d.Failed, ended)
	case !d.Failed:
		over(what.upto, ended)
	}
}

// over ends all that endpoints had been handed, in a fixed order.
func over(upto map[*Endpoint]uint64, ended Ends) {
	all := make([]*Endpoint, 0, len(upto))
	for e := range upto {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *Endpoint) int { return cmp.Compare(a.Endpoint, b.Endpoint) })
	for _, e := range all {
		for len(e.waiting) > 0 && e.waiting[0].n <= upto[e] {
			x := e.waiting[0].Extent
			e.waiting = e.waiting[1:]
			ended(e, x, true)
		}
	}
}

// end ends one move. A put that is done has left its buffer, and may be on its way.
func (e *Endpoint) end(n uint64, ok bool, ended Ends) {
	i, found := slices.BinarySearchFunc(e.waiting, n, func(o outstanding, n uint64) int { return cmp.Compare(o.n, n) })
	if !found || ok && e.waiting[i].Op == Put {
		return
	}
	x := e.waiting[i].Extent
	e.waiting = slices.Delete(e.waiting, i, i+1)
	ended(e, x, ok)
}
