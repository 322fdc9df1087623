package scheduler

import (
	"fmt"

	"github.com/kvwitness/kvwitness/engine/kvcache"
)

// verify panics when the scheduler's books contradict themselves.
func (s *Scheduler) verify() {
	if !s.cfg.Verify {
		return
	}
	if err := s.Check(); err != nil {
		panic(err)
	}
}

// Check looks for the first invariant that is broken.
func (s *Scheduler) Check() error {
	for _, rule := range []func() string{s.checkQueues, s.checkHolders, s.checkForward, s.checkTransfers} {
		if broken := rule(); broken != "" {
			return &kvcache.InvariantError{Pool: s.kv.Config().Name, Rule: broken}
		}
	}
	return nil
}

func (s *Scheduler) checkQueues() string {
	var queued [numStates]int
	order := uint64(0)
	for _, r := range s.live {
		queued[r.state]++
		if r.order <= order || s.reqs[r.info.Req] != r || r.info.Room != 0 && s.rooms[r.info.Room] != r {
			return fmt.Sprintf("request %d is out of order or cannot be found", r.info.Req)
		}
		order = r.order
		if r.finished != nil {
			return fmt.Sprintf("request %d is in queue %s although it has been answered", r.info.Req, r.state)
		}
	}
	if queued != s.queued || len(s.reqs) != len(s.live) {
		return fmt.Sprintf("queues of %v, the books say %v", queued, s.queued)
	}
	return ""
}

// holds says what a request in each queue must hold.
var holds = [numStates]struct{ kv, aux bool }{
	stTransfer: {true, true}, stDigest: {true, true}, stInflight: {true, true}, stLate: {true, true}, stRunning: {true, false},
}

func (s *Scheduler) checkHolders() string {
	for _, r := range s.live {
		want := holds[r.state]
		want.aux = want.aux || r.state == stRunning && s.cfg.Role == Prefill
		if (r.kv != nil) != want.kv || (r.aux != nil) != want.aux {
			return fmt.Sprintf("request %d in queue %s holds pages: %v, a slot: %v", r.info.Req, r.state, r.kv != nil, r.aux != nil)
		}
		if r.kv != nil && r.computed > r.kv.Len()*s.kv.Config().PageTokens {
			return fmt.Sprintf("request %d has %d tokens in %d pages", r.info.Req, r.computed, r.kv.Len())
		}
		if r.admitted && r.toFinish != nil && r.prot[AdmissionReject] && r.toFinish.rejected {
			return fmt.Sprintf("request %d was rejected and admitted", r.info.Req)
		}
	}
	return ""
}

func (s *Scheduler) checkForward() string {
	in := map[*request]bool{}
	for _, it := range s.launched {
		in[it.r] = true
	}
	if len(in) != len(s.launched) {
		return "a request is twice in one step"
	}
	for _, r := range s.live {
		if r.inForward != in[r] {
			return fmt.Sprintf("request %d is in the launched step: %v, the books say %v", r.info.Req, in[r], r.inForward)
		}
		delete(in, r)
	}
	if len(in) > 0 {
		return "the launched step computes for a request that has ended"
	}
	return ""
}

func (s *Scheduler) checkTransfers() string {
	for _, r := range s.live {
		for _, l := range r.links {
			if o := s.open[l.xfer]; l.xfer != 0 && (o == nil || o.room != r.info.Room || o.peer != l.peer) {
				return fmt.Sprintf("transfer %d of room %d is not open", l.xfer, r.info.Room)
			}
		}
	}
	if s.kv.Config().OnTimeout == kvcache.KeepPending && len(s.open) != s.kv.OpenTransfers() {
		return fmt.Sprintf("%d transfers are open, the pool says %d", len(s.open), s.kv.OpenTransfers())
	}
	return ""
}
