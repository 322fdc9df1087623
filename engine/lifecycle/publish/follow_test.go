package publish

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/subscribe"
	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/engine/zmtp"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// follower is a Subscriber and what it handed on.
type follower struct {
	*subscribe.Subscriber
	stop func()

	mu    sync.Mutex
	facts []*lifecycle.Fact
	gate  sync.Mutex // held, it takes nothing
}

func follow(t testing.TB, p *Publisher, change ...func(*subscribe.Config)) *follower {
	t.Helper()
	events, replay := p.Endpoints()
	cfg := subscribe.Config{
		Instance: p.id.Instance, Node: "n1", Endpoint: events, ReplayEndpoint: replay,
		RetryMin: time.Millisecond, RetryMax: 20 * time.Millisecond, AnswerTimeout: 2 * time.Second,
		Socket: zmtp.Config{Reconnect: zmtp.Backoff{Min: time.Millisecond, Max: 20 * time.Millisecond}},
	}
	for _, c := range change {
		c(&cfg)
	}
	sub, err := subscribe.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	f := &follower{Subscriber: sub}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- sub.Run(ctx, f.hear) }()
	f.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != context.Canceled {
			t.Errorf("the subscription ended: %v", err)
		}
	})
	t.Cleanup(f.stop)
	return f
}

func (f *follower) hear(fact *lifecycle.Fact) {
	f.gate.Lock()
	//lint:ignore SA2001 passing through is all that is wanted
	f.gate.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if fact.Ev != lifecycle.Watermark {
		f.facts = append(f.facts, fact)
	}
}

func (f *follower) heard() []*lifecycle.Fact {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.facts)
}

// caughtUp waits until everything that p said has come.
func (f *follower) caughtUp(t testing.TB, p *Publisher) {
	t.Helper()
	settle(t, p)
	last := uint64(0)
	if !p.loop.ask(func() { last = p.loop.e.seq - 1 }, nil) {
		t.Fatal("the publisher has ended")
	}
	waitFor(t, "the last fact", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		n := len(f.facts)
		return n > 0 && f.facts[n-1].Seq.Or(0) >= last || f.upTo(last)
	})
}

// upTo reports whether a fact without seq is the last there is to hear.
func (f *follower) upTo(last uint64) bool {
	for i := len(f.facts) - 1; i >= 0; i-- {
		if f.facts[i].Seq.Has {
			return f.facts[i].Seq.V >= last
		}
	}
	return false
}

// published gives each engine of w a Publisher, and each Publisher a follower
// from its first moment.
func published(w *world, cfg Config) (pubs map[string]*Publisher, from map[string]*follower) {
	pubs, from = map[string]*Publisher{}, map[string]*follower{}
	dir := w.t.TempDir()
	var shown atomic.Int64 // the world's time, for the publishers' goroutines
	w.tells = func(e *engine) *Teller {
		if old := pubs[e.name]; old != nil {
			if err := old.Close(w.t.Context()); err != nil {
				w.t.Fatal(err)
			}
		}
		shown.Store(w.now)
		cfg := cfg
		cfg.Identity, cfg.Dir = Identity{Instance: e.name, Epoch: e.epoch, Now: shown.Load}, dir
		pubs[e.name] = newTestPublisher(w.t, cfg)
		if from[e.name] == nil {
			from[e.name] = follow(w.t, pubs[e.name])
		}
		return pubs[e.name].Teller
	}
	w.after = func(*engine) { shown.Store(w.now) }
	return pubs, from
}

// judged feeds what followers heard to a ledger, in the order of its times.
func judged(t testing.TB, from ...*follower) *court {
	var all []*lifecycle.Fact
	for _, f := range from {
		all = append(all, f.heard()...)
	}
	slices.SortStableFunc(all, func(a, b *lifecycle.Fact) int { return cmp.Compare(a.T, b.T) })
	c := newCourt(t)
	for _, f := range all {
		c.hear(f)
	}
	c.close()
	return c
}

// Random traffic of whole schedulers and pools, through publisher, sockets and
// subscriber to the ledger: no finding, nothing lost, and the pages that are held
// are those of the pools' own audits. Who joins in the middle hears no fault either.
func TestRandomTrafficReachesTheLedgerWholeAndWithoutFault(t *testing.T) {
	for _, shape := range worlds[:2] {
		t.Run(shape.name, func(t *testing.T) {
			w := newWorld(t, 42)
			pubs, from := published(w, Config{})
			w.populate(shape.roles)
			var late []*follower
			for i := range 6000 {
				w.chance(false)
				if i == 3000 {
					for _, e := range w.engines {
						late = append(late, follow(t, pubs[e.name]))
					}
				}
				if i%100 == 0 { // so that a subscription falls into the middle of things
					time.Sleep(2 * linger)
				}
			}
			w.rest()
			for range 3 {
				w.audit()
				w.now += int64(time.Second)
			}
			var first []*follower
			for i, e := range w.engines {
				from[e.name].caughtUp(t, pubs[e.name])
				late[i].caughtUp(t, pubs[e.name])
				first = append(first, from[e.name])
				whole(t, from[e.name].heard())
			}
			judged(t, first...).mustBeSilent("from the start")
			judged(t, late...).mustBeSilent("from the middle")
			for _, f := range append(first, late...) {
				s := f.Stats()
				if s.Gaps+s.Restarts > 0 || s.Lost != [subscribe.NumLoss]uint64{} || s.Handed+s.Twice != s.Facts {
					t.Errorf("%+v", s)
				}
			}
		})
	}
}

// whole says that numbered facts come each once, in order, with none missing.
func whole(t testing.TB, facts []*lifecycle.Fact) {
	t.Helper()
	next := lifecycle.Opt[uint64]{}
	for i, f := range facts {
		if f.Node != "n1" || f.Inst == "" {
			t.Fatalf("fact %d is about %q on %q", i, f.Inst, f.Node)
		}
		if !f.Seq.Has {
			continue
		}
		if next.Has && f.Seq.V != next.V {
			t.Fatalf("fact %d has number %d, want %d", i, f.Seq.V, next.V)
		}
		next = lifecycle.Some(f.Seq.V + 1)
	}
}

// A subscriber that is too slow misses batches, asks for them again, and has them
// all in the end.
func TestWhatASlowSubscriberMissesIsReplayed(t *testing.T) {
	p := newTestPublisher(t, Config{Socket: zmtp.Config{SendMessages: 2}})
	s := newSteady(t, p)
	f := follow(t, p, func(c *subscribe.Config) { c.Socket.ReceiveMessages = 1 })
	waitFor(t, "the subscription", func() bool { return f.Stats().State == subscribe.Live })
	f.gate.Lock()
	for i := 0; p.Stats().Events.Dropped == 0; i++ {
		s.event(i)
		if i%5000 == 0 {
			settle(t, p)
		}
	}
	f.gate.Unlock()
	waitFor(t, "a replay", func() bool { s.event(0); return f.Stats().Replays > 0 })
	s.event(0)
	f.caughtUp(t, p)
	whole(t, f.heard())
	if st := f.Stats(); st.Gaps > 0 {
		t.Fatalf("more was lost than a replay could make up for: %+v", st)
	}
}

// What is kept no longer becomes a gap, told once with the numbers of the facts
// that are missing, and a snapshot from which it goes on: the judge is blind for
// the gap and for nothing else.
func TestWhatIsKeptNoLongerIsAGapAndASnapshot(t *testing.T) {
	w := newWorld(t, 7)
	pubs, from := published(w, Config{ReplayBatches: 2})
	w.populate([]scheduler.Role{scheduler.Unified})
	p, f := pubs[w.engines[0].name], from[w.engines[0].name]
	waitFor(t, "the subscription", func() bool { return f.Stats().State == subscribe.Live })
	topic := p.wire.topic
	for gaps := uint64(0); gaps < 10; gaps = f.Stats().Gaps {
		for i := range 200 {
			w.chance(false)
			switch {
			case i%20 == 0:
				settle(t, p)
			case i == 50: // what is published under another topic does not come
				p.loop.ask(func() { p.wire.topic = []byte("elsewhere") }, nil)
			case i == 150:
				p.loop.ask(func() { p.wire.topic = topic }, nil)
			}
		}
		waitFor(t, "a gap", func() bool {
			w.chance(false)
			return f.Stats().Gaps > gaps
		})
	}
	w.rest()
	w.audit()
	f.caughtUp(t, p)
	gaps, missing := 0, uint64(0)
	last := lifecycle.Opt[uint64]{}
	for _, fact := range f.heard() {
		switch {
		case fact.Ev == lifecycle.StreamGap:
			gaps++
			missing += fact.GapTo - fact.GapFrom + 1
			if fact.Src != lifecycle.Sidecar || fact.Of != lifecycle.Engine || last.Has && fact.GapFrom != last.V+1 {
				t.Fatalf("a gap after fact %v: %s", last, fact.AppendJSON(nil))
			}
			last = lifecycle.Some(fact.GapTo)
		case fact.Seq.Has:
			if last.Has && fact.Seq.V != last.V+1 {
				t.Fatalf("fact %d after %d, and no gap was told", fact.Seq.V, last.V)
			}
			last = fact.Seq
		}
	}
	if s := f.Stats(); gaps == 0 || s.Gaps != uint64(gaps) || s.Lost[subscribe.GapNotKept] != missing {
		t.Fatalf("%d gaps of %d facts heard, counted %+v", gaps, missing, s)
	}
	c := judged(t, f)
	c.findings = slices.DeleteFunc(c.findings, func(fd finding.Finding) bool { return fd.Kind == finding.Blind })
	c.mustBeSilent("after gaps")
}

// An engine that ends and comes back under its name is another epoch: its pools
// are opened anew, and what the first one said is not mixed with it.
func TestARestartIsAnotherEpoch(t *testing.T) {
	dir := t.TempDir()
	first := newTestPublisher(t, Config{Identity: testIdentity("e", 1), Dir: dir})
	s := newSteady(t, first)
	f := follow(t, first)
	waitFor(t, "the subscription", func() bool { return f.Stats().State == subscribe.Live })
	for i := range 100 {
		s.event(i)
	}
	f.caughtUp(t, first)
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.event(0)
	if lost := first.Stats().Lost; lost != 1 {
		t.Fatalf("%d events after the end are counted as lost, want 1", lost)
	}
	second := newTestPublisher(t, Config{Identity: testIdentity("e", 2), Dir: dir})
	s = newSteady(t, second)
	for i := range 100 {
		s.event(i)
	}
	waitFor(t, "the second epoch", func() bool { return f.Stats().Restarts == 1 })
	s.event(0)
	f.caughtUp(t, second)
	epochs := map[uint64]int{}
	now := uint64(1)
	for _, fact := range f.heard() {
		if fact.Epoch.V < now {
			t.Fatalf("a fact of epoch %d after one of epoch %d", fact.Epoch.V, now)
		}
		now = fact.Epoch.V
		if fact.Ev == lifecycle.PoolOpened {
			epochs[now]++
		}
	}
	if epochs[1] != 1 || epochs[2] != 1 || f.Stats().Gaps > 0 {
		t.Fatalf("pools opened by epoch: %v, %+v", epochs, f.Stats())
	}
}

func ExampleConfig() {
	p, err := New(context.Background(), Config{
		Identity: Identity{Instance: "unified-0", Epoch: 1, Now: func() int64 { return 1 }},
		Endpoint: "ipc://@kvwitness-example-events", ReplayEndpoint: "ipc://@kvwitness-example-replay",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	pages := lifecycle.PoolSpec{Pages: 1024, PageTokens: 16, NullIDs: lifecycle.Runs{{First: 0, Count: 1}}}
	events, err := p.PoolEvents("kv", pages)
	if err != nil {
		fmt.Println(err)
		return
	}
	pool, err := kvcache.New(kvcache.Config{Name: "kv", Pages: 1024, PageTokens: 16, Events: events})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(pool.Audit().Free, p.Close(context.Background()))
	// Output: 1023 <nil>
}
