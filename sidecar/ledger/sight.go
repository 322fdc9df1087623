package ledger

import (
	"fmt"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// sight is what observing sources declared about an instance's incoming data:
// since which tick they see all of it, per source, for all peers or for single
// ones. The ledger believes it (hard case 2); a loss withdraws it.
type sight struct {
	all   [lifecycle.NumSrc]uint64            // 0: not declared
	peers [lifecycle.NumSrc]map[string]uint64 // goes before all; 0: not for this peer
}

// complete reports whether some source has seen all data from peer since
// before that tick.
func (s *sight) complete(peer string, before uint64) bool {
	for src := lifecycle.RDMA; src <= lifecycle.CUDA; src++ {
		since, own := s.peers[src][peer]
		if !own {
			since = s.all[src]
		}
		if since != 0 && since < before {
			return true
		}
	}
	return false
}

// declare notes complete sight from this tick on, unless it was there already.
func (s *sight) declare(src lifecycle.Src, peer string, tick uint64, limit int) bool {
	if peer == "" {
		if s.all[src] == 0 {
			s.all[src] = tick
		}
		for p, since := range s.peers[src] {
			if since == 0 {
				s.peers[src][p] = tick
			}
		}
		return true
	}
	if s.peers[src] == nil {
		s.peers[src] = map[string]uint64{}
	}
	since, own := s.peers[src][peer]
	if own && since != 0 || !own && s.all[src] != 0 {
		return true
	}
	if !own && len(s.peers[src]) >= limit {
		return false
	}
	s.peers[src][peer] = tick
	return true
}

// withdraw ends the sight of a source, of one peer or of all.
func (s *sight) withdraw(src lifecycle.Src, peer string, limit int) {
	if peer == "" || s.peers[src][peer] == 0 && len(s.peers[src]) >= limit {
		s.all[src], s.peers[src] = 0, nil
		return
	}
	if s.peers[src] == nil {
		s.peers[src] = map[string]uint64{}
	}
	s.peers[src][peer] = 0
}

// sourceCoverage takes over what a source says of its sight.
func (l *Ledger) sourceCoverage(c *call) {
	f := c.f
	if !f.Of.Observes() || c.inst == nil {
		return
	}
	if f.Complete {
		if !c.inst.sight.declare(f.Of, f.Peer, l.tick, l.cfg.Limits.Peers) {
			l.stats.Forgotten.Peers++
		}
		return
	}
	l.loseSight(c.inst, f.Of, f.Peer, func(open bool) {
		if open {
			l.blind(c.inst, fmt.Sprintf("%s declared its sight complete", f.Of), firstOf(f.Reason, "its sight ended while a handoff was open"))
		}
	})
}

// loseSight withdraws coverage, and tells whether a handoff that was covered
// is not any more.
func (l *Ledger) loseSight(inst *instance, of lifecycle.Src, peer string, told func(open bool)) {
	var covered []*handoff
	for h := range inst.waiting {
		if h.covered() {
			covered = append(covered, h)
		}
	}
	for t := range inst.running {
		if t.recv == inst && l.drainedAsSeen(t) {
			l.drain(t) // that was seen
		}
	}
	inst.sight.withdraw(of, peer, l.cfg.Limits.Peers)
	open := false
	for _, h := range covered {
		if !h.covered() {
			open = true
			l.unwatch(h)
			unsee(h.room, inst, fmt.Sprintf("the sight of %s of data into %s ended before the handoff was judged", of, inst.name))
		}
	}
	told(open)
}

// watch marks the pages that a transfer names: whether all that arrives there
// is seen.
func (l *Ledger) watch(h *handoff) {
	if h.covered() {
		h.eachTarget(func(pl *pool, at uint32, tick uint64) {
			if p := &pl.pages[at]; p.born <= tick && pl.shows() && !pl.unseen(p) && (h.req == nil || p.owner == h.req.party) {
				p.flags |= watched
			}
		})
		return
	}
	l.unwatch(h)
}

func (l *Ledger) unwatch(h *handoff) {
	h.eachTarget(func(pl *pool, at uint32, tick uint64) {
		if p := &pl.pages[at]; p.born <= tick {
			p.flags &^= watched
		}
	})
}

// lost is a stream_gap or events_lost, about one instance or all of a node.
func (l *Ledger) lost(c *call) {
	f := c.f
	what := fmt.Sprintf("%d events of %s were lost", f.Count, f.Of)
	if f.Stage != "" || f.Reason != "" {
		what += fmt.Sprintf(" (%s %s)", f.Stage, f.Reason)
	}
	if f.Ev == lifecycle.StreamGap {
		what = fmt.Sprintf("events %d to %d of %s are missing", f.GapFrom, f.GapTo, f.Of)
		if c.inst != nil && !c.inst.newGap(f, l.cfg.Limits.Missing) {
			return
		}
	}
	l.blind(c.inst, "the stream of "+f.Of.String(), what)
	if c.inst != nil {
		l.loseFrom(c.inst, f.Of, what)
		return
	}
	for _, inst := range l.insts {
		if inst.node == f.Node {
			l.loseFrom(inst, f.Of, what)
		}
	}
}

// newGap notes a gap that was told, and reports whether it was not said yet.
func (i *instance) newGap(f *lifecycle.Fact, limit int) bool {
	s := i.stream(&lifecycle.Fact{Src: f.Of, Epoch: f.Epoch})
	if s.known.holds(f.GapFrom, f.GapTo) {
		return false
	}
	s.known.add(f.GapFrom, f.GapTo, limit)
	return true
}

// numbersMissing is a gap that the sequence numbers show.
func (l *Ledger) numbersMissing(inst *instance, f *lifecycle.Fact, from, to uint64) {
	l.tick++
	what := fmt.Sprintf("events %d to %d of %s are missing", from, to, f.Src)
	l.stats.Missing += to - from + 1
	l.loseFrom(inst, f.Src, what)
	l.blind(inst, "the stream of "+f.Src.String(), what)
	l.settle(f)
}

// loseFrom withdraws what depends on a source that lost something: sight for
// one that observes, what is known of pages for one that tells of them (hard
// case 10).
func (l *Ledger) loseFrom(inst *instance, of lifecycle.Src, what string) {
	if of != lifecycle.HTTP && of != lifecycle.Log && of != lifecycle.NVML {
		inst.mutePending()
	}
	switch {
	case of == lifecycle.RDMA || of == lifecycle.TCP || of == lifecycle.CUDA:
		l.loseSight(inst, of, "", func(bool) {})
		for h := range inst.waiting {
			unsee(h.room, inst, what)
		}
	case of == lifecycle.Engine, of == lifecycle.Wire:
		inst.outOfSight(l.tick)
		if of == lifecycle.Engine || !inst.engine {
			for _, pl := range inst.pools {
				if pl != nil {
					pl.knownFrom = l.tick + 1
				}
			}
		}
		for _, r := range inst.reqs {
			r.room.forgive(inst) // it may have been admitted again
			r.aborted = false
			if r.going() {
				unsee(r.room, inst, what)
			}
		}
		for h := range inst.waiting {
			unsee(h.room, inst, what)
		}
		for t := range inst.running {
			if !t.into.judged {
				unsee(t.room, t.recv, what)
			}
		}
	}
}
