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
}

func newMiddle(t testing.TB, to string) *middle {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &middle{address: l.Addr().String()}
	var all sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
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
			mu.Lock()
			conns = append(conns, in, out)
			mu.Unlock()
			all.Go(func() { m.hand(in, out) })
			all.Go(func() { m.hand(out, in) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return m
}

func (m *middle) hold() { m.held.Store(true) }

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
