package tcp

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The promise of a cancellation, held against a server that is slow at random:
// once Wait has returned without ErrUndrained, the receiver may hand the pages
// to somebody else. The test writes to them, without any lock, and looks again
// later; the race detector watches too.
func TestACancelledTransferHasDrained(t *testing.T) {
	both(t, func(t *testing.T, cfg ClientConfig) {
		r := newReceiver(t, 32<<20, ServerConfig{})
		c := newSender(t, r.listen, cfg)
		body := bytes.Repeat([]byte{9}, 1<<20)
		pieces := make([]Piece, 32)
		for i := range pieces {
			pieces[i] = Piece{Source: body, Remote: r.base + uint64(i<<20)}
		}
		cancelled := 0
		for i := range 30 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*time.Millisecond/4)
			err := c.Write(ctx, pieces...)
			cancel()
			if errors.Is(err, ErrUndrained) {
				t.Fatalf("round %d: %v", i, err)
			}
			if err != nil {
				cancelled++
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("round %d: %v, want the context's error", i, err)
				}
			}
			clear(r.bytes)
			time.Sleep(2 * time.Millisecond)
			if at := bytes.IndexByte(r.bytes, 9); at >= 0 {
				t.Fatalf("round %d: byte %d was written after the transfer had drained", i, at)
			}
		}
		if cancelled == 0 {
			t.Error("no transfer was cancelled while it ran")
		}
		if s := c.Stats(); s.Cancelled != uint64(cancelled) || s.Undrained != 0 || s.Posted != s.Succeeded+s.Cancelled {
			t.Errorf("counters %+v, %d cancelled", s, cancelled)
		}
	})
}

// stuckServer accepts and reads nothing until it is let go; then it closes.
func stuckServer(t *testing.T) (address string, letGo func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var mu sync.Mutex
	var conns []net.Conn
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
		}
	}()
	var once sync.Once
	letGo = func() {
		once.Do(func() {
			_ = l.Close()
			mu.Lock()
			defer mu.Unlock()
			for _, c := range conns {
				_ = c.Close()
			}
		})
	}
	t.Cleanup(letGo)
	return l.Addr().String(), letGo
}

// A server that hangs can be said to have drained only when it has closed.
func TestAHungServerIsNotTakenForDrained(t *testing.T) {
	both(t, func(t *testing.T, cfg ClientConfig) {
		address, _ := stuckServer(t)
		cfg.DrainTimeout = 200 * time.Millisecond
		c := newSender(t, address, cfg)
		tr, err := c.Post([]Piece{{Source: make([]byte, 64<<20), Remote: 4096}})
		must(t, err)
		eventually(t, "bytes to flow", func() bool { return tr.Sent() > 0 })
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		err = tr.Wait(ctx)
		if !errors.Is(err, ErrUndrained) || !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want the context's and ErrUndrained", err)
		}
		if s := c.Stats(); s.Undrained != 1 || s.Cancelled != 1 {
			t.Errorf("counters %+v", s)
		}
	})
}

func TestAHungServerStallsATransferOnlyForTheNamedTime(t *testing.T) {
	both(t, func(t *testing.T, cfg ClientConfig) {
		address, letGo := stuckServer(t)
		cfg.StallTimeout, cfg.DrainTimeout = 100*time.Millisecond, patience
		c := newSender(t, address, cfg)
		tr, err := c.Post([]Piece{{Source: make([]byte, 64<<20), Remote: 4096}})
		must(t, err)
		time.Sleep(300 * time.Millisecond)
		select {
		case <-tr.Done():
			t.Error("ended before the server could be said to have drained")
		default:
		}
		letGo()
		<-tr.Done()
		if err := tr.Err(); err == nil || errors.Is(err, ErrUndrained) {
			t.Errorf("error %v, want a time-out that drained", err)
		}
	})
}

func TestAQueuedTransferIsCancelledAtOnceAndTheQueueIsBounded(t *testing.T) {
	address, _ := stuckServer(t)
	c := newSender(t, address, ClientConfig{Lanes: 1, MaxQueued: 1, DrainTimeout: 100 * time.Millisecond})
	running, err := c.Post([]Piece{{Source: make([]byte, 64<<20), Remote: 4096}})
	must(t, err)
	eventually(t, "bytes to flow", func() bool { return running.Sent() > 0 })
	queued, err := c.Post([]Piece{{Source: make([]byte, 1), Remote: 4096}})
	must(t, err)
	if _, err := c.Post([]Piece{{Source: make([]byte, 1), Remote: 4096}}); !errors.Is(err, ErrBusy) {
		t.Errorf("one more than the queue holds: %v, want ErrBusy", err)
	}
	queued.Cancel()
	select {
	case <-queued.Done():
	case <-time.After(50 * time.Millisecond):
		t.Error("a transfer that nobody began does not end when it is cancelled")
	}
	if err := queued.Err(); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUndrained) {
		t.Errorf("error %v", err)
	}
	running.Cancel()
	<-running.Done()
	if !errors.Is(running.Err(), ErrUndrained) {
		t.Errorf("the one under way: %v", running.Err())
	}
	for _, bad := range [][]Piece{nil, make([]Piece, DefaultMaxPieces+1), {{Source: nil, Remote: 1}}} {
		if _, err := c.Post(bad); !errors.Is(err, ErrBatch) {
			t.Errorf("%d pieces: %v, want ErrBatch", len(bad), err)
		}
	}
}

func TestAServerThatDiesEndsTransfersAndTheNextOneConnectsAgain(t *testing.T) {
	both(t, func(t *testing.T, cfg ClientConfig) {
		r := newReceiver(t, 64<<20, ServerConfig{})
		c := newSender(t, r.listen, cfg)
		must(t, c.Write(testContext(t), Piece{Source: []byte("x"), Remote: r.base}))
		tr, err := c.Post([]Piece{{Source: make([]byte, 64<<20), Remote: r.base}})
		must(t, err)
		eventually(t, "bytes to flow", func() bool { return tr.Sent() > 0 })
		must(t, r.Close())
		<-tr.Done()
		if tr.Err() != nil && !errors.Is(tr.Err(), ErrRefused) {
			t.Errorf("error %v", tr.Err())
		}
		if err := c.Write(testContext(t), Piece{Source: []byte("x"), Remote: r.base}); err == nil {
			t.Error("written to nobody")
		}
		again := NewServer(r.mem, ServerConfig{})
		_, err = again.Listen(context.Background(), r.listen)
		must(t, err)
		defer again.Close()
		must(t, c.Write(testContext(t), Piece{Source: []byte("y"), Remote: r.base}))
		must(t, again.Close())
		if r.bytes[0] != 'y' {
			t.Error("not written by the new server")
		}
	})
}

func TestCloseDrainsWhatIsUnderWay(t *testing.T) {
	r := newReceiver(t, 64<<20, ServerConfig{})
	c := NewClient(r.listen, ClientConfig{Lanes: 2})
	body := bytes.Repeat([]byte{9}, 32<<20)
	var ended atomic.Int32
	var all []*Transfer
	for i := range 8 {
		tr, err := c.Post([]Piece{{Source: body, Remote: r.base + uint64(i%2)<<25}})
		must(t, err)
		all = append(all, tr)
		go func() {
			<-tr.Done()
			ended.Add(1)
		}()
	}
	time.Sleep(5 * time.Millisecond)
	must(t, c.Close())
	for i, tr := range all {
		select {
		case <-tr.Done():
			if errors.Is(tr.Err(), ErrUndrained) {
				t.Errorf("transfer %d: %v", i, tr.Err())
			}
		default:
			t.Errorf("transfer %d is not ended", i)
		}
	}
	clear(r.bytes)
	time.Sleep(5 * time.Millisecond)
	if bytes.IndexByte(r.bytes, 9) >= 0 {
		t.Error("written after Close")
	}
	if _, err := c.Post([]Piece{{Source: body, Remote: r.base}}); !errors.Is(err, ErrClosed) {
		t.Errorf("post after close: %v", err)
	}
}
