package peer

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/publish"
	"github.com/kvwitness/kvwitness/engine/lifecycle/subscribe"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/intake"
	"github.com/kvwitness/kvwitness/sidecar/ledger"
)

const (
	// wait is how long anything may take on a busy machine.
	wait = 60 * time.Second
	// patient is the patience of links whose peers are not to be lost for slowness.
	patient = 20 * time.Second

	token = "a token that is long enough"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func await(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(wait); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", wait, what)
		}
	}
}

// host is a node with a judge, whose clock is another than the test's.
type host struct {
	t    testing.TB
	node string
	skew atomic.Int64
	own  []string
	in   *intake.Intake

	mu       sync.Mutex
	judge    *ledger.Ledger
	facts    []lifecycle.Fact
	findings []finding.Finding
	verdicts []finding.Verdict
}

func newHost(t testing.TB, node string, skew time.Duration, own ...string) *host {
	h := &host{t: t, node: node, own: own, judge: ledger.New(ledger.Config{Settle: 3 * time.Millisecond})}
	h.skew.Store(skew.Nanoseconds())
	h.in = intake.New(intake.Config{Now: h.now, Slack: 20 * time.Millisecond})
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				h.turn()
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-ended })
	return h
}

func (h *host) now() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano() + h.skew.Load()
}

func (h *host) turn() {
	h.mu.Lock()
	defer h.mu.Unlock()
	low, _ := h.in.Take(func(f *lifecycle.Fact) {
		h.facts = append(h.facts, *f)
		h.findings = append(h.findings, h.judge.Step(f)...)
	})
	h.findings = append(h.findings, h.judge.Advance(low)...)
	h.verdicts = append(h.verdicts, h.judge.Verdicts()...)
}

// count is how many facts the judge took that are like that.
func (h *host) count(like func(f *lifecycle.Fact) bool) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.facts {
		if like(&h.facts[i]) {
			n++
		}
	}
	return n
}

// kinds are what the judge found about this node's own instances.
func (h *host) kinds() (all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.findings {
		if slices.Contains(h.own, f.Inst) && !slices.Contains(all, f.Kind.String()) {
			all = append(all, f.Kind.String())
		}
	}
	slices.Sort(all)
	return all
}

func (h *host) verdict(room string) (v finding.Verdict, given bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, v := range h.verdicts {
		if v.Room == room && slices.Contains(h.own, v.Inst) {
			return v, true
		}
	}
	return v, false
}

// engine publishes as the instance of a host, on its clock.
func (h *host) engine(inst, dir string) *publish.Publisher {
	h.t.Helper()
	p, err := publish.New(h.t.Context(), publish.Config{
		Identity: publish.Identity{Instance: inst, Epoch: uint64(time.Now().UnixNano()), Now: h.now}, Dir: dir,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		_ = p.Close(ctx)
	})
	return p
}

// serve serves what the host's engines say, whose sockets lie in dir.
func (h *host) serve(dir string, change func(*ServerConfig)) *Server {
	h.t.Helper()
	cfg := ServerConfig{
		Node: h.node, Address: "127.0.0.1:0", Secret: Secret{Token: token}, Now: h.now, Own: func() []string { return h.own },
		Stream: func(inst string) (subscribe.Config, bool) {
			return subscribe.Config{Instance: inst, Node: h.node, Dir: dir}, true
		},
		Log: quiet,
	}
	if change != nil {
		change(&cfg)
	}
	s, err := Listen(h.t.Context(), cfg)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = s.Close() })
	return s
}

// dial links the host to one who serves.
func (h *host) dial(address string, change func(*LinkConfig)) *Link {
	h.t.Helper()
	cfg := LinkConfig{
		Name: "peer", Address: address, Node: h.node, Secret: Secret{Token: token}, Now: h.now, In: h.in, Patience: patient, Pages: 1 << 20,
		Own:   func() []string { return h.own },
		Meet:  func(string) bool { return true },
		Claim: func(inst string) bool { return !slices.Contains(h.own, inst) },
		Sees:  func(lifecycle.Src, string, string) bool { return false },
		Log:   quiet,
	}
	if change != nil {
		change(&cfg)
	}
	l, err := NewLink(cfg)
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); l.Run(ctx) }()
	h.t.Cleanup(func() { cancel(); <-ended; l.Close() })
	return l
}

// tell puts a fact of an own engine, of now, into the host's intake.
func (h *host) tell(src *intake.Source, f lifecycle.Fact) {
	f.T, f.Node, f.Src = h.now(), h.node, lifecycle.Engine
	src.Put(context.Background(), &f)
	time.Sleep(time.Millisecond) // facts of one time have no order
}
