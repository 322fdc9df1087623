package zmtp

import (
	"errors"
	"sync/atomic"
)

// ErrClosed is returned by a socket that was closed.
var ErrClosed = errors.New("socket is closed")

// PeerEventKind says what happened to a peer.
type PeerEventKind uint8

// The kinds of a [PeerEvent].
const (
	PeerUp        PeerEventKind = iota + 1 // handshake done
	PeerDown                               // an established connection ended
	PeerRefused                            // a connection ended before its handshake was done
	ConnectFailed                          // nobody answered where this socket connects to
)

// PeerEvent is what [Config.Observe] is told.
type PeerEvent struct {
	Kind        PeerEventKind
	Remote      string // address of the peer, as the system names it
	Info        PeerInfo
	Credentials Credentials // of an IPC peer
	Err         error       // why it ended; nil for PeerUp and for a Close of ours
}

// Stats counts what a socket did since it was made. Queued = Sent + Lost +
// what waits; a dropped message was never queued.
type Stats struct {
	Peers    int    // connections now, those in handshake included
	Up       uint64 // handshakes that were completed
	Refused  uint64 // connections that ended before their handshake was done
	Broken   uint64 // established connections that ended by an error or time-out
	Failures uint64 // attempts to connect that failed

	Queued   uint64 // messages taken for sending, once a peer
	Sent     uint64 // messages handed to the system whole
	Dropped  uint64 // messages not queued because a peer's queue was full
	Lost     uint64 // messages queued whose connection ended first
	Received uint64 // messages handed to the receive queue or, for PUB, subscriptions
	Ignored  uint64 // commands that were not understood

	ReceiveWaiting int // messages that wait for Recv
	ReceiveBytes   int // and their bytes
}

// PeerStats counts what was done for one peer.
type PeerStats struct {
	Remote        string
	Info          PeerInfo
	Credentials   Credentials
	Queued        uint64
	Sent          uint64
	Dropped       uint64
	Waiting       int // messages in its queue
	WaitingBytes  int
	Subscriptions int // of a subscriber
}

type counters struct {
	up, refused, broken, failures atomic.Uint64
	queued, sent, dropped, lost   atomic.Uint64
	received, ignored             atomic.Uint64
}

func (c *core) stats() Stats {
	s := Stats{
		Peers:    c.connections(),
		Up:       c.count.up.Load(),
		Refused:  c.count.refused.Load(),
		Broken:   c.count.broken.Load(),
		Failures: c.count.failures.Load(),
		Queued:   c.count.queued.Load(),
		Sent:     c.count.sent.Load(),
		Dropped:  c.count.dropped.Load(),
		Lost:     c.count.lost.Load(),
		Received: c.count.received.Load(),
		Ignored:  c.count.ignored.Load(),
	}
	s.ReceiveWaiting, s.ReceiveBytes = c.in.load()
	return s
}

func (c *core) peerStats() []PeerStats {
	peers := c.current()
	out := make([]PeerStats, 0, len(peers))
	for _, p := range peers {
		s := PeerStats{
			Remote: p.remote, Info: p.info, Credentials: p.cred,
			Queued: p.queued.Load(), Sent: p.sent.Load(), Dropped: p.dropped.Load(),
			Subscriptions: int(p.subscribed.Load()),
		}
		s.Waiting, s.WaitingBytes = p.out.load()
		out = append(out, s)
	}
	return out
}
