package zmtp

import (
	"context"
	"fmt"
	"time"
)

// Pub sends each message to every subscriber that asked for its topic.
type Pub struct{ c *core }

// NewPub returns a publisher that is bound and connected to nothing yet.
func NewPub(cfg Config) *Pub {
	p := &Pub{}
	p.c = newCore(PubType, cfg, pubBehaviour{})
	return p
}

// Bind listens at an endpoint and returns it with the port that the system
// chose where the port was 0.
func (p *Pub) Bind(ctx context.Context, endpoint string) (string, error) {
	return p.c.bind(ctx, endpoint)
}

// Connect keeps a connection to a subscriber that listens.
func (p *Pub) Connect(endpoint string) error { return p.c.connect(endpoint) }

// Publish queues a message for every subscriber whose prefixes match its first
// frame, and never waits: for a subscriber whose queue is full the message is
// dropped and counted (drop newest). The frames may be reused at once. It may
// be called by several goroutines; each subscriber then sees one of the
// possible orders.
func (p *Pub) Publish(frames ...[]byte) (queued, dropped int) {
	if len(frames) == 0 {
		return 0, 0
	}
	for _, sub := range p.c.current() {
		switch {
		case !sub.subs.match(frames[0]):
		case p.c.offer(sub, frames):
			queued++
		default:
			dropped++
			sub.dropped.Add(1)
			p.c.count.dropped.Add(1)
		}
	}
	return queued, dropped
}

// Stats returns the socket's counters.
func (p *Pub) Stats() Stats { return p.c.stats() }

// Peers returns the counters of each present subscriber.
func (p *Pub) Peers() []PeerStats { return p.c.peerStats() }

// Close sends what is queued, for at most Linger, and ends the socket.
func (p *Pub) Close() error { return p.c.shut() }

type pubBehaviour struct{}

func (pubBehaviour) up(*peer) error { return nil }
func (pubBehaviour) down(*peer)     {}

// message takes the subscriptions of a 3.0 peer, which are messages: a byte 1
// or 0 and the prefix.
func (b pubBehaviour) message(p *peer, frames [][]byte, _ int) error {
	if len(frames) != 1 || len(frames[0]) == 0 || frames[0][0] > 1 {
		return fmt.Errorf("read from subscriber: %w", ErrUnexpected)
	}
	return b.subscription(p, frames[0][0] == 1, frames[0][1:])
}

func (pubBehaviour) subscription(p *peer, on bool, prefix []byte) error {
	if err := p.subs.change(time.Now(), on, prefix); err != nil {
		return err
	}
	p.subscribed.Store(int64(p.subs.total))
	return nil
}
