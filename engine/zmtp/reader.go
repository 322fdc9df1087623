package zmtp

import (
	"fmt"
	"net"
	"time"
)

// readBuffer is what is asked of the system at once.
const readBuffer = 32 << 10

// reader takes a connection's events one by one and bounds how long each may
// take.
type reader struct {
	conn net.Conn
	dec  *Decoder
	buf  []byte
	rest []byte

	// until, if set, is when everything must be over: the handshake.
	until time.Time
	// idle, if not 0, bounds silence between messages.
	idle time.Duration
	// message bounds one message from its first byte to its last; began is
	// when the present one was first waited for.
	message time.Duration
	began   time.Time
}

func newReader(conn net.Conn, cfg *Config, limits Limits) *reader {
	return &reader{
		conn:    conn,
		dec:     NewDecoder(DecoderConfig{Limits: limits}),
		buf:     make([]byte, readBuffer),
		until:   time.Now().Add(cfg.HandshakeTimeout),
		message: cfg.MessageTimeout,
	}
}

func (r *reader) next() (Event, error) {
	for {
		n, ev, err := r.dec.Next(r.rest)
		r.rest = r.rest[n:]
		if err != nil {
			return Event{}, err
		}
		if r.dec.Idle() {
			r.began = time.Time{}
		}
		if ev.Kind != NeedMore {
			return ev, nil
		}
		if err := r.fill(); err != nil {
			return Event{}, err
		}
	}
}

func (r *reader) fill() error {
	if err := r.conn.SetReadDeadline(r.deadline(time.Now())); err != nil {
		return fmt.Errorf("read from peer: %w", err)
	}
	n, err := r.conn.Read(r.buf)
	r.rest = r.buf[:n]
	if n > 0 {
		return nil
	}
	return fmt.Errorf("read from peer: %w", err)
}

func (r *reader) deadline(now time.Time) time.Time {
	switch {
	case !r.until.IsZero():
		return r.until
	case !r.dec.Idle():
		if r.began.IsZero() {
			r.began = now
		}
		return r.began.Add(r.message)
	case r.idle > 0:
		return now.Add(r.idle)
	}
	return time.Time{}
}
