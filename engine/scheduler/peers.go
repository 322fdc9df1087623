package scheduler

import (
	"fmt"
	"slices"

	"github.com/kvwitness/kvwitness/engine/kvcache"
)

// peerState is what is known of a peer; err says why it is not worked with.
type peerState struct {
	PeerUp
	err error
}

// peerUp takes a peer in, or refuses it.
func (s *Scheduler) peerUp(e PeerUp) {
	if _, known := s.peers[e.Peer]; !known && len(s.peers) >= MaxPeers {
		s.do(RefusePeer{Peer: e.Peer, Err: fmt.Errorf("taking in peer %q: %d are up, the limit", e.Peer, MaxPeers)})
		return
	}
	err := s.unequal(e)
	s.peers[e.Peer] = peerState{PeerUp: e, err: err}
	if err != nil {
		s.do(RefusePeer{Peer: e.Peer, Err: err})
	}
}

// unequal is why a peer cannot be worked with; nil if it can.
func (s *Scheduler) unequal(e PeerUp) error {
	if s.cfg.Protections[LayoutCheck] {
		s.ran(LayoutCheck)
		if e.Layout != s.cfg.Layout {
			s.stopped(LayoutCheck)
			return fmt.Errorf("taking in peer %q with layout %+v, ours is %+v: %w", e.Peer, e.Layout, s.cfg.Layout, ErrLayout)
		}
	}
	if !s.cfg.Protections[PoolGate] || e.Capacity <= 0 {
		return nil
	}
	s.ran(PoolGate)
	if e.Capacity >= s.limit {
		return nil
	}
	s.stopped(PoolGate)
	if !s.cfg.LowerContext {
		return fmt.Errorf("taking in peer %q, context of %d tokens, its pool %d: %w", e.Peer, s.limit, e.Capacity, ErrContextExceedsPool)
	}
	s.limit = e.Capacity
	return nil
}

// refusedPeer is why one of the peers is not worked with.
func (s *Scheduler) refusedPeer(peers []Peer) error {
	for _, p := range peers {
		if err := s.peers[p].err; err != nil {
			return err
		}
	}
	return nil
}

// peerGone ends everything that waits for a peer: nothing of it is under way any
// more.
func (s *Scheduler) peerGone(p Peer) {
	s.cfg.Events.PeerGone(s.at(), p)
	delete(s.peers, p)
	for _, x := range s.openWith(p) {
		s.open[x].sayDrained = false
		s.drain(x)
	}
	s.early = slices.DeleteFunc(s.early, func(e earlyTargets) bool { return e.Peer == p })
	for _, r := range slices.Clone(s.live) {
		l := r.link(p)
		if l == nil || r.finished != nil {
			continue
		}
		l.xfer = 0
		if !l.done {
			l.told = true
			s.retire(r, failed(502, ErrPeer, "%s is gone", p))
		}
	}
}

func (s *Scheduler) openWith(p Peer) []kvcache.Xfer {
	var out []kvcache.Xfer
	for x, o := range s.open {
		if o.peer == p {
			out = append(out, x)
		}
	}
	slices.Sort(out)
	return out
}

// drain takes x off the books of the pools, and passes the word on if the peer
// waits for it.
func (s *Scheduler) drain(x kvcache.Xfer) {
	o := s.open[x]
	if o == nil {
		return
	}
	delete(s.open, x)
	s.kv.Drained(x)
	s.aux.Drained(x)
	s.cfg.Events.TransferDrained(s.at(), o.room, x, o.side, o.peer)
	if o.sayDrained {
		s.do(TellDrained{Room: o.room, Peer: o.peer})
	}
}
