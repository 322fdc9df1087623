package zmtp

import (
	"context"
	"math/rand/v2"
	"time"
)

// Defaults of a socket's [Config].
const (
	DefaultHandshakeTimeout  = 3 * time.Second
	DefaultMessageTimeout    = 30 * time.Second
	DefaultHeartbeatInterval = 5 * time.Second
	DefaultIdleTimeout       = 15 * time.Second
	DefaultWriteTimeout      = 10 * time.Second
	DefaultLinger            = 500 * time.Millisecond
	DefaultMaxPeers          = 256
	DefaultMaxSubscriptions  = 1024
	DefaultSubscriptionBytes = 256
	DefaultSendMessages      = 10_000
	DefaultSendBytes         = 16 << 20
	DefaultReceiveMessages   = 1_000
	DefaultReceiveBytes      = 64 << 20
	DefaultReconnectMin      = 100 * time.Millisecond
	DefaultReconnectMax      = 5 * time.Second
	dialTimeout              = 5 * time.Second
	acceptPause              = 50 * time.Millisecond
	defaultReconnectJitter   = 0.5
)

// Config bounds a socket. A zero field means its default; there is no way to
// ask for no limit.
type Config struct {
	// Limits bounds what a peer may send. What a socket may hold of what was
	// sent to it is MaxPeers × Limits.MessageBytes and ReceiveBytes: where
	// peers are many or strange, lower the first.
	Limits Limits
	// Identity is the routing id to ask a ROUTER for, at most 255 bytes.
	Identity string

	// HandshakeTimeout is how long a peer may take from connecting to READY.
	HandshakeTimeout time.Duration
	// MessageTimeout is how long one message may take from its first byte to
	// its last.
	MessageTimeout time.Duration
	// HeartbeatInterval is how often PUB, SUB and PULL send a PING to a peer
	// of 3.1. The others do not: their peer may stop reading because its user
	// is slow, and must not be dropped for it. TCP keep-alive is always on.
	HeartbeatInterval time.Duration
	// IdleTimeout is how long a peer that is sent PINGs may say nothing.
	IdleTimeout time.Duration
	// WriteTimeout is how long a peer of PUB, SUB or PULL may take to accept
	// the next 256 KiB that wait for it before it is dropped.
	WriteTimeout time.Duration
	// Linger is how long Close goes on sending what is queued.
	Linger time.Duration

	// MaxPeers bounds connections, those in handshake included. One more is
	// closed at once, and counted as refused.
	MaxPeers int
	// MaxSubscriptions bounds the subscriptions of one subscriber; with one
	// more it is dropped, and with more than twice as many changes of them in
	// ten seconds. SubscriptionBytes bounds the length of each.
	MaxSubscriptions  int
	SubscriptionBytes int
	// SendMessages and SendBytes bound what waits for one peer.
	SendMessages int
	SendBytes    int
	// ReceiveMessages and ReceiveBytes bound what waits for Recv, of all peers
	// together. When it is full, peers are not read until Recv makes room.
	ReceiveMessages int
	ReceiveBytes    int

	// CheckPeer judges the process at the other end of an IPC connection
	// before a byte of it is read; an error refuses it. nil means [SameUser].
	CheckPeer func(Credentials) error
	// Observe, if set, is told of each peer's coming and going. It is called
	// from the socket's goroutines, must not wait, and must not call Close.
	Observe func(PeerEvent)

	// Reconnect says how long a connecting socket waits between attempts.
	Reconnect Backoff
	// Sleep and Random stand in for time and chance in tests. Sleep returns
	// early with the context's error; Random returns a number in [0, 1).
	Sleep  func(context.Context, time.Duration) error
	Random func() float64
}

func (c Config) withDefaults() Config {
	c.Limits = c.Limits.withDefaults()
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.HandshakeTimeout, DefaultHandshakeTimeout},
		{&c.MessageTimeout, DefaultMessageTimeout},
		{&c.HeartbeatInterval, DefaultHeartbeatInterval},
		{&c.IdleTimeout, DefaultIdleTimeout},
		{&c.WriteTimeout, DefaultWriteTimeout},
		{&c.Linger, DefaultLinger},
		{&c.Reconnect.Min, DefaultReconnectMin},
		{&c.Reconnect.Max, DefaultReconnectMax},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	for _, d := range []struct {
		field *int
		value int
	}{
		{&c.MaxPeers, DefaultMaxPeers},
		{&c.MaxSubscriptions, DefaultMaxSubscriptions},
		{&c.SubscriptionBytes, DefaultSubscriptionBytes},
		{&c.SendMessages, DefaultSendMessages},
		{&c.SendBytes, DefaultSendBytes},
		{&c.ReceiveMessages, DefaultReceiveMessages},
		{&c.ReceiveBytes, DefaultReceiveBytes},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if c.Reconnect.Jitter <= 0 || c.Reconnect.Jitter > 1 {
		c.Reconnect.Jitter = defaultReconnectJitter
	}
	if c.CheckPeer == nil {
		c.CheckPeer = SameUser
	}
	if c.Observe == nil {
		c.Observe = func(PeerEvent) {}
	}
	if c.Sleep == nil {
		c.Sleep = sleep
	}
	if c.Random == nil {
		c.Random = rand.Float64
	}
	return c
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Backoff says how long to wait before connecting again: Min, then twice as
// long each time up to Max, less a random part of at most Jitter of it, so
// that the peers of one that restarts do not all return at once.
type Backoff struct {
	Min, Max time.Duration
	Jitter   float64 // in (0, 1]
}

// Delay returns the wait before attempt n, counted from 0; random is in [0, 1).
func (b Backoff) Delay(n int, random float64) time.Duration {
	d := b.Min
	for ; n > 0 && d < b.Max; n-- {
		d *= 2
	}
	d = min(d, b.Max)
	return d - time.Duration(random*b.Jitter*float64(d))
}
