package peer

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// middle stands between two peers, and can stop handing on.
type middle struct {
	address string
	held    atomic.Bool

	mu    sync.Mutex
	conns []net.Conn
}

func newMiddle(t testing.TB, to string) *middle {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &middle{address: l.Addr().String()}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			m.mu.Lock()
			m.conns = append(m.conns, in, out)
			m.mu.Unlock()
			all.Go(func() { m.hand(in, out) })
			all.Go(func() { m.hand(out, in) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		m.cut()
		all.Wait()
	})
	return m
}

func (m *middle) hold()  { m.held.Store(true) }
func (m *middle) letGo() { m.held.Store(false) }

// cut ends what goes through it; others may come.
func (m *middle) cut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.conns {
		c.Close()
	}
	m.conns = nil
}

func (m *middle) hand(from, to net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		if err == io.EOF || err != nil {
			return
		}
		for m.held.Load() {
			time.Sleep(time.Millisecond)
			if from.SetReadDeadline(time.Time{}) != nil {
				return // closed
			}
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
