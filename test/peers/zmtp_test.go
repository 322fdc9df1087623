package peers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/zmtp"
)

const requirements = "requirements.txt"

// seenFrame is how a program describes a frame that it received.
type seenFrame struct {
	Size   int
	SHA256 string
	Hex    string
}

type seen struct{ Frames []seenFrame }

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), answerLimit)
	t.Cleanup(cancel)
	return ctx
}

func pattern(size, seed int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte((i%256)*7 + seed)
	}
	return b
}

// large holds the largest of the samples.
var large = zmtp.Limits{FrameBytes: 64 << 20, MessageBytes: 64 << 20}

// samples are the messages that go both ways: every size at which the length's
// encoding or a buffer changes.
func samples() [][][]byte {
	return [][][]byte{
		{[]byte("t"), {}, pattern(8, 1)},
		{[]byte("t"), pattern(254, 2), pattern(255, 3), pattern(256, 4), pattern(257, 5)},
		{[]byte("t"), pattern(8191, 6), pattern(8192, 7), pattern(8193, 8)},
		{[]byte("t"), pattern(1<<20, 9), {}},
		{[]byte("t"), pattern(24<<20, 10)},
		append([][]byte{[]byte("t")}, bytes.Fields([]byte("a b c d e f g h i j k l m n o p q r"))...),
	}
}

func specs(frames [][]byte) []map[string]any {
	out := make([]map[string]any, len(frames))
	for i, f := range frames {
		if len(f) <= 1024 {
			out[i] = map[string]any{"hex": hex.EncodeToString(f)}
			continue
		}
		out[i] = map[string]any{"size": len(f), "seed": int(f[0])}
	}
	return out
}

func checkSeen(t *testing.T, got seen, want [][]byte) {
	t.Helper()
	if len(got.Frames) != len(want) {
		t.Fatalf("peer got %d frames, want %d", len(got.Frames), len(want))
	}
	for i, f := range want {
		if sum := sha256.Sum256(f); got.Frames[i].SHA256 != hex.EncodeToString(sum[:]) {
			t.Errorf("frame %d: peer got %d bytes of another content, want %d", i, got.Frames[i].Size, len(f))
		}
	}
}

func checkGot(t *testing.T, got, want [][]byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d frames, want %d", len(got), len(want))
	}
	for i := range want {
		if !bytes.Equal(got[i], want[i]) {
			t.Errorf("frame %d: %d bytes of another content, want %d", i, len(got[i]), len(want[i]))
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type socket interface {
	Bind(ctx context.Context, endpoint string) (string, error)
	Connect(endpoint string) error
	Close() error
}

// each runs a test over TCP and IPC, with either side binding.
func each(t *testing.T, test func(t *testing.T, join func(ours socket, theirs string, extra map[string]any) *program)) {
	for _, transport := range []string{"tcp", "ipc"} {
		for _, binds := range []string{"ours", "theirs"} {
			t.Run(transport+"/"+binds+"-binds", func(t *testing.T) {
				ours, theirs := "tcp://127.0.0.1:0", "tcp://127.0.0.1:*"
				if transport == "ipc" {
					ours = "ipc://" + filepath.Join(t.TempDir(), "s")
					theirs = ours
				}
				test(t, func(s socket, kind string, extra map[string]any) *program {
					t.Cleanup(func() { _ = s.Close() })
					p := start(t, requirements, "zmq_peer.py")
					req := map[string]any{"op": "socket", "type": kind}
					for k, v := range extra {
						req[k] = v
					}
					if binds == "ours" {
						at, err := s.Bind(context.Background(), ours)
						must(t, err)
						req["connect"] = at
						p.ask(req, nil)
						return p
					}
					req["bind"] = theirs
					var at struct{ Endpoint string }
					p.ask(req, &at)
					must(t, s.Connect(at.Endpoint))
					return p
				})
			})
		}
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(answerLimit); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not within %v: %s", answerLimit, what)
}

func TestPubReachesALibzmqSub(t *testing.T) {
	each(t, func(t *testing.T, join func(socket, string, map[string]any) *program) {
		pub := zmtp.NewPub(zmtp.Config{SendBytes: 64 << 20})
		p := join(pub, "SUB", nil)
		p.ask(map[string]any{"op": "subscribe", "prefix": hex.EncodeToString([]byte("t"))}, nil)
		subscribed := func(n int) func() bool {
			return func() bool {
				// libzmq takes note of a connection, and sends it the
				// subscriptions, while its user is in a call.
				p.ask(map[string]any{"op": "recv", "ms": 5}, nil)
				s := pub.Peers()
				return len(s) == 1 && s[0].Subscriptions == n
			}
		}
		eventually(t, "subscription", subscribed(1))
		for _, m := range samples() {
			if n, _ := pub.Publish([]byte("other"), m[0]); n != 0 {
				t.Error("a topic was sent that nobody asked for")
			}
			pub.Publish(m...)
		}
		for _, m := range samples() {
			var got seen
			p.ask(map[string]any{"op": "recv"}, &got)
			checkSeen(t, got, m)
		}
		p.ask(map[string]any{"op": "unsubscribe", "prefix": hex.EncodeToString([]byte("t"))}, nil)
		eventually(t, "cancellation", subscribed(0))
	})
}

func TestSubHearsALibzmqPub(t *testing.T) {
	each(t, func(t *testing.T, join func(socket, string, map[string]any) *program) {
		sub := zmtp.NewSub(zmtp.Config{Limits: large})
		must(t, sub.Subscribe([]byte("t")))
		p := join(sub, "PUB", nil)
		ctx := testContext(t)
		hear(ctx, t, p, sub)
		for _, m := range samples() {
			p.ask(map[string]any{"op": "send", "frames": specs([][]byte{[]byte("other"), m[0]})}, nil)
			p.ask(map[string]any{"op": "send", "frames": specs(m)}, nil)
			for {
				got, err := sub.Recv(ctx)
				must(t, err)
				if string(got[0]) == "t-early" {
					continue
				}
				checkGot(t, got, m)
				break
			}
		}
	})
}

// hear publishes until the subscription has arrived: before that, a PUB drops.
func hear(ctx context.Context, t *testing.T, p *program, sub *zmtp.Sub) {
	t.Helper()
	for ctx.Err() == nil {
		p.ask(map[string]any{"op": "send", "frames": specs([][]byte{[]byte("t-early")})}, nil)
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		_, err := sub.Recv(short)
		cancel()
		if err == nil {
			return
		}
	}
	t.Fatal("the subscription never arrived")
}

func TestPushAndPullWithLibzmq(t *testing.T) {
	t.Run("push", func(t *testing.T) {
		each(t, func(t *testing.T, join func(socket, string, map[string]any) *program) {
			push := zmtp.NewPush(zmtp.Config{SendBytes: 64 << 20})
			p := join(push, "PULL", nil)
			for _, m := range samples() {
				must(t, push.Send(testContext(t), m...))
				var got seen
				p.ask(map[string]any{"op": "recv"}, &got)
				checkSeen(t, got, m)
			}
		})
	})
	t.Run("pull", func(t *testing.T) {
		each(t, func(t *testing.T, join func(socket, string, map[string]any) *program) {
			pull := zmtp.NewPull(zmtp.Config{Limits: large})
			p := join(pull, "PUSH", nil)
			for _, m := range samples() {
				p.ask(map[string]any{"op": "send", "frames": specs(m)}, nil)
				got, err := pull.Recv(testContext(t))
				must(t, err)
				checkGot(t, got, m)
			}
		})
	})
}

// SGLang's last act is often a message and an exit: it must arrive.
func TestALibzmqPushThatClosesAtOnceIsHeardWhole(t *testing.T) {
	pull := zmtp.NewPull(zmtp.Config{})
	defer pull.Close()
	at, err := pull.Bind(context.Background(), "tcp://127.0.0.1:0")
	must(t, err)
	p := start(t, requirements, "zmq_peer.py")
	p.ask(map[string]any{"op": "socket", "type": "PUSH", "connect": at}, nil)
	p.ask(map[string]any{"op": "send", "times": 5000, "frames": specs([][]byte{[]byte("t"), pattern(900, 3)})}, nil)
	closed := make(chan error, 1)
	go func() { closed <- p.try(map[string]any{"op": "close"}, nil) }()
	for i := range 5000 {
		if _, err := pull.Recv(testContext(t)); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	must(t, <-closed)
}

func TestRouterAnswersLibzmqDealerAndReq(t *testing.T) {
	for _, kind := range []string{"DEALER", "REQ"} {
		t.Run(strings.ToLower(kind), func(t *testing.T) {
			each(t, func(t *testing.T, join func(socket, string, map[string]any) *program) {
				router := zmtp.NewRouter(zmtp.Config{Limits: large, SendBytes: 64 << 20})
				p := join(router, kind, map[string]any{"identity": "theirs"})
				for i, m := range samples() {
					p.ask(map[string]any{"op": "send", "frames": specs(m)}, nil)
					id, got, err := router.Recv(testContext(t))
					must(t, err)
					if id != "theirs" {
						t.Fatalf("question %d comes from %q", i, id)
					}
					if kind == "REQ" {
						if len(got[0]) != 0 {
							t.Fatalf("question %d has no delimiter", i)
						}
						checkGot(t, got[1:], m)
					} else {
						checkGot(t, got, m)
					}
					must(t, router.Send(id, got...))
					var back seen
					p.ask(map[string]any{"op": "recv"}, &back)
					checkSeen(t, back, m)
				}
			})
		})
	}
}

func TestDealerTalksToALibzmqRouter(t *testing.T) {
	each(t, func(t *testing.T, join func(socket, string, map[string]any) *program) {
		dealer := zmtp.NewDealer(zmtp.Config{Limits: large, Identity: "ours", SendBytes: 64 << 20})
		p := join(dealer, "ROUTER", nil)
		for _, m := range samples() {
			must(t, dealer.Send(testContext(t), m...))
			var got seen
			p.ask(map[string]any{"op": "recv"}, &got)
			checkSeen(t, got, append([][]byte{[]byte("ours")}, m...))
			p.ask(map[string]any{"op": "send", "frames": specs(append([][]byte{[]byte("ours")}, m...))}, nil)
			back, err := dealer.Recv(testContext(t))
			must(t, err)
			checkGot(t, back, m)
		}
	})
}

func TestReqAsksALibzmqRep(t *testing.T) {
	p := start(t, requirements, "zmq_peer.py")
	var at struct{ Endpoint string }
	p.ask(map[string]any{"op": "socket", "type": "REP", "bind": "tcp://127.0.0.1:*"}, &at)
	req := zmtp.NewReq(zmtp.Config{})
	defer req.Close()
	must(t, req.Connect(at.Endpoint))
	for i, m := range samples()[:3] {
		errs := make(chan error, 1)
		var got [][]byte
		go func() {
			var err error
			got, err = req.Do(testContext(t), m...)
			errs <- err
		}()
		var asked seen
		p.ask(map[string]any{"op": "recv"}, &asked)
		checkSeen(t, asked, m)
		p.ask(map[string]any{"op": "send", "frames": specs([][]byte{[]byte(fmt.Sprint(i))})}, nil)
		must(t, <-errs)
		checkGot(t, got, [][]byte{[]byte(fmt.Sprint(i))})
	}
}

// Both sides ping; neither drops the other while nothing is said.
func TestHeartbeatsAgreeWithLibzmq(t *testing.T) {
	pub := zmtp.NewPub(zmtp.Config{HeartbeatInterval: 50 * time.Millisecond, IdleTimeout: 500 * time.Millisecond})
	defer pub.Close()
	at, err := pub.Bind(context.Background(), "tcp://127.0.0.1:0")
	must(t, err)
	p := start(t, requirements, "zmq_peer.py")
	p.ask(map[string]any{"op": "socket", "type": "SUB", "connect": at, "heartbeat": 100}, nil)
	p.ask(map[string]any{"op": "subscribe", "prefix": ""}, nil)
	eventually(t, "subscription", func() bool { s := pub.Peers(); return len(s) == 1 && s[0].Subscriptions == 1 })
	t.Logf("libzmq speaks ZMTP 3.%d", pub.Peers()[0].Info.Minor)
	time.Sleep(2 * time.Second)
	if s := pub.Stats(); s.Up != 1 || s.Broken != 0 {
		t.Errorf("a peer came and went: %+v", s)
	}
	pub.Publish([]byte("still there"))
	var got seen
	p.ask(map[string]any{"op": "recv"}, &got)
	checkSeen(t, got, [][]byte{[]byte("still there")})
}
