package peer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

const (
	// MaxPace is how many facts a peer may send in a second, and MaxPaceBytes how many
	// bytes; who sends more is read more slowly, and is behind before long.
	MaxPace      = 500_000
	MaxPaceBytes = 128 << 20
	paceSlot     = 50 * time.Millisecond
)

// pace slows reading down to what is allowed.
type pace struct {
	slot         time.Time
	facts, bytes int
}

func (p *pace) keep(bytes int) {
	p.facts++
	p.bytes += bytes
	if p.facts%64 != 1 && p.bytes < MaxPaceBytes/int(time.Second/paceSlot) {
		return // time is looked at now and then only
	}
	now := time.Now()
	since := now.Sub(p.slot)
	if since < paceSlot && (p.facts > MaxPace/int(time.Second/paceSlot) || p.bytes > MaxPaceBytes/int(time.Second/paceSlot)) {
		time.Sleep(paceSlot - since)
		since = paceSlot
	}
	if since >= paceSlot {
		*p = pace{slot: time.Now(), facts: 1}
	}
}

// fact takes one in.
func (s *session) fact(ctx context.Context, raw []byte) (End, error) {
	s.count.received.Add(1)
	end, err := s.takeFact(ctx, raw)
	if err != nil {
		s.count.lost[end].Add(1)
	}
	return end, err
}

func (s *session) takeFact(ctx context.Context, raw []byte) (End, error) {
	f, err := s.dec.Decode(raw)
	if err != nil {
		return Malformed, fmt.Errorf("%w: %w", ErrFrame, err)
	}
	f.Node = s.node
	what, theirs := kindOf(f)
	switch {
	case what == unknown:
		s.count.passed.Add(1)
		return 0, nil
	case what == aboutOwn && s.begun && s.knows(theirs):
		return s.claim(ctx, f)
	case what == aboutUs && s.begun && (theirs == "" || s.knows(theirs)) && s.toldOurs(f.Inst):
		return s.observation(ctx, f)
	}
	return NotTheirs, notTheirs(f)
}

// knows reports whether the peer calls an instance its own, or did.
func (s *session) knows(inst string) bool {
	_, known := s.theirs[inst]
	return known
}

// toldOurs reports whether the peer was told that an instance is this node's.
func (s *session) toldOurs(inst string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, told := s.ours[inst]
	return told
}

// claim takes in what an engine of the peer says, or that something of it was lost.
func (s *session) claim(ctx context.Context, f *lifecycle.Fact) (End, error) {
	r := s.remotes[f.Inst]
	if r == nil || !r.following {
		s.count.passed.Add(1) // it was on its way when it was given up
		return 0, nil
	}
	if !r.place(f, s.fresh) {
		s.count.twice.Add(1)
		return 0, nil
	}
	if err := r.bounded(f, s.cfg.Pages); err != nil {
		return TooMuch, err
	}
	if f.Ev == lifecycle.PoolOpened && f.T-s.told.Nanoseconds() < r.src.Came() {
		return BehindTime, fmt.Errorf("a pool: %w", errBehind) // the judge would not take it for the restart that it may be
	}
	return s.put(ctx, r.src.PutAt, f)
}

// observation takes in what the peer's probe saw of this node's memory.
func (s *session) observation(ctx context.Context, f *lifecycle.Fact) (End, error) {
	f.Seq = lifecycle.Opt[uint64]{} // another's numbers, where this node has its own
	f.Epoch = lifecycle.Opt[uint64]{}
	p := path{f.Of, f.Inst, f.Peer}
	if !slices.Contains(s.cfg.Own(), f.Inst) || f.Ev == lifecycle.SourceCoverage && s.cfg.Sees(p.of, p.into, p.from) {
		s.count.passed.Add(1)
		return 0, nil
	}
	if f.Ev == lifecycle.SourceCoverage {
		if len(s.covered) >= maxPaths {
			return TooMuch, errTooMuch
		}
		s.covered[p] = struct{}{}
		if f.Complete {
			s.sees(f)
			return 0, nil
		}
	}
	return s.put(ctx, s.seen.PutAt, f)
}

// sees: the peer's probe sees all of a path. That counts from now on, and from when the
// peer says, whichever is later: what it saw before was not handed on. From now on too
// time passes only as far as that probe has come: the peer has said how far, or will with
// the next mark.
func (s *session) sees(f *lifecycle.Fact) {
	s.seen.Reached(s.come)
	s.live.Store(true)
	r, _ := s.clock.Read(s.cfg.Now())
	s.seen.InterjectFrom(f.T-s.told.Nanoseconds()+2*r.Error.Nanoseconds(), s.told.Nanoseconds(), f)
	s.count.taken.Add(1)
}

// put hands a fact to the judge's intake, which takes it in time or not at all.
func (s *session) put(ctx context.Context, put func(context.Context, *lifecycle.Fact, int64) bool, f *lifecycle.Fact) (End, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Patience)
	defer cancel()
	if !put(ctx, f, f.T-s.told.Nanoseconds()) {
		if ctx.Err() != nil {
			return Unread, errUnread
		}
		return BehindTime, fmt.Errorf("a fact far from now: %w", errBehind)
	}
	s.count.taken.Add(1)
	return 0, nil
}
