package scheduler

import (
	"slices"
	"time"

	"github.com/kvwitness/kvwitness/engine/kvcache"
)

// limitOf is how long a request may stay in a queue without progress; 0: for ever.
func (s *Scheduler) limitOf(r *request) time.Duration {
	switch r.state {
	case stBootstrap:
		return s.cfg.BootstrapTimeout
	case stPrealloc:
		return s.cfg.QueueTimeout
	case stWaiting:
		if !r.admitted {
			return s.cfg.QueueTimeout
		}
	case stTransfer, stDigest, stInflight, stLate:
		return s.cfg.TransferTimeout
	}
	return 0
}

// expire ends what has waited too long.
func (s *Scheduler) expire() {
	for _, r := range slices.Clone(s.live) {
		if r.state == stTransfer && r.fault == EarlyRelease && s.now-r.handoffAt >= int64(s.cfg.DrillDelay) {
			r.cut = true
			s.retire(r, failed(504, ErrTimeout, "drill %s", r.fault))
			continue
		}
		if limit := s.limitOf(r); limit > 0 && s.now-r.since >= int64(limit) {
			s.retire(r, failed(504, ErrTimeout, "request %d spent %v in queue %s", r.info.Req, limit, r.state))
		}
	}
	s.expireEarly()
	s.fence(s.kv.Expire())
	if s.aux != nil {
		s.fence(s.aux.Expire())
	}
}

func (s *Scheduler) expireEarly() {
	if s.cfg.BootstrapTimeout <= 0 {
		return
	}
	s.early = slices.DeleteFunc(s.early, func(e earlyTargets) bool {
		over := s.now-e.since >= int64(s.cfg.BootstrapTimeout)
		if over {
			s.tellEnded(e.Room, e.Peer, failed(504, ErrTimeout, "room %d: its request did not come", e.Room))
		}
		return over
	})
}

// fence asks to cut off the peers of transfers that do not drain.
func (s *Scheduler) fence(overdue []kvcache.Xfer) {
	for _, x := range overdue {
		if o := s.open[x]; o != nil && !o.fenced {
			o.fenced = true
			s.stats.Fenced++
			s.do(FencePeer{Peer: o.peer, Xfer: x})
		}
	}
}

// NextDeadline is when a Tick will have something to do, if nothing happens until
// then; false: never.
func (s *Scheduler) NextDeadline() (at int64, ok bool) {
	note := func(t int64, limit time.Duration) {
		if limit > 0 && (!ok || t+int64(limit) < at) {
			at, ok = t+int64(limit), true
		}
	}
	for _, r := range s.live {
		note(r.since, s.limitOf(r))
		if r.state == stLate {
			note(r.since, s.cfg.DrillDelay)
		}
		if r.state == stTransfer && r.fault == EarlyRelease {
			note(r.handoffAt, max(s.cfg.DrillDelay, 1))
		}
	}
	for _, e := range s.early {
		note(e.since, s.cfg.BootstrapTimeout)
	}
	if s.kv.Audit().PendingDrain > 0 {
		note(s.now, s.kv.Config().DrainTimeout)
	}
	return at, ok
}
