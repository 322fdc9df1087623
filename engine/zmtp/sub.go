package zmtp

import (
	"context"
	"fmt"
	"sync"
)

// Sub receives the messages of its publishers whose topic has one of its
// prefixes.
type Sub struct {
	c *core

	mu       sync.Mutex
	prefixes map[string]int
	peers    map[*peer]struct{}
}

// NewSub returns a subscriber without subscriptions.
func NewSub(cfg Config) *Sub {
	s := &Sub{prefixes: make(map[string]int), peers: make(map[*peer]struct{})}
	s.c = newCore(SubType, cfg, (*subBehaviour)(s))
	return s
}

// Bind listens at an endpoint; see [Pub.Bind].
func (s *Sub) Bind(ctx context.Context, endpoint string) (string, error) {
	return s.c.bind(ctx, endpoint)
}

// Connect keeps a connection to a publisher, for as long as the socket lives.
// What was published while it was away is not made up for: look at the
// sequence.
func (s *Sub) Connect(endpoint string) error { return s.c.connect(endpoint) }

// Subscribe asks every publisher, present and future, for topics that begin
// with prefix. The empty prefix is all topics.
func (s *Sub) Subscribe(prefix []byte) error {
	if len(prefix) > s.c.cfg.SubscriptionBytes {
		return fmt.Errorf("subscribe to a prefix of %d bytes: %w", len(prefix), ErrTooLarge)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.prefixes) >= s.c.cfg.MaxSubscriptions && s.prefixes[string(prefix)] == 0 {
		return fmt.Errorf("subscribe to more than %d prefixes: %w", s.c.cfg.MaxSubscriptions, ErrTooLarge)
	}
	s.prefixes[string(prefix)]++
	if s.prefixes[string(prefix)] == 1 {
		s.tellAll(true, prefix)
	}
	return nil
}

// Unsubscribe takes one Subscribe of the same prefix back.
func (s *Sub) Unsubscribe(prefix []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.prefixes[string(prefix)] {
	case 0:
	case 1:
		delete(s.prefixes, string(prefix))
		s.tellAll(false, prefix)
	default:
		s.prefixes[string(prefix)]--
	}
}

func (s *Sub) tellAll(on bool, prefix []byte) {
	for p := range s.peers {
		if !p.out.putRaw(appendSubscription(nil, p.info.Minor, on, prefix)) {
			// It takes nothing any more; connecting again tells it all.
			_ = p.conn.Close()
		}
	}
}

// appendSubscription encodes a subscription for a peer of 3.minor: 3.0 knows
// them as messages only.
func appendSubscription(dst []byte, minor uint8, on bool, prefix []byte) []byte {
	switch {
	case minor == 0 && on:
		return AppendMessage(dst, append([]byte{1}, prefix...))
	case minor == 0:
		return AppendMessage(dst, append([]byte{0}, prefix...))
	case on:
		return AppendCommand(dst, CommandSubscribe, prefix)
	}
	return AppendCommand(dst, CommandCancel, prefix)
}

// Recv returns the next message of any publisher.
func (s *Sub) Recv(ctx context.Context) ([][]byte, error) {
	r, err := s.c.in.take(ctx, s.c.ctx.Done())
	return r.frames, err
}

// Stats returns the socket's counters.
func (s *Sub) Stats() Stats { return s.c.stats() }

// Peers returns the counters of each present publisher.
func (s *Sub) Peers() []PeerStats { return s.c.peerStats() }

// Close ends the socket; messages that nobody received are gone.
func (s *Sub) Close() error { return s.c.shut() }

type subBehaviour Sub

func (b *subBehaviour) up(p *peer) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []byte
	for prefix := range b.prefixes {
		all = appendSubscription(all, p.info.Minor, true, []byte(prefix))
	}
	if len(all) > 0 && !p.out.putRaw(all) {
		return fmt.Errorf("subscribe with %d bytes: %w", len(all), ErrTooLarge)
	}
	b.peers[p] = struct{}{}
	return nil
}

func (b *subBehaviour) down(p *peer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.peers, p)
}

func (b *subBehaviour) message(p *peer, frames [][]byte, size int) error {
	return b.c.deliver(p, frames, size)
}

func (b *subBehaviour) subscription(*peer, bool, []byte) error {
	return fmt.Errorf("read from publisher: subscription: %w", ErrUnexpected)
}
