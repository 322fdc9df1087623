package tcp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// maxUnread bounds the confirmations that a lane leaves in the socket: far
// fewer bytes than any socket buffer holds, so that the server never waits
// for this side to read while this side waits for it to read.
const maxUnread = 64

// lane carries one transfer at a time over one connection.
type lane struct {
	c    *Client
	conn *net.TCPConn
	buf  []byte

	touched bool // the transfer at hand has tried to send something

	mu          sync.Mutex // deadlines
	interrupted bool
}

func (l *lane) run() {
	defer l.c.wg.Done()
	for t := range l.c.queue {
		if t.taken.CompareAndSwap(false, true) {
			l.c.record(t, l.carry(t))
		}
	}
	l.hangUp()
}

func (l *lane) hangUp() {
	if l.conn != nil {
		_ = l.conn.Close()
		l.conn = nil
	}
}

// carry runs one transfer to its end: applied, or drained, or ErrUndrained.
func (l *lane) carry(t *Transfer) error {
	if err := l.abandoned(t); err != nil {
		return err // nothing was sent
	}
	if err := l.connect(); err != nil {
		return err
	}
	l.touched = false
	release := l.watch(t)
	err := l.exchange(t)
	release()
	if err == nil {
		return nil
	}
	if why := l.abandoned(t); why != nil {
		err = why
	}
	if !l.touched {
		return err
	}
	return errors.Join(err, l.drain())
}

// abandoned says why the transfer should not go on, if it should not.
func (l *lane) abandoned(t *Transfer) error {
	if t.stopped() {
		return errCancelled
	}
	select {
	case <-l.c.closing:
		return fmt.Errorf("transfer was cancelled: %w", ErrClosed)
	default:
		return nil
	}
}

// connect makes sure of a connection. One that the server closed while it was
// idle is replaced: nothing was sent on it that is not confirmed.
func (l *lane) connect() error {
	if l.conn != nil && l.closedByPeer() {
		l.hangUp()
	}
	if l.conn == nil {
		conn, err := l.c.dial()
		if err != nil {
			return err
		}
		l.conn = conn
	}
	return nil
}

// closedByPeer looks, without waiting, whether an idle connection has anything
// to read: an end, or bytes that nobody asked for.
func (l *lane) closedByPeer() bool {
	raw, err := l.conn.SyscallConn()
	if err != nil || l.conn.SetReadDeadline(time.Time{}) != nil {
		return true
	}
	var b [1]byte
	var peek error
	err = raw.Read(func(fd uintptr) bool {
		_, _, peek = syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return true
	})
	return err != nil || !errors.Is(peek, syscall.EAGAIN)
}

// watch interrupts the connection's blocking calls when the transfer is
// cancelled; release ends that.
func (l *lane) watch(t *Transfer) (release func()) {
	l.mu.Lock()
	l.interrupted = false
	l.mu.Unlock()
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-over:
			return
		case <-t.stop:
		case <-l.c.closing:
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.interrupted = true
		_ = l.conn.SetDeadline(time.Unix(1, 0))
	}()
	return func() {
		close(over)
		<-ended
	}
}

// allow gives the server StallTimeout for what comes next.
func (l *lane) allow() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.interrupted {
		return context.Canceled
	}
	return l.conn.SetDeadline(time.Now().Add(l.c.cfg.StallTimeout))
}

func (l *lane) exchange(t *Transfer) error {
	if t.op == Read {
		return l.pull(t)
	}
	unread := 0
	for _, p := range t.pieces {
		if err := l.push(t, p); err != nil {
			return err
		}
		if !l.c.cfg.Acknowledged {
			continue
		}
		if unread++; unread == maxUnread {
			if err := l.confirmed(1); err != nil {
				return err
			}
			unread--
		}
	}
	if l.c.cfg.Acknowledged {
		return l.confirmed(unread)
	}
	return l.readBack(t.pieces[len(t.pieces)-1])
}

// push sends one piece: the header and the first part of the body with one
// call, the rest of the body from where it lies.
func (l *lane) push(t *Transfer, p Piece) error {
	l.buf = AppendHeader(l.buf[:0], Header{
		Size: uint64(len(p.Source)), Address: p.Remote, Opcode: Write, Acknowledged: l.c.cfg.Acknowledged,
	})
	first := min(len(p.Source), chunkBytes)
	l.buf = append(l.buf, p.Source[:first]...)
	if err := l.write(t, l.buf, HeaderBytes); err != nil {
		return fmt.Errorf("send piece to %#x: %w", p.Remote, err)
	}
	for rest := p.Source[first:]; len(rest) > 0; {
		part := rest[:min(len(rest), chunkBytes)]
		if err := l.write(t, part, 0); err != nil {
			return fmt.Errorf("send piece to %#x: %w", p.Remote, err)
		}
		rest = rest[len(part):]
	}
	return nil
}

// write sends b, of which the first overhead bytes are no content.
func (l *lane) write(t *Transfer, b []byte, overhead int) error {
	if err := l.allow(); err != nil {
		return err
	}
	l.touched = true
	n, err := l.conn.Write(b)
	t.sent.Add(uint64(max(0, n-overhead)))
	if err != nil {
		return sendError(err)
	}
	return nil
}

// sendError tells a server that closed on us from one that does not take more.
func sendError(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return errors.Join(ErrRefused, err)
}

// confirmed reads n status frames of the second protocol.
func (l *lane) confirmed(n int) error {
	var b [statusBytes]byte
	for range n {
		if err := l.read(b[:]); err != nil {
			return err
		}
		switch frame := binary.LittleEndian.Uint64(b[:]); frame {
		case statusOK:
		default:
			return fmt.Errorf("server answers status %#x: %w", frame, ErrRefused)
		}
	}
	return nil
}

// readBack asks for the last byte of the last piece: the first protocol's
// server answers when everything before it is written.
func (l *lane) readBack(p Piece) error {
	var b [1]byte
	last := p.Remote + uint64(len(p.Source)) - 1
	if err := l.ask(last, 1, false); err != nil {
		return err
	}
	return l.read(b[:])
}

func (l *lane) pull(t *Transfer) error {
	for _, p := range t.pieces {
		if err := l.ask(p.Remote, uint64(len(p.Source)), l.c.cfg.Acknowledged); err != nil {
			return err
		}
		if l.c.cfg.Acknowledged {
			if err := l.confirmed(1); err != nil {
				return err
			}
		}
		for rest := p.Source; len(rest) > 0; {
			part := rest[:min(len(rest), chunkBytes)]
			if err := l.read(part); err != nil {
				return err
			}
			rest = rest[len(part):]
			t.sent.Add(uint64(len(part)))
		}
	}
	return nil
}

func (l *lane) ask(address, size uint64, acknowledged bool) error {
	if err := l.allow(); err != nil {
		return err
	}
	l.touched = true
	h := AppendHeader(nil, Header{Size: size, Address: address, Opcode: Read, Acknowledged: acknowledged})
	if _, err := l.conn.Write(h); err != nil {
		return fmt.Errorf("ask for %d bytes at %#x: %w", size, address, sendError(err))
	}
	return nil
}

func (l *lane) read(b []byte) error {
	if err := l.allow(); err != nil {
		return err
	}
	if _, err := io.ReadFull(l.conn, b); err != nil {
		return fmt.Errorf("read from server: %w", sendError(err))
	}
	return nil
}

// drain ends a connection in whose middle a transfer ended, and waits until
// the server has closed its side: from then on it writes nothing more.
func (l *lane) drain() error {
	defer l.hangUp()
	if err := l.conn.SetReadDeadline(time.Now().Add(l.c.cfg.DrainTimeout)); err != nil {
		return fmt.Errorf("%v: %w", err, ErrUndrained)
	}
	// An error here is that of a connection which the server has closed.
	_ = l.conn.CloseWrite()
	buf := make([]byte, chunkBytes)
	for {
		_, err := l.conn.Read(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("server has not closed within %v: %w", l.c.cfg.DrainTimeout, ErrUndrained)
		}
		if err != nil {
			return nil
		}
	}
}
