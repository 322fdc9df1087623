package publish

import (
	"context"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/stream"
	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/engine/zmtp"
)

// million pages, or fewer under the race detector, which is not what is measured.
var million = map[bool]int{false: 1_000_000, true: 50_000}[raceEnabled]

// fillMillion tells of a pool of a million pages: most in the prefix cache, each
// under a key of its own, the rest held by requests.
func fillMillion(t testing.TB, p *Publisher) *Pool {
	t.Helper()
	pool, err := p.PoolEvents("kv", lifecycle.PoolSpec{Pages: uint32(million) + 1, PageTokens: 16, NullIDs: lifecycle.Runs{{First: 0, Count: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	const each = 10_000
	keys := make([]kvcache.Key, each)
	at := kvcache.At{Now: p.id.Now()}
	settle(t, p)
	var said []output // the way there is not what is measured
	p.loop.ask(func() { said, p.loop.e.out = p.loop.e.out, nil }, nil)
	defer p.loop.ask(func() { p.loop.e.out = said }, nil)
	for i := range million / each {
		req := kvcache.Req(i + 1)
		p.Admitted(at, scheduler.Info{Req: req, PromptTokens: each * 16, Domain: "0123456789abcdef"}, 0)
		pages := []kvcache.Run{{First: kvcache.PageID(1 + i*each), Count: each}}
		pool.Reserved(at, req, pages)
		pool.Written(at, req, kvcache.ByForward, pages, 16)
		for j := range keys {
			keys[j] = kvcache.Key(i*each + j + 1)
		}
		pool.Cached(at, req, "0123456789abcdef", pages, keys)
		if i%10 > 0 { // every tenth goes on
			p.Finished(at, scheduler.Info{Req: req}, scheduler.Outcome{Status: 200})
			pool.Released(at, req, pages)
		}
		settle(t, p)
	}
	if lost := p.Stats().Lost; lost > 0 {
		t.Fatalf("%d events were lost", lost)
	}
	return pool
}

// While a snapshot of a million pages is made and sent, the engine goes on telling:
// no event keeps it for more than 10 ms, and none is lost.
func TestASnapshotOfAMillionPagesDoesNotStopTheEngine(t *testing.T) {
	p := newTestPublisher(t, Config{})
	pool := fillMillion(t, p)
	best := time.Hour // of several, because others share the processors
	for try := 0; try < 5 && best > 10*time.Millisecond; try++ {
		d := dealer(t, p, zmtp.Config{})
		if err := d.Send(t.Context(), stream.Request{Snapshot: true}.Frames()...); err != nil {
			t.Fatal(err)
		}
		facts := make(chan int)
		go func() { facts <- countFacts(t, d) }()
		worst := time.Duration(0)
		got := 0
		for got == 0 {
			began := time.Now()
			pool.Read(kvcache.At{Now: p.id.Now()}, 1, []kvcache.Run{{First: 1, Count: 16}})
			worst = max(worst, time.Since(began))
			select {
			case got = <-facts:
			case <-time.After(20 * time.Microsecond):
			}
		}
		best = min(best, worst)
		if got < million || p.Stats().Snapshots != uint64(try)+1 {
			t.Fatalf("%d facts, %+v", got, p.Stats())
		}
	}
	t.Logf("the longest that one event took: %v", best)
	if best > 10*time.Millisecond {
		t.Fatalf("an event kept the engine for %v", best)
	}
	if lost := p.Stats().Lost; lost > 0 {
		t.Fatalf("%d events were lost", lost)
	}
}

// countFacts takes an answer to its end, and counts.
func countFacts(t testing.TB, d *zmtp.Dealer) (n int) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		frames, err := d.Recv(ctx)
		if err != nil {
			t.Errorf("take a snapshot: %v", err)
			return -1
		}
		m, err := stream.ParseAnswer(frames)
		if err != nil || m.Seq == stream.End {
			return n
		}
		b, err := stream.ParseBatch(m.Payload)
		if err != nil {
			t.Error(err)
			return -1
		}
		n += b.Facts
	}
}

// BenchmarkSnapshotOfAMillionPages is one snapshot from the request to the last
// fact, and how long the books stood still for it.
func BenchmarkSnapshotOfAMillionPages(b *testing.B) {
	p := newTestPublisher(b, Config{})
	fillMillion(b, p)
	var s snapshot
	var copying time.Duration
	b.ResetTimer()
	for b.Loop() {
		p.loop.ask(func() {
			began := time.Now()
			p.loop.e.take(&s, 0, p.loop.asOf)
			copying += time.Since(began)
		}, nil)
		var buf []byte
		if err := s.facts(func(f *lifecycle.Fact) error { buf = f.AppendMsgpack(buf[:0]); return nil }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(copying.Milliseconds())/float64(b.N), "ms-copying")
}
