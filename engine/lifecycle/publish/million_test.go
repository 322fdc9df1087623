package publish

import (
	"context"
	"runtime"
	"sync/atomic"
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

// The engine takes no part in a snapshot: while one is being copied, for as long as
// that may take, what it tells is queued, and none of it is lost.
func TestTheEngineGoesOnWhileASnapshotIsCopied(t *testing.T) {
	p := newTestPublisher(t, Config{})
	pool := fillMillion(t, p)
	copying, goOn, copied := make(chan struct{}), make(chan struct{}), make(chan bool, 1)
	go func() {
		copied <- p.loop.ask(func() { // where takeSnapshot copies
			close(copying)
			<-goOn
			p.loop.e.take(new(snapshot), 0, p.loop.asOf)
		}, nil)
	}()
	<-copying
	for range DefaultQueueEvents / 2 { // none of them returns before the copy is done, or all do
		pool.Read(kvcache.At{Now: p.id.Now()}, 1, []kvcache.Run{{First: 1, Count: 16}})
	}
	if waiting, _, lost := p.q.load(); waiting != DefaultQueueEvents/2 || lost > 0 {
		t.Errorf("%d events wait, %d are lost", waiting, lost)
	}
	close(goOn)
	if !<-copied {
		t.Fatal("there was no snapshot")
	}
	settle(t, p)
	if lost := p.Stats().Lost; lost > 0 {
		t.Fatalf("%d events were lost", lost)
	}
}

// Nor does it wait for a processor: on a machine that has but one, the engine has its
// turn after each slice of a million pages.
func TestTheEngineHasItsTurnBetweenTheSlicesOfASnapshot(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	pages := make([]pageBook, million)
	var turns atomic.Int64
	var done atomic.Bool
	go func() {
		for ; !done.Load(); runtime.Gosched() {
			turns.Add(1)
		}
	}()
	defer done.Store(true)
	for turns.Load() == 0 {
		runtime.Gosched()
	}
	before := turns.Load()
	if got := copyPages(nil, pages); len(got) != len(pages) {
		t.Errorf("%d pages are copied of %d", len(got), len(pages))
	}
	if had, slices := turns.Load()-before, int64(million/copySlice); had < slices/2 {
		t.Errorf("the engine had %d turns in %d slices", had, slices)
	}
}

// A snapshot of a million pages is whole, and what is told meanwhile is not lost.
func TestASnapshotOfAMillionPagesIsServedBesideTheStream(t *testing.T) {
	p := newTestPublisher(t, Config{})
	pool := fillMillion(t, p)
	d := dealer(t, p, zmtp.Config{})
	if err := d.Send(t.Context(), stream.Request{Snapshot: true}.Frames()...); err != nil {
		t.Fatal(err)
	}
	facts := make(chan int)
	go func() { facts <- countFacts(t, d) }()
	got := 0
	for got == 0 {
		pool.Read(kvcache.At{Now: p.id.Now()}, 1, []kvcache.Run{{First: 1, Count: 16}})
		select {
		case got = <-facts:
		case <-time.After(20 * time.Microsecond):
		}
	}
	if got < million || p.Stats().Snapshots != 1 {
		t.Fatalf("%d facts, %+v", got, p.Stats())
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
// fact: how long the books stood still for it, in which the stream waits and the
// engine does not, how long the longest slice of the copy was, for which the engine
// may have to wait for its processor, and the longest that one event took.
func BenchmarkSnapshotOfAMillionPages(b *testing.B) {
	p := newTestPublisher(b, Config{})
	pool := fillMillion(b, p)
	var s snapshot
	var copying, slice time.Duration
	longest := tellMeanwhile(b, p, pool)
	b.ResetTimer()
	for b.Loop() {
		p.loop.ask(func() {
			began := time.Now()
			p.loop.e.take(&s, 0, p.loop.asOf)
			copying += time.Since(began)
			part := p.loop.e.b.pools[0].pages[:min(copySlice, million)]
			began = time.Now()
			copy(s.pools[0].pages, part)
			slice = max(slice, time.Since(began))
		}, nil)
		var buf []byte
		if err := s.facts(func(f *lifecycle.Fact) error { buf = f.AppendMsgpack(buf[:0]); return nil }); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(copying.Microseconds())/1e3/float64(b.N), "ms-copying")
	b.ReportMetric(float64(slice.Nanoseconds())/1e3, "µs-longest-slice")
	b.ReportMetric(float64(longest().Microseconds())/1e3, "ms-longest-event")
}

// tellMeanwhile has an engine tell something every 50 µs, until the function that it
// returns says how long the longest call was.
func tellMeanwhile(b *testing.B, p *Publisher, pool *Pool) func() time.Duration {
	b.Helper()
	stop, longest := make(chan struct{}), make(chan time.Duration)
	go func() {
		worst := time.Duration(0)
		for {
			began := time.Now()
			pool.Read(kvcache.At{Now: p.id.Now()}, 1, []kvcache.Run{{First: 1, Count: 16}})
			worst = max(worst, time.Since(began))
			select {
			case <-stop:
				longest <- worst
				return
			case <-time.After(50 * time.Microsecond):
			}
		}
	}()
	return func() time.Duration { close(stop); return <-longest }
}
