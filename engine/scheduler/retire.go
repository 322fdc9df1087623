package scheduler

import "github.com/kvwitness/kvwitness/engine/kvcache"

// abort ends a request from outside.
func (s *Scheduler) abort(req kvcache.Req, reason string) {
	r := s.reqs[req]
	if r == nil || r.state == stLate {
		s.stats.Late++
		return
	}
	s.end(r, aborted(reason))
}

// disconnect ends a request whose client has left, unless that would tear a
// transfer: then the transfer runs to its end, and the request ends after it.
func (s *Scheduler) disconnect(req kvcache.Req) {
	r := s.reqs[req]
	switch {
	case r == nil || r.state == stLate:
		s.stats.Late++
	case s.cfg.Role == Prefill && s.hasSent(r):
	case r.state == stTransfer || r.state == stDigest:
		if r.toFinish == nil {
			r.toFinish = aborted("the client left")
		}
	default:
		s.end(r, aborted("the client left"))
	}
}

func (s *Scheduler) hasSent(r *request) bool {
	for _, l := range r.links {
		if l.target != nil && (l.done || l.sent > l.target.PrefixTokens) {
			return true
		}
	}
	return false
}

// end retires r, at once or, while a launched step may touch its pages, after it.
func (s *Scheduler) end(r *request, o *Outcome) {
	if r.inForward {
		s.sayAborted(r, o)
	}
	s.retire(r, o)
}

// retire is the one way out for a request that has entered a queue: it tells the
// peers, gives everything back, and answers.
func (s *Scheduler) retire(r *request, o *Outcome) {
	if r.finished != nil {
		return
	}
	if r.inForward {
		r.toFinish = o
		return
	}
	r.finished = o
	if o.Finish == FinishAbort || o.Finish == FinishError {
		s.sayAborted(r, o)
	}
	for _, l := range r.links {
		s.tellFailed(r, l, o)
	}
	s.cfg.Events.Finished(s.at(), r.info, *o)
	if o.Status == 200 {
		s.keep(r)
	}
	s.giveBack(r)
	s.remove(r)
	s.stats.Answered++
	s.do(Answer{Req: r.info.Req, Outcome: *o})
}

func (s *Scheduler) sayAborted(r *request, o *Outcome) {
	if r.endSaid {
		return
	}
	r.endSaid = true
	if !r.admitted {
		s.cfg.Events.Rejected(s.at(), r.info, o.Status, o.Err.Error())
		return
	}
	s.cfg.Events.Aborted(s.at(), r.info, o.Err.Error())
}

// tellFailed tells a peer that its room has ended badly, once. Prefill adds that
// nothing more comes, when that is true.
func (s *Scheduler) tellFailed(r *request, l *link, o *Outcome) {
	if l.told || r.cut {
		return
	}
	l.told = true
	if s.cfg.Role == Decode {
		s.do(TellAbort{Room: r.info.Room, Peer: l.peer, Reason: o.Err.Error()})
		return
	}
	s.do(TellStatus{Room: r.info.Room, Peer: l.peer, Status: o.Status, Reason: o.Err.Error()})
	if x := s.open[l.xfer]; x != nil {
		x.sayDrained = true
		return
	}
	s.do(TellDrained{Room: r.info.Room, Peer: l.peer})
}

// keep offers r's pages to the prefix cache. What a drill has spoiled stays out,
// unless the drill is about the cache.
func (s *Scheduler) keep(r *request) {
	if s.cache == nil || r.kv == nil {
		return
	}
	switch r.fault {
	case NoDrill, SaltDrop, UnwrittenCache:
		s.ran(WrittenFirst)
		s.cache.Insert(r.kv, r.keyDomain(), r.tokens[:r.computed])
	}
}

// giveBack ends r's references. Pages under a transfer wait for it.
func (s *Scheduler) giveBack(r *request) {
	if r.kv == nil {
		return
	}
	before := s.kv.Audit().PendingDrain
	s.must(s.kv.Release(r.kv))
	if r.aux != nil {
		s.must(s.aux.Release(r.aux))
	}
	if r.prot[DrainBeforeRelease] {
		s.ran(DrainBeforeRelease)
		if s.kv.Audit().PendingDrain > before {
			s.stopped(DrainBeforeRelease)
		}
	}
	if r.prot[SingleRelease] {
		s.ran(SingleRelease)
	}
	if r.fault == DoubleRelease && s.kv.Release(r.kv) != nil {
		s.stopped(SingleRelease)
	}
	r.kv, r.aux = nil, nil
}
