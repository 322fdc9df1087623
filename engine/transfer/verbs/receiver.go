//go:build linux && cgo

package verbs

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/kvwitness/kvwitness/engine/transfer"
)

const (
	// handshakeTimeout bounds connecting, on both sides.
	handshakeTimeout = 10 * time.Second
	// maxPairs bounds the queue pairs of one receiver; a peer needs one, and one
	// more while it replaces one that failed.
	maxPairs    = 8
	acceptPause = 50 * time.Millisecond
)

// receiver opens memory to one peer.
type receiver struct {
	domain  *domain
	regions []reach
	l       net.Listener
	wg      sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{}
}

func serve(ctx context.Context, d *device, mem *transfer.Memory, host string) (_ *receiver, err error) {
	r := &receiver{conns: map[net.Conn]struct{}{}}
	if r.domain, err = d.domain(maxPairs, false); err != nil {
		return nil, fmt.Errorf("serve memory by verbs: %w", err)
	}
	mem.Pin(&r.domain.pins)
	for _, m := range mem.Regions() {
		mr, err := r.domain.register(m.Base, m.Bytes, C.ABI_ACCESS_LOCAL_WRITE|C.ABI_ACCESS_REMOTE_WRITE)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("serve memory by verbs: %w", err), r.domain.close())
		}
		r.regions = append(r.regions, reach{Base: m.Base, Bytes: m.Bytes, RKey: uint32(mr.rkey)})
	}
	var lc net.ListenConfig
	if r.l, err = lc.Listen(ctx, "tcp", net.JoinHostPort(host, "0")); err != nil {
		return nil, errors.Join(fmt.Errorf("listen for handshakes: %w", err), r.domain.close())
	}
	r.wg.Go(r.accept)
	return r, nil
}

// Session implements transfer.Receiver.
func (r *receiver) Session() string { return r.l.Addr().String() }

func (r *receiver) accept() {
	for {
		conn, err := r.l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(acceptPause) // out of descriptors, most likely: they come back
			continue
		}
		if !r.admit(conn) {
			_ = conn.Close()
			continue
		}
		r.wg.Go(func() {
			r.attend(conn)
			r.mu.Lock()
			delete(r.conns, conn)
			r.mu.Unlock()
		})
	}
}

func (r *receiver) admit(conn net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.conns) >= maxPairs {
		return false
	}
	r.conns[conn] = struct{}{}
	return conn.SetDeadline(time.Now().Add(handshakeTimeout)) == nil
}

// attend keeps a queue pair for as long as the connection stands. The connection
// is closed here and nowhere else, after the queue pair is gone: a writer takes
// the close for the proof that nothing more can arrive.
func (r *receiver) attend(conn net.Conn) {
	defer conn.Close()
	hello, err := readHello(conn)
	if err != nil {
		return
	}
	p, err := r.domain.pair(1, true)
	if err != nil {
		return
	}
	defer func() { _ = p.destroy() }() // before the connection is closed
	if p.receive(hello) != nil || writeMessage(conn, answer{p.end(), r.regions}) != nil || !r.lasts(conn) {
		return
	}
	// A writer says nothing more: what can be read is its end.
	_, _ = conn.Read(make([]byte, 1))
}

// lasts lets a connection stand for as long as it will.
func (r *receiver) lasts(conn net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.closed && conn.SetDeadline(time.Time{}) == nil
}

// Close implements transfer.Receiver: it ends every queue pair, and then the
// registrations.
func (r *receiver) Close() error {
	r.mu.Lock()
	again := r.closed
	r.closed = true
	for c := range r.conns {
		_ = c.SetDeadline(time.Unix(1, 0)) // not a close: see attend
	}
	r.mu.Unlock()
	if again {
		return nil
	}
	err := r.l.Close()
	r.wg.Wait()
	return errors.Join(err, r.domain.close())
}
