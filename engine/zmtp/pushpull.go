package zmtp

import (
	"context"
	"fmt"
)

// Push sends each message to one of its peers.
type Push struct {
	c   *core
	out spread
}

// NewPush returns a socket that is bound and connected to nothing yet.
func NewPush(cfg Config) *Push {
	p := &Push{}
	p.c = newCore(PushType, cfg, sendOnly{})
	p.out.c = p.c
	return p
}

// Bind listens at an endpoint; see [Pub.Bind].
func (p *Push) Bind(ctx context.Context, endpoint string) (string, error) {
	return p.c.bind(ctx, endpoint)
}

// Connect keeps a connection to the endpoint.
func (p *Push) Connect(endpoint string) error { return p.c.connect(endpoint) }

// Send queues a message for one peer, in turn, and waits for a peer with room
// until ctx ends. A message that was queued is lost only with its connection,
// and then counted.
func (p *Push) Send(ctx context.Context, frames ...[]byte) error {
	_, err := p.out.send(ctx, frames)
	return err
}

// Stats returns the socket's counters.
func (p *Push) Stats() Stats { return p.c.stats() }

// Peers returns the counters of each present peer.
func (p *Push) Peers() []PeerStats { return p.c.peerStats() }

// Close sends what is queued, for at most Linger, and ends the socket.
func (p *Push) Close() error { return p.c.shut() }

type sendOnly struct{}

func (sendOnly) up(*peer) error { return nil }
func (sendOnly) down(*peer)     {}

func (sendOnly) message(*peer, [][]byte, int) error {
	return fmt.Errorf("read from puller: message: %w", ErrUnexpected)
}

func (sendOnly) subscription(*peer, bool, []byte) error {
	return fmt.Errorf("read from puller: subscription: %w", ErrUnexpected)
}

// Pull receives from any number of Push peers.
type Pull struct{ c *core }

// NewPull returns a socket that is bound and connected to nothing yet.
func NewPull(cfg Config) *Pull {
	p := &Pull{}
	p.c = newCore(PullType, cfg, (*pullBehaviour)(p))
	return p
}

// Bind listens at an endpoint; see [Pub.Bind].
func (p *Pull) Bind(ctx context.Context, endpoint string) (string, error) {
	return p.c.bind(ctx, endpoint)
}

// Connect keeps a connection to the endpoint.
func (p *Pull) Connect(endpoint string) error { return p.c.connect(endpoint) }

// Recv returns the next message of any peer.
func (p *Pull) Recv(ctx context.Context) ([][]byte, error) {
	r, err := p.c.in.take(ctx, p.c.ctx.Done())
	return r.frames, err
}

// Stats returns the socket's counters.
func (p *Pull) Stats() Stats { return p.c.stats() }

// Peers returns the counters of each present peer.
func (p *Pull) Peers() []PeerStats { return p.c.peerStats() }

// Close ends the socket; messages that nobody received are gone.
func (p *Pull) Close() error { return p.c.shut() }

type pullBehaviour Pull

func (b *pullBehaviour) up(*peer) error { return nil }
func (b *pullBehaviour) down(*peer)     {}

func (b *pullBehaviour) message(p *peer, frames [][]byte, size int) error {
	return b.c.deliver(p, frames, size)
}

func (b *pullBehaviour) subscription(*peer, bool, []byte) error {
	return fmt.Errorf("read from pusher: subscription: %w", ErrUnexpected)
}
