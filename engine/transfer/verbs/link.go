//go:build linux && cgo

package verbs

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"

	"github.com/kvwitness/kvwitness/engine/transfer"
)

// A writer copies what it sends into memory that its NIC may read, in slots: it is
// the engine's own copy then, and the NIC needs no access to anything else.
const (
	// Depth is how many work requests are under way at most, one a slot.
	Depth = 64
	// SliceBytes is how much one of them carries at most.
	SliceBytes = 64 << 10
	// chain is how many are posted at once at most.
	chain = Depth / 2
)

const (
	// stallTimeout is how long the NIC may take for the next completion: longer
	// than it tries again.
	stallTimeout = 30 * time.Second
	// flushTimeout is how long it may take to give up what is under way.
	flushTimeout = 10 * time.Second
	// drainTimeout leaves a receiver more than its NIC needs for that.
	drainTimeout = 20 * time.Second
	// lookPause is between two looks whether the connection still stands.
	lookPause = 100 * time.Millisecond
)

// link is a connected queue pair, the memory that it sends from, and the
// connection that says for how long.
type link struct {
	conn   *net.TCPConn
	gone   chan struct{} // closed when the connection has ended
	proved bool          // by the receiver's close; valid once gone is closed
	far    answer
	domain *domain
	pair   *pair
	events *os.File // the completion channel
	slots  []byte
	lkey   uint32

	posted, done uint64 // requests; slot n is that of request n modulo Depth
	broken       bool
}

// connect makes a queue pair at both ends.
func connect(ctx context.Context, d *device, session string) (l *link, err error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", session)
	if err != nil {
		return nil, err
	}
	l = &link{conn: conn.(*net.TCPConn), gone: make(chan struct{})}
	deadline, _ := ctx.Deadline()
	if err = errors.Join(l.conn.SetDeadline(deadline), l.open(d)); err == nil {
		err = l.meet()
	}
	if err == nil {
		err = l.conn.SetDeadline(time.Time{})
	}
	if err != nil {
		close(l.gone)
		return nil, errors.Join(err, l.release())
	}
	go l.listen()
	return l, nil
}

// open makes this side's queue pair.
func (l *link) open(d *device) (err error) {
	if l.domain, err = d.domain(Depth, true); err != nil {
		return err
	}
	if l.slots, err = syscall.Mmap(-1, 0, Depth*SliceBytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON); err != nil {
		return fmt.Errorf("map %d bytes to send from: %w", Depth*SliceBytes, err)
	}
	mr, err := l.domain.register(transfer.AddressOf(l.slots), uint64(len(l.slots)), 0)
	if err != nil {
		return err
	}
	l.lkey = uint32(mr.lkey)
	if l.events, err = pollable(int(l.domain.channel.fd)); err != nil {
		return err
	}
	l.pair, err = l.domain.pair(Depth, false)
	return err
}

// pollable is a descriptor's file for the runtime's poller, under a number of its
// own.
func pollable(fd int) (*os.File, error) {
	own, err := dup(fd)
	if err == nil {
		err = syscall.SetNonblock(own, true)
	}
	if err != nil {
		return nil, fmt.Errorf("wait at the completion channel: %w", err)
	}
	return os.NewFile(uintptr(own), "completions"), nil
}

func dup(fd int) (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	own, err := syscall.Dup(fd)
	if err == nil {
		syscall.CloseOnExec(own)
	}
	return own, err
}

// meet exchanges the ends and connects this one.
func (l *link) meet() (err error) {
	if err = writeMessage(l.conn, l.pair.end()); err != nil {
		return err
	}
	if l.far, err = readAnswer(l.conn); err != nil {
		return err
	}
	return errors.Join(l.pair.receive(l.far.end), l.pair.send())
}

// listen waits for the receiver's end. Another end, of the network between, proves
// nothing of the receiver's queue pair.
func (l *link) listen() {
	_, err := io.Copy(io.Discard, l.conn)
	l.proved = err == nil || errors.Is(err, syscall.ECONNRESET)
	close(l.gone)
}

func (l *link) ended() bool {
	select {
	case <-l.gone:
		return true
	default:
		return false
	}
}

// intact: every request that was posted has completed well.
func (l *link) intact() bool { return !l.broken && l.posted == l.done }

// drain ends the connection from this side and waits until the receiver has
// destroyed its queue pair: it closes after that. From then on nothing arrives.
func (l *link) drain(timeout time.Duration) bool {
	_ = l.conn.CloseWrite() // an error is that of a connection which is closed
	select {
	case <-l.gone:
		return l.proved
	case <-time.After(timeout):
		return false
	}
}

// release gives everything back.
func (l *link) release() error {
	var errs []error
	if l.pair != nil {
		errs = append(errs, l.pair.destroy())
	}
	if l.events != nil {
		errs = append(errs, l.events.Close())
	}
	if l.domain != nil {
		errs = append(errs, l.domain.close())
	}
	if l.slots != nil {
		errs = append(errs, syscall.Munmap(l.slots))
	}
	errs = append(errs, l.conn.Close())
	<-l.gone
	return errors.Join(errs...)
}

// slice is one work request: a part of a piece.
type slice struct {
	source []byte
	remote uint64
	rkey   uint32
}

// cut divides pieces into requests. All are checked before any is posted.
func (l *link) cut(pieces []transfer.Piece) (out []slice, err error) {
	for i, p := range pieces {
		if len(p.Source) == 0 {
			return nil, fmt.Errorf("write piece %d of 0 bytes: %w", i, errUnusable)
		}
		rkey, err := l.far.key(p.Remote, uint64(len(p.Source)))
		if err != nil {
			return nil, err
		}
		for at := 0; at < len(p.Source); at += SliceBytes {
			out = append(out, slice{p.Source[at:min(at+SliceBytes, len(p.Source))], p.Remote + uint64(at), rkey})
		}
	}
	return out, nil
}

// run posts all slices and waits for their completions. Where ctx ends it posts no
// more, and waits for what is under way. With an error look whether the link is
// intact.
func (l *link) run(ctx context.Context, slices []slice) error {
	for {
		if ctx.Err() != nil {
			slices = nil
		}
		if len(slices) == 0 && l.posted == l.done {
			break
		}
		n := min(len(slices), chain, Depth-int(l.posted-l.done))
		if n == chain || n > 0 && n == len(slices) {
			if err := l.post(slices[:n]); err != nil {
				return l.abandon(err)
			}
			slices = slices[n:]
			continue
		}
		if err := l.complete(stallTimeout); err != nil {
			return l.abandon(err)
		}
	}
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("write by verbs: %w", err)
	}
	return nil
}

// post copies slices to their slots and hands them to the NIC as one chain.
func (l *link) post(slices []slice) error {
	var writes [chain]C.struct_shim_write
	base := transfer.AddressOf(l.slots)
	for i, s := range slices {
		at := (l.posted + uint64(i)) % Depth * SliceBytes
		n := copy(l.slots[at:at+SliceBytes], s.source)
		writes[i] = C.struct_shim_write{
			id: C.uint64_t(l.posted + uint64(i)), local: C.uint64_t(base + at), lkey: C.uint32_t(l.lkey),
			remote: C.uint64_t(s.remote), rkey: C.uint32_t(s.rkey), length: C.uint32_t(n),
		}
	}
	var taken C.int
	code := C.shim_post(l.domain.d.ctx, l.pair.qp, (*C.struct_shim_write)(unsafe.Pointer(&writes[0])), C.int(len(slices)), &taken)
	l.posted += uint64(taken)
	return failed("post writes", code)
}

// complete takes completions, and waits for some where there are none.
func (l *link) complete(patience time.Duration) error {
	for end := time.Now().Add(patience); ; {
		n, err := l.take()
		if n > 0 || err != nil {
			return err
		}
		if code := C.shim_arm(l.domain.d.ctx, l.domain.cq); code != 0 {
			return failed("ask for an event", code)
		}
		// One may have come before the NIC was asked to tell.
		if n, err = l.take(); n > 0 || err != nil {
			return err
		}
		if err := l.wait(); err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("no completion for %v: %w", patience, ErrWrite)
		}
	}
}

// take takes what has completed; the error is the first that a completion tells.
func (l *link) take() (n int, err error) {
	var done [C.SHIM_CHAIN]C.struct_shim_done
	n = int(C.shim_poll(l.domain.d.ctx, l.domain.cq, (*C.struct_shim_done)(unsafe.Pointer(&done[0])), C.SHIM_CHAIN))
	if n < 0 {
		return 0, fmt.Errorf("poll completions: %w", ErrWrite)
	}
	l.done += uint64(n)
	for _, c := range done[:n] {
		if c.status != 0 {
			l.broken = true
			return n, fmt.Errorf("write %d ends with status %d (%s), vendor's %#x: %w", c.id, c.status, statusText(uint32(c.status)), c.vendor, ErrWrite)
		}
	}
	return n, nil
}

// wait waits for an event for some time, or tells that the connection has ended.
func (l *link) wait() error {
	if l.ended() && !l.broken {
		return fmt.Errorf("the receiver has closed: %w", errTransient)
	}
	if err := l.events.SetReadDeadline(time.Now().Add(lookPause)); err != nil {
		return fmt.Errorf("wait for completions: %w", err)
	}
	raw, err := l.events.SyscallConn()
	if err != nil {
		return fmt.Errorf("wait for completions: %w", err)
	}
	var code C.int
	err = raw.Read(func(uintptr) bool {
		code = C.shim_event(l.domain.d.lib, l.domain.channel)
		return syscall.Errno(code) != syscall.EAGAIN
	})
	if err == nil {
		return failed("take an event", code)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return fmt.Errorf("wait for completions: %w", err)
}

// abandon has the NIC give up what is under way, and waits until it has. It
// returns why.
func (l *link) abandon(why error) error {
	l.broken = true
	if err := l.pair.fail(); err != nil {
		return errors.Join(why, err)
	}
	for end := time.Now().Add(flushTimeout); l.posted > l.done && time.Now().Before(end); {
		if n, _ := l.take(); n == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	return why
}
