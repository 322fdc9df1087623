package zmtp

import (
	"context"
	"fmt"
	"sync/atomic"
)

// spread deals messages out to the peers in turn: what PUSH, DEALER and REQ
// do with what they send.
type spread struct {
	c    *core
	turn atomic.Uint64
}

// send queues a message for the next peer that has room, and waits for one.
func (s *spread) send(ctx context.Context, frames [][]byte) (*peer, error) {
	if len(frames) == 0 || len(frames) > s.c.cfg.Limits.Frames {
		return nil, fmt.Errorf("send %d frames: %w", len(frames), ErrTooLarge)
	}
	if size := wireBytes(frames); size > s.c.cfg.SendBytes {
		return nil, fmt.Errorf("send %d bytes through a queue of %d: %w", size, s.c.cfg.SendBytes, ErrTooLarge)
	}
	for {
		wait := s.c.room.wait()
		if p := s.try(frames); p != nil {
			return p, nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, fmt.Errorf("send: no peer has room: %w", ctx.Err())
		case <-s.c.ctx.Done():
			return nil, ErrClosed
		}
	}
}

func (s *spread) try(frames [][]byte) *peer {
	peers := s.c.current()
	if len(peers) == 0 {
		return nil
	}
	first := s.turn.Add(1)
	for i := range peers {
		p := peers[(first+uint64(i))%uint64(len(peers))]
		if s.c.offer(p, frames) {
			return p
		}
	}
	return nil
}

// deliver hands a message to Recv and waits while the receive queue is full.
func (c *core) deliver(p *peer, frames [][]byte, size int) error {
	if err := c.in.put(c.ctx, received{from: p, frames: frames, bytes: size}); err != nil {
		return err
	}
	c.count.received.Add(1)
	return nil
}
