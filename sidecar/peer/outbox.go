package peer

import (
	"net"
	"sync"
	"time"
)

const (
	// outboxWaits is how much may wait to be sent before those wait who can, and
	// outboxBytes how much at most.
	outboxWaits = 2 << 20
	outboxBytes = 8 << 20
	// sendTimeout is how long one write may take.
	sendTimeout = 10 * time.Second
)

// outbox is what waits to be sent to a peer, as frames in the order of their times.
type outbox struct {
	now func() int64

	mu     sync.Mutex
	change *sync.Cond
	buf    []byte
	number uint64
	closed bool
}

func newOutbox(now func() int64) *outbox {
	o := &outbox{now: now}
	o.change = sync.NewCond(&o.mu)
	return o
}

// wait adds a frame once there is room; false: it is closed.
func (o *outbox) wait(k kind, fill func([]byte) []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.buf) > outboxWaits && !o.closed {
		o.change.Wait()
	}
	return o.add(k, fill)
}

// put adds a frame at once; false: it is closed, or full.
func (o *outbox) put(k kind, fill func([]byte) []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.buf) <= outboxBytes && o.add(k, fill)
}

func (o *outbox) add(k kind, fill func([]byte) []byte) bool {
	if o.closed {
		return false
	}
	o.buf = appendFrame(o.buf, k, o.number, o.now(), fill)
	o.number++
	o.change.Broadcast()
	return true
}

// close lets nobody wait any more.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.change.Broadcast()
}

// sendTo sends until it is closed or a write fails.
func (o *outbox) sendTo(conn net.Conn) error {
	var out []byte
	for {
		o.mu.Lock()
		for len(o.buf) == 0 && !o.closed {
			o.change.Wait()
		}
		if o.closed {
			o.mu.Unlock()
			return nil
		}
		out, o.buf = o.buf, out[:0]
		o.change.Broadcast()
		o.mu.Unlock()
		if err := conn.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
			return err
		}
		if _, err := conn.Write(out); err != nil {
			return err
		}
	}
}
