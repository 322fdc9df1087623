package zmtp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// rawPeer connects and completes a handshake by hand.
func rawPeer(t *testing.T, at, socketType string) net.Conn {
	t.Helper()
	e, err := parseEndpoint(at)
	must(t, err)
	conn, err := e.dial(testContext(t))
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = conn.Write(AppendReady(AppendGreeting(nil, 1), Ready{SocketType: socketType}))
	must(t, err)
	return conn
}

// watched collects the reasons for which a socket's peers ended.
type watched struct {
	mu   sync.Mutex
	errs []error
}

func (w *watched) observe(e PeerEvent) {
	if e.Kind == PeerUp {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.errs = append(w.errs, e.Err)
}

func (w *watched) last() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.errs) == 0 {
		return nil
	}
	return w.errs[len(w.errs)-1]
}

// closedWithin fails unless the other side closes the connection in time.
func closedWithin(t *testing.T, conn net.Conn, limit time.Duration) {
	t.Helper()
	must(t, conn.SetReadDeadline(time.Now().Add(limit)))
	buf := make([]byte, 4096)
	for {
		_, err := conn.Read(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("still connected after %v", limit)
		}
		if err != nil {
			return
		}
	}
}

// Each hostile opening is refused or dropped within the limit that is named
// for it, for the reason that is named, and a good peer is served meanwhile.
func TestHostilePeersAreDroppedWithinNamedTimes(t *testing.T) {
	const handshake, message, slack = 300 * time.Millisecond, 400 * time.Millisecond, 3 * time.Second
	hello := func(kind string) []byte { return AppendReady(AppendGreeting(nil, 1), Ready{SocketType: kind}) }
	long := func(n uint64) []byte { return binary.BigEndian.AppendUint64([]byte{flagLong}, n) }
	subscriptions := func(n int) []byte {
		b := make([]byte, 0, 32*n)
		topic := make([]byte, 0, 20)
		for i := range n {
			b = AppendCommand(b, CommandSubscribe, strconv.AppendInt(topic, int64(i), 10))
		}
		return b
	}
	for name, c := range map[string]struct {
		pull  bool // at a PULL socket, else at a PUB
		say   []byte
		limit time.Duration
		want  error
	}{
		"says nothing":                {false, nil, handshake, os.ErrDeadlineExceeded},
		"half a greeting":             {false, AppendGreeting(nil, 1)[:33], handshake, os.ErrDeadlineExceeded},
		"greeting and no READY":       {false, AppendGreeting(nil, 1), handshake, os.ErrDeadlineExceeded},
		"garbage":                     {false, bytes.Repeat([]byte("garbage!"), 9), 0, ErrGreeting},
		"HTTP":                        {false, []byte("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), 0, ErrGreeting},
		"2^62 before READY":           {false, append(AppendGreeting(nil, 1), long(1<<62)...), 0, ErrTooLarge},
		"message before READY":        {false, AppendMessage(AppendGreeting(nil, 1), []byte{1}), 0, ErrHandshake},
		"wrong socket":                {false, hello("PUSH"), 0, ErrHandshake},
		"2^62 to a publisher":         {false, append(hello("SUB"), long(1<<62)...), 0, ErrTooLarge},
		"2^62 to a puller":            {true, append(hello("PUSH"), long(1<<62)...), 0, ErrTooLarge},
		"2^63 to a puller":            {true, append(hello("PUSH"), long(1<<63)...), 0, ErrTooLarge},
		"half a frame":                {true, append(append(hello("PUSH"), long(1000)...), 'x'), message, os.ErrDeadlineExceeded},
		"half a header":               {true, append(hello("PUSH"), long(1000)[:4]...), message, os.ErrDeadlineExceeded},
		"half a message":              {true, append(hello("PUSH"), flagMore, 0), message, os.ErrDeadlineExceeded},
		"a message of endless frames": {true, append(hello("PUSH"), bytes.Repeat([]byte{flagMore, 0}, 100)...), 0, ErrTooLarge},
		"a million subscriptions":     {false, append(hello("SUB"), subscriptions(1_000_000)...), 0, ErrTooLarge},
		"a long subscription":         {false, AppendCommand(hello("SUB"), CommandSubscribe, make([]byte, 3000)), 0, ErrTooLarge},
		"a message to a publisher":    {false, AppendMessage(hello("SUB"), []byte("x")), 0, ErrUnexpected},
		"a subscription to a puller":  {true, AppendCommand(hello("PUSH"), CommandSubscribe), 0, ErrUnexpected},
		"an ERROR":                    {true, appendError(hello("PUSH"), "no"), 0, ErrFrame},
		"a malformed PING":            {true, AppendCommand(hello("PUSH"), CommandPing, make([]byte, 40)), 0, ErrFrame},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			w := &watched{}
			cfg := Config{HandshakeTimeout: handshake, MessageTimeout: message, Observe: w.observe}
			at := bindEither(t, c.pull, cfg)
			e, err := parseEndpoint(at)
			must(t, err)
			conn, err := e.dial(testContext(t))
			must(t, err)
			defer conn.Close()
			go func() { _, _ = conn.Write(c.say) }()
			closedWithin(t, conn, c.limit+slack)
			eventually(t, "a reason", func() bool { return w.last() != nil })
			if !errors.Is(w.last(), c.want) {
				t.Errorf("dropped for %v, want %v", w.last(), c.want)
			}
		})
	}
}

func bindEither(t *testing.T, pull bool, cfg Config) string {
	t.Helper()
	if pull {
		p := closing(t, NewPull(cfg))
		at, err := p.Bind(context.Background(), "tcp://127.0.0.1:0")
		must(t, err)
		return at
	}
	_, at := bindPub(t, cfg, "tcp://127.0.0.1:0")
	return at
}

// One byte at a time resets no clock: the whole handshake and the whole
// message have one limit each.
func TestASlowDripDoesNotHoldAConnection(t *testing.T) {
	at := bindEither(t, true, Config{HandshakeTimeout: patience, MessageTimeout: 300 * time.Millisecond})
	conn := rawPeer(t, at, "PUSH")
	go func() {
		_, _ = conn.Write(binary.BigEndian.AppendUint64([]byte{flagLong}, 1<<20))
		for {
			if _, err := conn.Write([]byte{0}); err != nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	closedWithin(t, conn, 3*time.Second)
}

func TestASilentPeerIsDroppedWithoutAPong(t *testing.T) {
	w := &watched{}
	at := bindEither(t, false, Config{HeartbeatInterval: 50 * time.Millisecond, IdleTimeout: 200 * time.Millisecond, Observe: w.observe})
	silent := rawPeer(t, at, "SUB")
	alive := closing(t, NewSub(Config{}))
	must(t, alive.Connect(at))
	closedWithin(t, silent, 3*time.Second)
	eventually(t, "a reason", func() bool { return w.last() != nil })
	if err := w.last(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("dropped for %v, want the idle time-out", err)
	}
	time.Sleep(500 * time.Millisecond)
	if s := alive.Stats(); s.Broken != 0 || s.Up != 1 {
		t.Errorf("a peer that answers was dropped too: %+v", s)
	}
}

func TestAPullerWhoseUserIsSlowIsNotDropped(t *testing.T) {
	ctx := testContext(t)
	pull := closing(t, NewPull(Config{ReceiveMessages: 1, HeartbeatInterval: 20 * time.Millisecond, IdleTimeout: 100 * time.Millisecond}))
	at, err := pull.Bind(ctx, "tcp://127.0.0.1:0")
	must(t, err)
	push := closing(t, NewPush(Config{WriteTimeout: 100 * time.Millisecond, IdleTimeout: 100 * time.Millisecond}))
	must(t, push.Connect(at))
	for range 40 {
		must(t, push.Send(ctx, make([]byte, 256<<10)))
	}
	time.Sleep(600 * time.Millisecond)
	for i := range 40 {
		if _, err := pull.Recv(ctx); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	if s := push.Stats(); s.Lost != 0 || s.Broken != 0 {
		t.Errorf("a slow user cost messages: %+v", s)
	}
}

func TestOnePeerTooManyIsClosedAtOnce(t *testing.T) {
	w := &watched{}
	at := bindEither(t, false, Config{MaxPeers: 2, Observe: w.observe})
	first, second := rawPeer(t, at, "SUB"), rawPeer(t, at, "SUB")
	buf := make([]byte, greetingBytes)
	for _, c := range []net.Conn{first, second} {
		must(t, c.SetReadDeadline(time.Now().Add(patience)))
		_, err := c.Read(buf)
		must(t, err)
	}
	e, err := parseEndpoint(at)
	must(t, err)
	third, err := e.dial(testContext(t))
	must(t, err)
	defer third.Close()
	closedWithin(t, third, 2*time.Second)
	eventually(t, "refusal", func() bool { return errors.Is(w.last(), ErrTooManyPeers) })
	must(t, first.Close())
	eventually(t, "room again", func() bool {
		c, err := e.dial(testContext(t))
		must(t, err)
		defer c.Close()
		must(t, c.SetReadDeadline(time.Now().Add(time.Second)))
		_, err = c.Read(buf)
		return err == nil
	})
}

func TestCloseEndsPeersInEveryStateWithinLinger(t *testing.T) {
	pub := NewPub(Config{Linger: 100 * time.Millisecond, HandshakeTimeout: time.Hour, WriteTimeout: time.Hour})
	at, err := pub.Bind(context.Background(), "tcp://127.0.0.1:0")
	must(t, err)
	e, err := parseEndpoint(at)
	must(t, err)
	dumb, err := e.dial(testContext(t))
	must(t, err)
	defer dumb.Close()
	stuck := rawPeer(t, at, "SUB")
	_, err = stuck.Write(AppendCommand(nil, CommandSubscribe))
	must(t, err)
	eventually(t, "peers", func() bool { p := pub.Peers(); return len(p) == 1 && p[0].Subscriptions == 1 })
	body := make([]byte, 1<<20)
	for range 30 {
		pub.Publish(body)
	}
	began := time.Now()
	must(t, pub.Close())
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("close took %v", took)
	}
	if s := pub.Stats(); s.Peers != 0 || s.Queued != s.Sent+s.Lost {
		t.Errorf("after close: %+v", s)
	}
}
