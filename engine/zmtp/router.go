package zmtp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
)

var (
	// ErrNoPeer is returned where a ROUTER knows no peer by that id.
	ErrNoPeer = errors.New("no such peer")
	// ErrQueueFull is returned where a message does not fit into the queue of
	// the peer it is for.
	ErrQueueFull = errors.New("queue of the peer is full")
	// ErrDuplicateID is why a peer is refused that asks for an id in use.
	ErrDuplicateID = errors.New("routing id is in use")
)

// Router receives from any number of DEALER and REQ peers and answers each by
// its id. It never waits for a peer.
type Router struct {
	c *core

	mu   sync.Mutex
	byID map[string]*peer
	next uint32
}

// NewRouter returns a socket that is bound and connected to nothing yet.
func NewRouter(cfg Config) *Router {
	r := &Router{byID: make(map[string]*peer)}
	r.c = newCore(RouterType, cfg, (*routerBehaviour)(r))
	return r
}

// Bind listens at an endpoint; see [Pub.Bind].
func (r *Router) Bind(ctx context.Context, endpoint string) (string, error) {
	return r.c.bind(ctx, endpoint)
}

// Connect keeps a connection to the endpoint.
func (r *Router) Connect(endpoint string) error { return r.c.connect(endpoint) }

// Recv returns the next message and the id of the peer that sent it. A REQ
// peer's first frame is the empty delimiter, which its answer must repeat.
func (r *Router) Recv(ctx context.Context) (id string, frames [][]byte, err error) {
	m, err := r.c.in.take(ctx, r.c.ctx.Done())
	if err != nil {
		return "", nil, err
	}
	return m.from.key, m.frames, nil
}

// Send queues a message for the peer with this id: at once, or not at all,
// with [ErrNoPeer] or [ErrQueueFull].
func (r *Router) Send(id string, frames ...[]byte) error {
	if len(frames) == 0 || len(frames) > r.c.cfg.Limits.Frames {
		return fmt.Errorf("send %d frames: %w", len(frames), ErrTooLarge)
	}
	r.mu.Lock()
	p := r.byID[id]
	r.mu.Unlock()
	if p == nil {
		return fmt.Errorf("send to %q: %w", id, ErrNoPeer)
	}
	if !r.c.offer(p, frames) {
		p.dropped.Add(1)
		r.c.count.dropped.Add(1)
		return fmt.Errorf("send to %q: %w", id, ErrQueueFull)
	}
	return nil
}

// Stats returns the socket's counters.
func (r *Router) Stats() Stats { return r.c.stats() }

// Peers returns the counters of each present peer.
func (r *Router) Peers() []PeerStats { return r.c.peerStats() }

// Close sends what is queued, for at most Linger, and ends the socket.
func (r *Router) Close() error { return r.c.shut() }

type routerBehaviour Router

func (b *routerBehaviour) up(p *peer) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	p.key = p.info.Identity
	if p.key == "" {
		// An id of our own begins with a zero byte, which no peer may ask
		// for, so that the two kinds never meet.
		b.next++
		p.key = string(binary.BigEndian.AppendUint32([]byte{0}, b.next))
	} else if p.key[0] == 0 {
		return fmt.Errorf("admit peer: id begins with a zero byte: %w", ErrHandshake)
	}
	if b.byID[p.key] != nil {
		return fmt.Errorf("admit peer %q: %w", p.key, ErrDuplicateID)
	}
	b.byID[p.key] = p
	return nil
}

func (b *routerBehaviour) down(p *peer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.byID, p.key)
}

func (b *routerBehaviour) message(p *peer, frames [][]byte, size int) error {
	return b.c.deliver(p, frames, size)
}

func (b *routerBehaviour) subscription(*peer, bool, []byte) error {
	return fmt.Errorf("read from peer: subscription: %w", ErrUnexpected)
}
