package zmtp

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

// writeChunk is what a peer must accept within WriteTimeout.
const writeChunk = 256 << 10

// peer is one established connection. Its reader and its writer are the only
// goroutines that touch conn.
type peer struct {
	conn   net.Conn
	remote string
	cred   Credentials
	info   PeerInfo
	read   *reader
	out    *outbox

	subs subscriptions // of a subscriber; changed by the reader alone
	key  string        // by which a ROUTER knows it

	queued, sent, dropped atomic.Uint64
	subscribed            atomic.Int64

	flushed chan struct{} // closed when the writer has ended
	gone    chan struct{} // closed when the connection has ended
}

// offer queues a message without waiting and counts the outcome.
func (c *core) offer(p *peer, frames [][]byte) bool {
	if !p.out.put(frames) {
		return false
	}
	p.queued.Add(1)
	c.count.queued.Add(1)
	return true
}

// open does the handshake of a fresh connection.
func (c *core) open(conn net.Conn) (*peer, error) {
	p := &peer{conn: conn, remote: remoteName(conn), flushed: make(chan struct{}), gone: make(chan struct{})}
	if u, ok := conn.(*net.UnixConn); ok {
		if err := c.checkCredentials(u, p); err != nil {
			return p, err
		}
	}
	p.read = newReader(conn, &c.cfg, c.limits)
	if err := conn.SetWriteDeadline(p.read.until); err != nil {
		return p, fmt.Errorf("open connection: %w", err)
	}
	hello := AppendGreeting(nil, ourMinor)
	hello = AppendReady(hello, Ready{SocketType: string(c.typ), Identity: c.cfg.Identity})
	if _, err := conn.Write(hello); err != nil {
		return p, fmt.Errorf("open connection: %w", err)
	}
	h := NewHandshake(c.typ)
	for {
		ev, err := p.read.next()
		if err != nil {
			return p, err
		}
		done, err := h.Step(ev)
		if err != nil {
			// The peer may learn why; it need not.
			_, _ = conn.Write(appendError(nil, "handshake refused"))
			return p, err
		}
		if done {
			break
		}
	}
	p.info = h.Info()
	return p, c.settle(p)
}

// settle goes from the handshake's time limits to those of an open connection.
func (c *core) settle(p *peer) error {
	p.read.until = time.Time{}
	if c.strict() && p.info.Minor >= 1 {
		p.read.idle = c.cfg.IdleTimeout
	}
	p.out = newOutbox(c.cfg.SendMessages, c.cfg.SendBytes)
	p.subs.max, p.subs.maxBytes = c.cfg.MaxSubscriptions, c.cfg.SubscriptionBytes
	if err := p.conn.SetWriteDeadline(time.Time{}); err != nil {
		return fmt.Errorf("open connection: %w", err)
	}
	return nil
}

func (c *core) checkCredentials(u *net.UnixConn, p *peer) error {
	cred, err := peerCredentials(u)
	if err != nil {
		return err
	}
	p.cred = cred
	if err := c.cfg.CheckPeer(cred); err != nil {
		return fmt.Errorf("check process %d of user %d: %w", cred.PID, cred.UID, errors.Join(ErrCredentials, err))
	}
	return nil
}

// receive reads the peer until its connection or the socket ends.
func (c *core) receive(p *peer) error {
	for {
		ev, err := p.read.next()
		if err != nil {
			return err
		}
		switch ev.Kind {
		case CommandEvent:
			err = c.command(p, ev.Command)
		case MessageEvent:
			frames, size := bodies(ev.Message)
			err = c.does.message(p, frames, size)
		default:
			err = fmt.Errorf("read from peer: second greeting: %w", ErrFrame)
		}
		if err != nil {
			return err
		}
	}
}

func (c *core) command(p *peer, cmd Command) error {
	switch cmd.Name {
	case CommandPing:
		echo, err := pingContext(cmd.Body)
		if err != nil {
			return err
		}
		// A peer that does not read its answers gets no more of them.
		p.out.putRaw(AppendCommand(nil, CommandPong, echo))
		return nil
	case CommandPong:
		return nil
	case CommandError:
		return fmt.Errorf("peer reports %q: %w", errorReason(cmd.Body), ErrFrame)
	case CommandSubscribe, CommandCancel:
		return c.does.subscription(p, cmd.Name == CommandSubscribe, cmd.Body)
	}
	c.count.ignored.Add(1)
	return nil
}

// send writes what is queued until the outbox is closed and empty, or the
// connection fails. It closes the connection in the second case, so that the
// reader ends too.
func (c *core) send(p *peer) {
	defer close(p.flushed)
	var b batch
	for {
		next, ok := p.out.swap(b)
		if !ok {
			return
		}
		written, err := c.write(p, next.bytes)
		whole := 0
		for whole < len(next.ends) && next.ends[whole] <= written {
			whole++
		}
		p.sent.Add(uint64(whole))
		c.count.sent.Add(uint64(whole))
		if err != nil {
			c.count.lost.Add(uint64(len(next.ends) - whole))
			_ = p.conn.Close()
			return
		}
		p.out.release()
		c.room.ring()
		b = next
	}
}

func (c *core) write(p *peer, b []byte) (written int, err error) {
	for written < len(b) {
		if c.strict() {
			if err := p.conn.SetWriteDeadline(time.Now().Add(c.cfg.WriteTimeout)); err != nil {
				return written, err
			}
		}
		n, err := p.conn.Write(b[written:min(len(b), written+writeChunk)])
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

func bodies(m []Frame) (frames [][]byte, size int) {
	frames = make([][]byte, len(m))
	for i, f := range m {
		frames[i] = f.Body
		size += len(f.Body)
	}
	return frames, size
}

func remoteName(conn net.Conn) string {
	if _, ok := conn.(*net.UnixConn); ok {
		return "ipc"
	}
	return conn.RemoteAddr().String()
}
