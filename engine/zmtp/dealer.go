package zmtp

import (
	"context"
	"errors"
	"fmt"
)

// ErrPeerGone is returned by [Req.Do] where the connection ended before the
// answer came.
var ErrPeerGone = errors.New("peer went away before it answered")

// Dealer sends to its peers in turn and receives from all of them.
type Dealer struct {
	c   *core
	out spread
}

// NewDealer returns a socket that is bound and connected to nothing yet.
func NewDealer(cfg Config) *Dealer {
	d := &Dealer{}
	d.c = newCore(DealerType, cfg, (*dealerBehaviour)(d))
	d.out.c = d.c
	return d
}

// Bind listens at an endpoint; see [Pub.Bind].
func (d *Dealer) Bind(ctx context.Context, endpoint string) (string, error) {
	return d.c.bind(ctx, endpoint)
}

// Connect keeps a connection to the endpoint.
func (d *Dealer) Connect(endpoint string) error { return d.c.connect(endpoint) }

// Send queues a message for one peer, in turn, and waits for a peer with room
// until ctx ends.
func (d *Dealer) Send(ctx context.Context, frames ...[]byte) error {
	_, err := d.out.send(ctx, frames)
	return err
}

// Recv returns the next message of any peer.
func (d *Dealer) Recv(ctx context.Context) ([][]byte, error) {
	r, err := d.c.in.take(ctx, d.c.ctx.Done())
	return r.frames, err
}

// Stats returns the socket's counters.
func (d *Dealer) Stats() Stats { return d.c.stats() }

// Peers returns the counters of each present peer.
func (d *Dealer) Peers() []PeerStats { return d.c.peerStats() }

// Close sends what is queued, for at most Linger, and ends the socket.
func (d *Dealer) Close() error { return d.c.shut() }

type dealerBehaviour Dealer

func (b *dealerBehaviour) up(*peer) error { return nil }
func (b *dealerBehaviour) down(*peer)     {}

func (b *dealerBehaviour) message(p *peer, frames [][]byte, size int) error {
	return b.c.deliver(p, frames, size)
}

func (b *dealerBehaviour) subscription(*peer, bool, []byte) error {
	return fmt.Errorf("read from peer: subscription: %w", ErrUnexpected)
}

// Req asks one question at a time and waits for its answer.
type Req struct {
	c    *core
	out  spread
	busy chan struct{} // holds one token while nobody asks
}

// NewReq returns a socket that is connected to nothing yet.
func NewReq(cfg Config) *Req {
	r := &Req{busy: make(chan struct{}, 1)}
	r.c = newCore(ReqType, cfg, (*reqBehaviour)(r))
	r.out.c = r.c
	r.busy <- struct{}{}
	return r
}

// Connect keeps a connection to the endpoint.
func (r *Req) Connect(endpoint string) error { return r.c.connect(endpoint) }

// Do sends a question and returns its answer, both without the delimiter. If
// ctx ends first, the connection that was asked is closed and made again: an
// answer that comes late can then never be taken for that of a later question.
func (r *Req) Do(ctx context.Context, frames ...[]byte) ([][]byte, error) {
	select {
	case <-r.busy:
		defer func() { r.busy <- struct{}{} }()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the question before: %w", ctx.Err())
	case <-r.c.ctx.Done():
		return nil, ErrClosed
	}
	p, err := r.out.send(ctx, append([][]byte{nil}, frames...))
	if err != nil {
		return nil, err
	}
	answer, err := r.answer(ctx, p)
	if err != nil {
		// Nothing may be queued for it any more, even before its reader has
		// noticed that the connection is gone.
		r.c.count.lost.Add(uint64(p.out.abandon()))
		_ = p.conn.Close()
	}
	return answer, err
}

func (r *Req) answer(ctx context.Context, p *peer) ([][]byte, error) {
	for {
		m, err := r.c.in.take(ctx, p.gone)
		if errors.Is(err, ErrClosed) {
			return nil, fmt.Errorf("wait for answer: %w", ErrPeerGone)
		}
		if err != nil {
			return nil, fmt.Errorf("wait for answer: %w", err)
		}
		if m.from == p && len(m.frames) > 1 && len(m.frames[0]) == 0 {
			return m.frames[1:], nil
		}
		// An answer that nobody asked this peer for.
		r.c.count.ignored.Add(1)
	}
}

// Stats returns the socket's counters.
func (r *Req) Stats() Stats { return r.c.stats() }

// Close ends the socket.
func (r *Req) Close() error { return r.c.shut() }

type reqBehaviour Req

func (b *reqBehaviour) up(*peer) error { return nil }
func (b *reqBehaviour) down(*peer)     {}

func (b *reqBehaviour) message(p *peer, frames [][]byte, size int) error {
	return b.c.deliver(p, frames, size)
}

func (b *reqBehaviour) subscription(*peer, bool, []byte) error {
	return fmt.Errorf("read from peer: subscription: %w", ErrUnexpected)
}
