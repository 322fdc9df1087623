package scheduler

// forwardDone takes the results of the launched step in. Results of another step
// are late and change nothing.
func (s *Scheduler) forwardDone(e ForwardDone) {
	if len(s.launched) == 0 || e.Step != s.step {
		s.stats.Late++
		return
	}
	items := s.launched
	s.launched = nil
	for i, it := range items {
		it.r.inForward = false
		s.kv.FinishCopy(it.r.kv)
		switch {
		case e.Err != nil || len(e.Results) != len(items):
			s.retire(it.r, failed(500, ErrForward, "step %d", e.Step))
		case e.Results[i].Fault != nil:
			s.stopped(PageTags)
			it.r.endSaid = false // which page it was is told of a request too that was rejected and went on
			s.retire(it.r, failed(500, ErrPageTag, "%v", e.Results[i].Fault))
		default:
			s.computed(it, e.Results[i])
		}
	}
}

// computed moves a request on by what one step has done for it.
func (s *Scheduler) computed(it *launched, res Result) {
	r := it.r
	if s.mustEnd(r) {
		if r.prot[DropLateWork] && s.cfg.Role == Prefill {
			s.ran(DropLateWork)
			s.stopped(DropLateWork)
		}
		s.retire(r, r.toFinish)
		return
	}
	s.must(s.kv.CommitWrite(r.kv, it.start, it.start+it.n))
	r.computed, r.since = it.start+it.n, s.now
	if r.left() > 0 {
		return
	}
	if s.cfg.Role == Prefill {
		s.prefilled(r, res.Token)
		return
	}
	if r.withheld {
		r.withheld = false
		if s.tell(r, r.first, r.firstEnds); r.finished != nil {
			return
		}
	}
	r.tokens = append(r.tokens, res.Token)
	s.tell(r, res.Token, res.Stop)
}

// mustEnd is the question of the loop. In a single process it catches in the end
// what the door let through; when the work is split over two, nobody asks it again
// about a rejection.
func (s *Scheduler) mustEnd(r *request) bool {
	if r.toFinish == nil {
		return false
	}
	return !(r.toFinish.rejected && r.fault == RejectedHandoff && s.cfg.Role != Unified)
}

// tell lets the answer's last token go, and ends the answer when it is complete.
func (s *Scheduler) tell(r *request, token int32, stop bool) {
	s.do(Token{Req: r.info.Req, Token: token})
	switch {
	case stop:
		s.retire(r, &Outcome{Status: 200, Finish: FinishStop})
	case r.answered() >= r.maxNew:
		s.retire(r, &Outcome{Status: 200, Finish: FinishLength})
	}
}
