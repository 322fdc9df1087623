package zmtp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// patience is how long a test waits for what must happen soon.
const patience = 10 * time.Second

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not within %v: %s", patience, what)
}

type closer interface{ Close() error }

func closing[T closer](t *testing.T, s T) T {
	t.Helper()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// endpoints returns one address of each transport to bind to.
func endpoints(t *testing.T) map[string]string {
	t.Helper()
	return map[string]string{
		"tcp": "tcp://127.0.0.1:0",
		"ipc": "ipc://" + filepath.Join(t.TempDir(), "s"),
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func bindPub(t *testing.T, cfg Config, endpoint string) (*Pub, string) {
	t.Helper()
	p := closing(t, NewPub(cfg))
	at, err := p.Bind(context.Background(), endpoint)
	must(t, err)
	return p, at
}

func TestPublishedMessagesArriveInOrderAndByTopic(t *testing.T) {
	for name, endpoint := range endpoints(t) {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			pub, at := bindPub(t, Config{}, endpoint)
			sub := closing(t, NewSub(Config{}))
			must(t, sub.Subscribe([]byte("kvw1@a")))
			must(t, sub.Connect(at))
			eventually(t, "subscription", func() bool { p := pub.Peers(); return len(p) == 1 && p[0].Subscriptions == 1 })
			for i := range 1000 {
				seq := binary.BigEndian.AppendUint64(nil, uint64(i))
				pub.Publish([]byte("kvw1@b"), seq, nil)
				if n, _ := pub.Publish([]byte("kvw1@a"), seq, bytes.Repeat([]byte{byte(i)}, i)); n != 1 {
					t.Fatalf("message %d queued for %d peers", i, n)
				}
			}
			for i := range 1000 {
				m, err := sub.Recv(ctx)
				must(t, err)
				if string(m[0]) != "kvw1@a" || binary.BigEndian.Uint64(m[1]) != uint64(i) || len(m[2]) != i {
					t.Fatalf("message %d is %q %x of %d bytes", i, m[0], m[1], len(m[2]))
				}
			}
			if s := pub.Stats(); s.Queued != 1000 || s.Dropped != 0 || s.Lost != 0 {
				t.Errorf("publisher counts %+v", s)
			}
		})
	}
}

func TestUnsubscribeEndsATopic(t *testing.T) {
	pub, at := bindPub(t, Config{}, "tcp://127.0.0.1:0")
	sub := closing(t, NewSub(Config{}))
	must(t, sub.Connect(at))
	must(t, sub.Subscribe([]byte("a")))
	must(t, sub.Subscribe([]byte("a")))
	eventually(t, "subscription", func() bool { p := pub.Peers(); return len(p) == 1 && p[0].Subscriptions == 1 })
	sub.Unsubscribe([]byte("a"))
	if n, _ := pub.Publish([]byte("a")); n != 1 {
		t.Errorf("one of two subscriptions is left, and nothing is queued")
	}
	sub.Unsubscribe([]byte("a"))
	eventually(t, "cancellation", func() bool { return pub.Peers()[0].Subscriptions == 0 })
	if n, _ := pub.Publish([]byte("a")); n != 0 {
		t.Errorf("queued for %d peers after the last was taken back", n)
	}
}

// A subscriber that stops reading costs the publisher nothing: every message
// is either sent, waiting, lost or counted as dropped, and the publisher never
// waits. After WriteTimeout the subscriber is gone.
func TestASlowSubscriberIsCountedAndThenDropped(t *testing.T) {
	var mu sync.Mutex
	var down error
	pub, at := bindPub(t, Config{
		SendMessages: 100, WriteTimeout: 3 * time.Second,
		Observe: func(e PeerEvent) {
			if e.Kind == PeerDown {
				mu.Lock()
				down = e.Err
				mu.Unlock()
			}
		},
	}, "tcp://127.0.0.1:0")
	conn := rawPeer(t, at, "SUB")
	_, err := conn.Write(AppendCommand(nil, CommandSubscribe, nil))
	must(t, err)
	eventually(t, "subscription", func() bool { p := pub.Peers(); return len(p) == 1 && p[0].Subscriptions == 1 })
	body := make([]byte, 64<<10)
	var tried, queued, dropped uint64
	began := time.Now()
	for range 1000 {
		q, d := pub.Publish([]byte("t"), body)
		tried++
		queued += uint64(q)
		dropped += uint64(d)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("publishing to a subscriber that does not read took %v", took)
	}
	if dropped == 0 || queued+dropped != tried {
		t.Errorf("%d tried, %d queued, %d dropped", tried, queued, dropped)
	}
	if p := pub.Peers(); len(p) == 1 && p[0].Dropped != dropped {
		t.Errorf("the subscriber's own count is %d, want %d", p[0].Dropped, dropped)
	}
	eventually(t, "the stuck subscriber to be dropped", func() bool { return len(pub.Peers()) == 0 && pub.Stats().Peers == 0 })
	mu.Lock()
	defer mu.Unlock()
	if down == nil {
		t.Error("nobody was told why")
	}
	s := pub.Stats()
	if s.Queued != s.Sent+s.Lost || s.Dropped != dropped || s.Lost == 0 || s.Broken != 1 {
		t.Errorf("counts do not add up: %+v", s)
	}
}

func TestPushBlocksUntilContextEndsAndLosesNothing(t *testing.T) {
	for name, endpoint := range endpoints(t) {
		t.Run(name, func(t *testing.T) {
			pull := closing(t, NewPull(Config{ReceiveMessages: 10, ReceiveBytes: 1 << 20}))
			at, err := pull.Bind(context.Background(), endpoint)
			must(t, err)
			push := closing(t, NewPush(Config{SendMessages: 10}))
			short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			if err := push.Send(short, []byte("nobody")); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("send without a peer: %v, want the context's error", err)
			}
			must(t, push.Connect(at))
			ctx := testContext(t)
			const n = 2000
			sent := make(chan error, 1)
			go func() {
				for i := range n {
					if err := push.Send(ctx, binary.BigEndian.AppendUint32(nil, uint32(i)), make([]byte, 10_000)); err != nil {
						sent <- fmt.Errorf("message %d: %w", i, err)
						return
					}
				}
				sent <- nil
			}()
			for i := range n {
				m, err := pull.Recv(ctx)
				must(t, err)
				if got := binary.BigEndian.Uint32(m[0]); got != uint32(i) {
					t.Fatalf("message %d arrived in place %d", got, i)
				}
				if _, bytes := pull.c.in.load(); bytes > 1<<20 {
					t.Fatalf("%d bytes wait, more than the limit", bytes)
				}
			}
			must(t, <-sent)
		})
	}
}

func TestPushSharesOutAndSkipsAFullPeer(t *testing.T) {
	ctx := testContext(t)
	push := closing(t, NewPush(Config{SendMessages: 4}))
	at, err := push.Bind(ctx, "tcp://127.0.0.1:0")
	must(t, err)
	stuck := rawPeer(t, at, "PULL")
	defer stuck.Close()
	pull := closing(t, NewPull(Config{}))
	must(t, pull.Connect(at))
	eventually(t, "both peers", func() bool { return len(push.Peers()) == 2 })
	body := make([]byte, 1<<20)
	got := make(chan int)
	go func() {
		n := 0
		for {
			wait, cancel := context.WithTimeout(ctx, time.Second)
			_, err := pull.Recv(wait)
			cancel()
			if err != nil {
				got <- n
				return
			}
			n++
		}
	}()
	for i := range 60 {
		if err := push.Send(ctx, body); err != nil {
			t.Fatalf("message %d waits though one peer has room: %v", i, err)
		}
	}
	if n := <-got; n < 40 {
		t.Errorf("the peer that reads got %d of 60", n)
	}
}

func TestCloseSendsWhatIsQueued(t *testing.T) {
	ctx := testContext(t)
	pull := closing(t, NewPull(Config{}))
	at, err := pull.Bind(ctx, "tcp://127.0.0.1:0")
	must(t, err)
	push := NewPush(Config{Linger: patience})
	must(t, push.Connect(at))
	for range 200 {
		must(t, push.Send(ctx, make([]byte, 5000)))
	}
	must(t, push.Close())
	for i := range 200 {
		if _, err := pull.Recv(ctx); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	if err := push.Send(ctx, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("send after close: %v, want ErrClosed", err)
	}
}

func TestRouterAnswersEachPeerByItsID(t *testing.T) {
	ctx := testContext(t)
	router := closing(t, NewRouter(Config{}))
	at, err := router.Bind(ctx, "tcp://127.0.0.1:0")
	must(t, err)
	go func() {
		for {
			id, m, err := router.Recv(ctx)
			if err != nil {
				return
			}
			_ = router.Send(id, append(m, []byte("for "+id))...)
		}
	}()
	named := closing(t, NewDealer(Config{Identity: "decode-0"}))
	must(t, named.Connect(at))
	must(t, named.Send(ctx, []byte("hi")))
	m, err := named.Recv(ctx)
	if err != nil || string(m[0]) != "hi" || string(m[1]) != "for decode-0" {
		t.Errorf("answer %q, %v", m, err)
	}
	req := closing(t, NewReq(Config{}))
	must(t, req.Connect(at))
	for i := range 3 {
		m, err := req.Do(ctx, []byte{byte(i)})
		if err != nil || len(m) != 2 || m[0][0] != byte(i) {
			t.Errorf("question %d: answer %q, %v", i, m, err)
		}
	}
	if err := router.Send("nobody", nil); !errors.Is(err, ErrNoPeer) {
		t.Errorf("send to a stranger: %v", err)
	}
	second := closing(t, NewDealer(Config{Identity: "decode-0"}))
	must(t, second.Connect(at))
	eventually(t, "the second of one id to be refused", func() bool { return router.Stats().Refused > 0 })
}

func TestALateAnswerIsNeverTakenForTheNext(t *testing.T) {
	ctx := testContext(t)
	router := closing(t, NewRouter(Config{}))
	at, err := router.Bind(ctx, "tcp://127.0.0.1:0")
	must(t, err)
	req := closing(t, NewReq(Config{Reconnect: Backoff{Min: time.Millisecond}}))
	must(t, req.Connect(at))
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if _, err := req.Do(short, []byte("one")); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("question without an answer: %v", err)
	}
	id, _, err := router.Recv(ctx)
	must(t, err)
	_ = router.Send(id, nil, []byte("late"))
	go func() {
		id, _, err := router.Recv(ctx)
		if err == nil {
			_ = router.Send(id, nil, []byte("two's"))
		}
	}()
	m, err := req.Do(ctx, []byte("two"))
	if err != nil || string(m[0]) != "two's" {
		t.Errorf("second question got %q, %v", m, err)
	}
}

func TestConnectingAgainIsPacedByTheInjectedClock(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := "tcp://" + l.Addr().String()
	must(t, l.Close())
	waits := make(chan time.Duration)
	push := NewPush(Config{
		Reconnect: Backoff{Min: time.Second, Max: 4 * time.Second, Jitter: 0.5},
		Random:    func() float64 { return 0.5 },
		Sleep: func(ctx context.Context, d time.Duration) error {
			select {
			case waits <- d:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
	})
	must(t, push.Connect(address))
	for i, want := range []time.Duration{750, 1500, 3000, 3000} {
		if got := <-waits; got != want*time.Millisecond {
			t.Errorf("wait %d is %v, want %v", i, got, want*time.Millisecond)
		}
	}
	must(t, push.Close())
	if push.Stats().Failures < 4 {
		t.Errorf("%d failures counted, want 4", push.Stats().Failures)
	}
}

func TestASubscriberReconnectsAndSubscribesAgain(t *testing.T) {
	ctx := testContext(t)
	path := "ipc://" + filepath.Join(t.TempDir(), "s")
	sub := closing(t, NewSub(Config{Reconnect: Backoff{Min: time.Millisecond, Max: 5 * time.Millisecond}}))
	must(t, sub.Subscribe(nil))
	must(t, sub.Connect(path))
	for life := range 3 {
		pub := NewPub(Config{})
		_, err := pub.Bind(ctx, path)
		must(t, err)
		eventually(t, "subscription", func() bool { p := pub.Peers(); return len(p) == 1 && p[0].Subscriptions == 1 })
		pub.Publish([]byte{byte(life)})
		m, err := sub.Recv(ctx)
		must(t, err)
		if m[0][0] != byte(life) {
			t.Errorf("life %d: got %v", life, m)
		}
		must(t, pub.Close())
	}
}

func TestIPCPeersAreJudgedByTheirCredentials(t *testing.T) {
	path := "ipc://" + filepath.Join(t.TempDir(), "s")
	seen := make(chan Credentials, 10)
	allow := false
	var mu sync.Mutex
	pub, at := bindPub(t, Config{CheckPeer: func(c Credentials) error {
		seen <- c
		mu.Lock()
		defer mu.Unlock()
		if !allow {
			return errors.New("not today")
		}
		return nil
	}}, path)
	sub := closing(t, NewSub(Config{Reconnect: Backoff{Min: time.Millisecond, Max: 2 * time.Millisecond}}))
	must(t, sub.Connect(at))
	if c := <-seen; int(c.PID) != os.Getpid() || int(c.UID) != os.Geteuid() {
		t.Errorf("credentials %+v, want this process's", c)
	}
	eventually(t, "refusal", func() bool { return pub.Stats().Refused > 0 })
	mu.Lock()
	allow = true
	mu.Unlock()
	go func() {
		for range seen {
		}
	}()
	eventually(t, "admission", func() bool { return len(pub.Peers()) == 1 })
	info, err := os.Stat(path[len("ipc://"):])
	if err != nil || info.Mode().Perm() != ipcMode {
		t.Errorf("socket file has mode %v, %v; want %o", info.Mode(), err, ipcMode)
	}
	if err := SameUser(Credentials{UID: uint32(os.Geteuid()) + 1}); !errors.Is(err, ErrCredentials) {
		t.Errorf("another user: %v, want ErrCredentials", err)
	}
}

func TestABindTakesOverAStaleSocketFileAndNothingElse(t *testing.T) {
	ctx := testContext(t)
	dir := t.TempDir()
	stale := filepath.Join(dir, "stale")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale, Net: "unix"})
	must(t, err)
	l.SetUnlinkOnClose(false)
	must(t, l.Close())
	_, at := bindPub(t, Config{}, "ipc://"+stale)
	if _, err := closing(t, NewPub(Config{})).Bind(ctx, at); err == nil {
		t.Error("bound over a living listener")
	}
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, []byte("x"), 0o600))
	if _, err := closing(t, NewPub(Config{})).Bind(ctx, "ipc://"+file); err == nil {
		t.Error("bound over a file that is no socket")
	}
}
