package publish

import (
	"context"
	"errors"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/stream"
	"github.com/kvwitness/kvwitness/engine/lifecycle/subscribe"
	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/engine/zmtp"
)

var (
	at0    = kvcache.At{Now: 1}
	audit0 = kvcache.Audit{Pages: 16, Null: 1, Free: 15}
)

func settleQueue(t testing.TB, q *queue) {
	waitFor(t, "an empty queue", func() bool {
		waiting, _, _ := q.load()
		return waiting == 0
	})
	time.Sleep(2 * linger)
}

// dealer is a peer of p's ROUTER.
func dealer(t testing.TB, p *Publisher, cfg zmtp.Config) *zmtp.Dealer {
	t.Helper()
	d := zmtp.NewDealer(cfg)
	t.Cleanup(func() { _ = d.Close() })
	_, replay := p.Endpoints()
	if err := d.Connect(replay); err != nil {
		t.Fatal(err)
	}
	return d
}

// Requests that are none, by the thousand, and peers that ask for everything and
// read nothing, are bounded and counted; the engine and others go on as before.
func TestHostileAskersCostNothingButTheirAnswer(t *testing.T) {
	p := newTestPublisher(t, Config{})
	s := newSteady(t, p)
	for i := range 60_000 {
		s.event(i)
		if i%10_000 == 0 {
			settle(t, p)
		}
	}
	settle(t, p)
	ctx := t.Context()
	rng := rand.New(rand.NewPCG(1, 2))
	noise := dealer(t, p, zmtp.Config{})
	for range 2000 {
		junk := make([]byte, rng.IntN(20))
		for i := range junk {
			junk[i] = byte(rng.Uint32())
		}
		if err := noise.Send(ctx, [][]byte{nil, junk}[rng.IntN(2):]...); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 * MaxAnswers { // each wants all of it and takes nothing
		greedy := dealer(t, p, zmtp.Config{ReceiveMessages: 1, ReceiveBytes: 1})
		for range 20 {
			if err := greedy.Send(ctx, stream.Request{From: 0}.Frames()...); err != nil {
				t.Fatal(err)
			}
		}
	}
	waitFor(t, "refusals", func() bool { st := p.Stats(); return st.Refused > 0 && st.Malformed > 0 })
	lost := p.Stats().Lost
	for i := range 20_000 {
		s.event(i)
	}
	if p.Stats().Lost != lost {
		t.Fatal("events were lost for the sake of strangers")
	}
	settle(t, p)
	p.server.mu.Lock()
	n := len(p.server.busy)
	p.server.mu.Unlock()
	if n > MaxAnswers {
		t.Fatalf("%d are answered at once", n)
	}
}

// A request that is too long ends the connection, and no more.
func TestAnAskerThatSaysTooMuchIsDropped(t *testing.T) {
	p := newTestPublisher(t, Config{})
	d := dealer(t, p, zmtp.Config{})
	if err := d.Send(t.Context(), nil, []byte(strings.Repeat("x", 10_000))); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the end of the connection", func() bool { return p.Stats().Requests.Broken > 0 })
}

// IPC asks the kernel who connects. TCP cannot, and is used only where it was
// asked for.
func TestStrangersAreRefused(t *testing.T) {
	_, err := New(t.Context(), Config{Identity: testIdentity("e", 1), Dir: t.TempDir(), Endpoint: "tcp://127.0.0.1:0"})
	if !errors.Is(err, ErrConfig) {
		t.Fatalf("TCP without being asked for: %v", err)
	}
	open, err := New(t.Context(), Config{Identity: testIdentity("e", 1), Dir: t.TempDir(), Endpoint: "tcp://127.0.0.1:0", AllowTCP: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := open.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	stranger := errors.New("a stranger")
	p := newTestPublisher(t, Config{Socket: zmtp.Config{CheckPeer: func(zmtp.Credentials) error { return stranger }}})
	newSteady(t, p)
	f := follow(t, p)
	waitFor(t, "refusals by both sockets", func() bool {
		s := p.Stats()
		return s.Events.Refused > 0 && s.Requests.Refused > 0
	})
	f.stop()
	if len(f.heard()) > 0 {
		t.Fatal("a stranger was told something")
	}
}

// Of a tenant and of a prefix only keyed hashes leave the process.
func TestWhatIsNoHashIsWithheld(t *testing.T) {
	p := newTestPublisher(t, Config{})
	s := newSteady(t, p)
	f := follow(t, p)
	waitFor(t, "the subscription", func() bool { return f.Stats().State == subscribe.Live })
	for _, domain := range []kvcache.Domain{"alice@example.org", "ALICE", "deadbee", kvcache.Domain(strings.Repeat("a", 65)), "0123456789abcdef", ""} {
		s.p.Admitted(s.at, scheduler.Info{Req: 70, Domain: domain}, 0)
		s.kv.Shared(s.at, 70, domain, s.last, []kvcache.Key{1, 2, 3, 4})
	}
	f.caughtUp(t, p)
	known := 0
	for _, fact := range f.heard() {
		if line := string(fact.AppendJSON(nil)); strings.Contains(strings.ToLower(line), "alice") {
			t.Fatalf("said %s", line)
		}
		if fact.Ev == lifecycle.RequestAdmitted && fact.Req == "70" && fact.Domain.Has {
			known++
		}
	}
	if known != 2 || p.Stats().Withheld != 8 {
		t.Fatalf("%d domains were published, %d withheld; want 2, and 4 twice", known, p.Stats().Withheld)
	}
}

// An engine that is killed leaves its sockets' files behind; the next one of its
// name takes them over, and its subscriber finds it.
func TestAnEngineThatIsKilledIsFollowedWhenItIsBack(t *testing.T) {
	dir := t.TempDir()
	start := func(epoch string) *exec.Cmd {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestTheEngineThatIsKilled$")
		cmd.Env = append(cmd.Environ(), "KVW_TEST_DIR="+dir, "KVW_TEST_EPOCH="+epoch)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	events, replay, err := stream.Endpoints(dir, "killed")
	if err != nil {
		t.Fatal(err)
	}
	sub, err := subscribe.New(subscribe.Config{
		Instance: "killed", Node: "n1", Endpoint: events, ReplayEndpoint: replay,
		RetryMin: time.Millisecond, RetryMax: 20 * time.Millisecond, AnswerTimeout: time.Second,
		Socket: zmtp.Config{Reconnect: zmtp.Backoff{Min: time.Millisecond, Max: 20 * time.Millisecond}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = sub.Run(ctx, func(*lifecycle.Fact) {}) }()
	defer func() { cancel(); <-ended }()
	for _, epoch := range []string{"1", "2", "3"} {
		cmd := start(epoch)
		waitFor(t, "epoch "+epoch, func() bool {
			s := sub.Stats()
			return s.Epoch == uint64(epoch[0]-'0') && s.Handed > 10
		})
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
	}
	if s := sub.Stats(); s.Restarts != 2 || s.Gaps > 0 {
		t.Fatalf("%+v", s)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != 2 {
		t.Fatalf("%v, %v", left, err)
	}
}
