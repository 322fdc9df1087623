//go:build linux && amd64

package main

import (
	"fmt"
	"time"

	"github.com/kvwitness/kvwitness/sidecar/probe"
	source "github.com/kvwitness/kvwitness/sidecar/source/verbs"
)

// abuse counts the hits of one place that was named as post_send.
type abuse struct{ good, bad int }

// Hits without a request that make a place no post_send, and places remembered.
const (
	maxBad   = 100
	maxSites = 4096
)

// way is what a process named as its provider's functions.
type way struct {
	pid       uint32
	context   uint64
	postSend  uint64
	pollCQ    uint64
	functions [15]uint64
}

// maxWays bounds the answers that are remembered.
const maxWays = 1 << 14

// rdma is the loop's side of verbs.
type rdma struct {
	asked chan<- asked
	ways  map[way]answered
	sites map[uint64]*abuse
	// hinted is when it was last said of a process that it speaks of handoffs.
	hinted map[int]time.Time
	// callers is, for each process, from where UCX asked for ways around post_send.
	callers map[uint32]map[uint64]bool
}

// record takes note of a record of the verbs probe, which was handed on.
func (l *loop) verbsRecord(b []byte) {
	head, err := source.Peek(b)
	if err != nil {
		return // the reader says so
	}
	switch head.Kind {
	case source.KindPosted:
		l.judge(head)
		return
	case source.KindContext, source.KindQP, source.KindExtended:
	default:
		return
	}
	record, err := source.Decode(b)
	if err != nil {
		return
	}
	switch r := record.(type) {
	case source.Context:
		l.reach(asked{what: attachContext, context: r, t: r.Time, pid: int(r.PID)}, true)
	case source.QP:
		l.reach(asked{what: attachContext, context: r.Context, t: r.Time, pid: int(r.PID)}, false)
	case source.Extended:
		l.reach(asked{what: attachExtended, extended: r, t: r.Time, pid: int(r.PID)}, true)
	}
}

func (q *asked) way() way {
	if q.what == attachExtended {
		return way{pid: q.extended.PID, context: q.extended.Context, functions: q.extended.Functions}
	}
	return way{pid: q.context.PID, context: q.context.Context, postSend: q.context.PostSend, pollCQ: q.context.PollCQ}
}

// reach asks for a way to be attached to, or answers at once where it is. again:
// the sidecar waits for an answer, also if it had one.
func (l *loop) reach(q asked, again bool) {
	if r, known := l.rdma.ways[q.way()]; known {
		if again && r.what != watchProcess {
			r.asked = q
			l.attached(r)
		}
		return
	}
	if len(l.rdma.ways) >= maxWays {
		clear(l.rdma.ways)
	}
	if l.ask(q) {
		l.rdma.ways[q.way()] = answered{asked: asked{what: watchProcess}} // it is asked for
	}
}

// ask hands a task to the attacher, and reports whether it has room. One that it has
// none for is answered.
func (l *loop) ask(q asked) bool {
	select {
	case l.rdma.asked <- q:
		return true
	default:
		if !q.silent() {
			l.attached(answered{asked: q, err: fmt.Errorf("more is to be attached to than %d at once", maxAsked)})
		}
		return false
	}
}

// silent reports whether nobody waits for an answer.
func (q *asked) silent() bool {
	return q.what == forgetProcess || q.what == hintProcess || q.what == hintUCX
}

// answers takes what the attacher has done.
func (l *loop) answers() {
	for {
		select {
		case r := <-l.attacher.told:
			if r.what == attachContext || r.what == attachExtended {
				l.rdma.ways[r.way()] = r
			}
			l.attached(r)
		default:
			return
		}
	}
}

// attached tells the sidecar what came of a task.
func (l *loop) attached(r answered) {
	a := probe.Attached{T: max(r.t, r.since, l.told), PID: uint32(r.pid), Seen: r.err == nil}
	a.Ends = a.Seen && l.verbs.Completes()
	kind := probe.Sight
	switch r.what {
	case watchDriver:
		kind, a.Ends = probe.CUDASight, false
	case attachContext:
		a.Context = r.context.Context
	case attachExtended:
		a.Context = r.extended.Context
	case watchUCX:
		a.UCX, a.Ends = true, a.Seen && l.ucx.Completes()
	case watchProcess, refuseSite:
	case forgetProcess, hintProcess, hintUCX:
		return
	}
	if r.err != nil {
		a.Reason = r.err.Error()
	}
	l.payload = a.Append(l.payload[:0])
	l.write(kind, l.payload)
}

// judge tells hits of post_send from those of a function that a process named as
// it and that is none: others would pay for its hits too.
func (l *loop) judge(h source.Glance) {
	s := l.rdma.sites[h.Site]
	if s == nil {
		if len(l.rdma.sites) >= maxSites {
			clear(l.rdma.sites)
		}
		s = &abuse{}
		l.rdma.sites[h.Site] = s
	}
	if h.Requests > 0 {
		s.good++
		return
	}
	if s.bad++; s.bad == maxBad && s.good < s.bad {
		l.ask(asked{what: refuseSite, pid: int(h.PID), t: h.Time, site: h.Site})
	}
}

// hint has a process looked at that speaks of handoffs: verbs may follow.
func (l *loop) hint(pid int, now time.Time) {
	if now.Sub(l.rdma.hinted[pid]) >= hintPause {
		l.rdma.hinted[pid] = now
		l.ask(asked{what: hintProcess, pid: pid})
	}
}

// forgetWays drops what is known of a process.
func (l *loop) forgetWays(pid int) {
	delete(l.rdma.hinted, pid)
	delete(l.rdma.callers, uint32(pid))
	for w := range l.rdma.ways {
		if w.pid == uint32(pid) {
			delete(l.rdma.ways, w)
		}
	}
	l.ask(asked{what: forgetProcess, pid: pid})
}
