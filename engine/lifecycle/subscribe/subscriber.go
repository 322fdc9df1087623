package subscribe

import (
	"context"
	"fmt"
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/stream"
	"github.com/kvwitness/kvwitness/engine/zmtp"
)

// maxPastEpochs bounds the epochs whose late batches are told from a restart.
const maxPastEpochs = 64

// Subscriber follows one instance. It is used once.
type Subscriber struct {
	cfg   Config
	sub   *zmtp.Sub
	dec   *lifecycle.Decoder
	out   func(*lifecycle.Fact)
	count counters

	epoch lifecycle.Opt[uint64] // of the engine that is followed; absent: none yet
	past  []uint64              // epochs before it
	next  uint64                // number of the batch that is to come
	last  lifecycle.Opt[uint64] // seq of the last fact that was handed on
}

// New returns a Subscriber that is connected to nothing yet.
func New(cfg Config) (*Subscriber, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	return &Subscriber{cfg: cfg, sub: zmtp.NewSub(cfg.Socket), dec: lifecycle.NewMsgpackDecoder()}, nil
}

// Run follows the instance until ctx ends, and calls out with each fact from this
// goroutine; the fact is out's to keep. Its error is ctx's, or that of an endpoint
// that is none.
func (s *Subscriber) Run(ctx context.Context, out func(*lifecycle.Fact)) error {
	defer s.sub.Close()
	defer s.count.state.Store(uint32(Waiting))
	s.out = out
	if err := s.sub.Subscribe(stream.Topic(s.cfg.Instance)); err != nil {
		return fmt.Errorf("follow %s: %w", s.cfg.Instance, err)
	}
	if err := s.sub.Connect(s.cfg.Endpoint); err != nil {
		return fmt.Errorf("follow %s: %w", s.cfg.Instance, err)
	}
	if err := s.ground(ctx); err != nil {
		return err
	}
	for {
		m, ok, err := s.recv(ctx)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if err := s.take(ctx, m); err != nil {
			return err
		}
	}
}

// recv is the next batch; ok is false where none came in time, or none of ours.
func (s *Subscriber) recv(ctx context.Context) (m stream.Message, ok bool, err error) {
	wait, cancel := context.WithTimeout(ctx, s.cfg.StreamTimeout)
	defer cancel()
	frames, err := s.sub.Recv(wait)
	switch {
	case ctx.Err() != nil:
		return m, false, ctx.Err()
	case wait.Err() != nil && err != nil:
		s.count.state.Store(uint32(Waiting))
		s.count.silences.Add(1)
		return m, false, nil
	case err != nil:
		return m, false, fmt.Errorf("follow %s: %w", s.cfg.Instance, err)
	}
	inst, m, err := stream.ParseMessage(frames)
	switch {
	case err != nil:
		s.count.facts.Add(1)
		s.lose(BadBatch, 1)
		return m, false, nil
	case inst != s.cfg.Instance: // a topic that ours is the beginning of
		return m, false, nil
	}
	return m, true, nil
}

// take handles one batch of the stream.
func (s *Subscriber) take(ctx context.Context, m stream.Message) error {
	d, ok := s.decode(m)
	if !ok { // nothing of it can be used; its number still counts
		if s.next == m.Seq {
			s.next++
		}
		return nil
	}
	if d.epoch != s.epoch {
		if slices.Contains(s.past, d.epoch.V) {
			s.count.twice.Add(uint64(len(d.facts)))
			return nil
		}
		if err := s.ground(ctx); err != nil {
			return err
		}
	} else if m.Seq > s.next {
		if err := s.fill(ctx, m.Seq); err != nil {
			return err
		}
	}
	switch {
	case d.epoch != s.epoch || m.Seq < s.next:
		s.count.twice.Add(uint64(len(d.facts)))
	case m.Seq == s.next:
		s.hand(d)
	default:
		return s.fill(ctx, m.Seq+1) // more was said while the snapshot was taken
	}
	s.count.state.Store(uint32(Live))
	return nil
}

// fill gets the batches before the number until, by a replay or, where they are
// kept no longer, by a snapshot.
func (s *Subscriber) fill(ctx context.Context, until uint64) error {
	s.count.state.Store(uint32(CatchingUp))
	whole := true
	err := s.replay(ctx, s.next, until, func(m stream.Message) {
		d, ok := s.decode(m)
		whole = whole && m.Seq == s.next && (!ok || d.epoch == s.epoch)
		switch {
		case !whole:
			s.lose(OutOfOrder, uint64(len(d.facts)))
		case ok:
			s.hand(d)
		default:
			s.next++
		}
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil || s.next < until {
		return s.ground(ctx)
	}
	return nil
}

// ground takes a snapshot, however long it takes, and goes on from there.
func (s *Subscriber) ground(ctx context.Context) error {
	s.count.state.Store(uint32(CatchingUp))
	again := zmtp.Backoff{Min: s.cfg.RetryMin, Max: s.cfg.RetryMax, Jitter: 0.5}
	for attempt := 0; ; attempt++ {
		snap, err := s.takeSnapshot(ctx)
		if err == nil {
			s.handSnapshot(snap)
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.count.state.Store(uint32(Waiting))
		if err := s.cfg.Sleep(ctx, again.Delay(attempt, 0)); err != nil {
			return err
		}
	}
}

// hand hands a batch on that is the next one.
func (s *Subscriber) hand(d decoded) {
	for _, f := range d.facts {
		if f.Seq.Has && s.last.Has {
			if f.Seq.V <= s.last.V {
				s.count.twice.Add(1)
				continue
			}
			missing := f.Seq.V - s.last.V - 1
			ours := min(missing, d.bad)
			d.bad -= ours
			s.lose(EngineQueue, missing-ours)
		}
		if f.Seq.Has {
			s.last = f.Seq
		}
		s.count.handed.Add(1)
		s.out(f)
	}
	s.next = d.seq + 1
}

// handSnapshot hands a snapshot on: all of it at a first sight of an epoch; after
// a gap too, with the gap in its place; and nothing where no fact was missed.
func (s *Subscriber) handSnapshot(snap *snapshot) {
	same := s.epoch.Has && s.epoch.V == snap.epoch
	if !same {
		if s.epoch.Has {
			s.count.restarts.Add(1)
			if s.past = append(s.past, s.epoch.V); len(s.past) > maxPastEpochs {
				s.past = s.past[1:]
			}
		}
		s.epoch, s.last = lifecycle.Some(snap.epoch), lifecycle.Opt[uint64]{}
		s.count.epoch.Store(snap.epoch)
	}
	s.next = snap.seq + 1
	if same && (!snap.last.Has || s.last.Has && snap.last.V <= s.last.V) {
		return
	}
	gap := same
	for i, m := range snap.parts {
		d, _ := s.decode(m)
		for j, f := range d.facts {
			if i == 0 && j == 0 {
				s.count.handed.Add(1) // the watermark is for us
				continue
			}
			if gap && f.Ev != lifecycle.RequestAdmitted && f.Ev != lifecycle.TransferStarted {
				gap = false
				s.handGap(f, snap.last.V)
			}
			s.count.handed.Add(1)
			f.Seq = lifecycle.Opt[uint64]{}
			s.out(f)
		}
	}
	s.last = snap.last
}

// handGap says which facts are missing, at the time of the fact that follows.
func (s *Subscriber) handGap(at *lifecycle.Fact, to uint64) {
	from := uint64(0)
	if s.last.Has {
		from = s.last.V + 1
	}
	s.count.gaps.Add(1)
	s.lose(GapNotKept, to-from+1)
	s.out(&lifecycle.Fact{
		T: at.T, Node: s.cfg.Node, Inst: s.cfg.Instance, Src: lifecycle.Sidecar, Ev: lifecycle.StreamGap,
		Epoch: s.epoch, Of: lifecycle.Engine, GapFrom: from, GapTo: to,
	})
}
