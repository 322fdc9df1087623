package subscribe

import (
	"context"
	"errors"
	"fmt"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/stream"
	"github.com/kvwitness/kvwitness/engine/zmtp"
)

var (
	errTooLong  = errors.New("the answer is longer than its limit")
	errOrder    = errors.New("the answer's numbers are out of order")
	errSnapshot = errors.New("the snapshot is not one of this stream")
)

// errEnough ends an answer of which nothing more is wanted.
var errEnough = errors.New("enough")

// ask sends a request on a connection of its own, so that no answer to an earlier
// one can be mistaken, and calls each with every message until the answer ends.
func (s *Subscriber) ask(ctx context.Context, r stream.Request, each func(stream.Message) error) error {
	d := zmtp.NewDealer(s.cfg.Socket)
	defer d.Close()
	if err := d.Connect(s.cfg.ReplayEndpoint); err != nil {
		return err
	}
	first, cancel := context.WithTimeout(ctx, s.cfg.AnswerTimeout)
	defer cancel()
	if err := d.Send(first, r.Frames()...); err != nil {
		return fmt.Errorf("ask %s: %w", s.cfg.ReplayEndpoint, err)
	}
	for {
		m, err := s.message(ctx, d)
		if err != nil || m.Seq == stream.End {
			return err
		}
		if err := each(m); err != nil {
			return err
		}
	}
}

// message is the next one of an answer, in time.
func (s *Subscriber) message(ctx context.Context, d *zmtp.Dealer) (stream.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.AnswerTimeout)
	defer cancel()
	frames, err := d.Recv(ctx)
	if err != nil {
		return stream.Message{}, fmt.Errorf("wait for the answer of %s: %w", s.cfg.ReplayEndpoint, err)
	}
	return stream.ParseAnswer(frames)
}

// snapshot is what an engine said that holds, until a batch. It is kept as it
// came, since facts are several times as large in memory.
type snapshot struct {
	seq   uint64 // of the last batch before it
	epoch uint64
	last  lifecycle.Opt[uint64] // seq of the last fact before it
	parts []stream.Message
}

// takeSnapshot asks for one and keeps it until it is whole.
func (s *Subscriber) takeSnapshot(ctx context.Context) (*snapshot, error) {
	var snap snapshot
	bytes := 0
	err := s.ask(ctx, stream.Request{Snapshot: true}, func(m stream.Message) error {
		if bytes += len(m.Payload); bytes > s.cfg.SnapshotBytes {
			return fmt.Errorf("take a snapshot of more than %d bytes: %w", s.cfg.SnapshotBytes, errTooLong)
		}
		if len(snap.parts) > 0 && m.Seq != snap.seq {
			return errSnapshot
		}
		snap.seq = m.Seq
		snap.parts = append(snap.parts, m)
		return nil
	})
	if err == nil {
		err = s.mark(&snap)
	}
	if err != nil {
		s.count.retries.Add(1)
		return nil, fmt.Errorf("take a snapshot of %s: %w", s.cfg.Instance, err)
	}
	s.count.snapshots.Add(1)
	return &snap, nil
}

// mark reads the watermark with which a snapshot begins.
func (s *Subscriber) mark(snap *snapshot) error {
	if len(snap.parts) == 0 {
		return errSnapshot
	}
	b, err := stream.ParseBatch(snap.parts[0].Payload)
	if err != nil || b.Facts == 0 {
		return errors.Join(errSnapshot, err)
	}
	first := true
	b.Each(func(raw []byte) {
		if !first {
			return
		}
		first = false
		f, decodeErr := s.dec.Decode(raw)
		if decodeErr != nil || f.Ev != lifecycle.Watermark || !f.Epoch.Has || f.Inst != s.cfg.Instance {
			err = errors.Join(errSnapshot, decodeErr)
			return
		}
		snap.epoch, snap.last = f.Epoch.V, f.Seq
	})
	return err
}

// replay asks for the batches from the number from to before until, and calls each
// with those that are still kept, in order.
func (s *Subscriber) replay(ctx context.Context, from, until uint64, each func(stream.Message)) error {
	s.count.replays.Add(1)
	next := from
	err := s.ask(ctx, stream.Request{From: from}, func(m stream.Message) error {
		switch {
		case m.Seq >= until:
			return errEnough
		case m.Seq < next:
			return errOrder
		}
		next = m.Seq + 1
		each(m)
		if next == until {
			return errEnough
		}
		return nil
	})
	if err == nil || errors.Is(err, errEnough) {
		return nil
	}
	s.count.retries.Add(1)
	return fmt.Errorf("replay batches %d to %d of %s: %w", from, until-1, s.cfg.Instance, err)
}
