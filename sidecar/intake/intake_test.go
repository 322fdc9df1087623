package intake

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

const ms = int64(time.Millisecond)

// table is an intake with a clock that a test moves, from one second on.
type table struct {
	*Intake
	now   atomic.Int64
	taken []*lifecycle.Fact
}

func newTable(queueBytes int) *table {
	tb := &table{}
	tb.now.Store(1000 * ms)
	tb.Intake = New(Config{Now: tb.now.Load, QueueBytes: queueBytes})
	return tb
}

// calm is after a long time without trouble.
func (tb *table) calm() {
	for range 40 {
		tb.now.Add(1000 * ms)
		tb.Take(func(f *lifecycle.Fact) { tb.taken = append(tb.taken, f) })
	}
	tb.pass(1)
}

func (tb *table) open(inst string) (*Source, *atomic.Uint32) {
	var stand atomic.Uint32
	stand.Store(uint32(Live))
	return tb.Open(inst, func() Standing { return Standing(stand.Load()) }), &stand
}

// pass moves the clock a millisecond at a time and takes what is due.
func (tb *table) pass(millis int64) (low int64) {
	for range millis {
		tb.now.Add(ms)
		low, _ = tb.Take(func(f *lifecycle.Fact) { tb.taken = append(tb.taken, f) })
	}
	return low
}

func (tb *table) put(s *Source, at int64) {
	s.Put(context.Background(), &lifecycle.Fact{T: at, Inst: s.inst})
}

func (tb *table) times() (all []int64) {
	for _, f := range tb.taken {
		all = append(all, f.T/ms)
	}
	return all
}

func TestFactsOfSeveralSourcesComeOutByTheirTimes(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	tb := newTable(0)
	a, _ := tb.open("a")
	b, _ := tb.open("b")
	for range 500 {
		now := tb.now.Load()
		for _, s := range []*Source{a, b} {
			if at := now - r.Int64N(2*ms); r.IntN(2) == 0 && at > s.last {
				tb.put(s, at)
			}
		}
		tb.pass(1)
	}
	tb.pass(100)
	last := int64(math.MinInt64)
	for _, f := range tb.taken {
		if f.T < last {
			t.Fatalf("%d after %d", f.T, last)
		}
		last = f.T
	}
	if n := a.Stats().Put + b.Stats().Put; uint64(len(tb.taken)) != n || n < 100 {
		t.Errorf("%d facts out of %d", len(tb.taken), n)
	}
}

// The time that the judge is told lets no fact be late that comes with the delay
// that its source has shown.
func TestASlowSourceIsWaitedForAsLongAsItHasBeenSlow(t *testing.T) {
	tb := newTable(0)
	slow, _ := tb.open("slow")
	quick, _ := tb.open("quick")
	tb.pass(1)
	for range 50 { // first late once, then as expected
		tb.put(slow, tb.now.Load()-40*ms)
		tb.put(quick, tb.now.Load())
		tb.pass(1)
	}
	low := tb.pass(1)
	if behind := (tb.now.Load() - low) / ms; behind < 38 || behind > 62 {
		t.Errorf("time is %d ms behind a source that is 40 ms late", behind)
	}
	tb.now.Add(40 * int64(time.Second)) // it says nothing for long
	low = tb.pass(10)
	if behind := (tb.now.Load() - low) / ms; behind > 10 {
		t.Errorf("time is %d ms behind a source that was late 40 s ago", behind)
	}
	tb.put(slow, tb.now.Load()-5000*ms)
	if low := tb.pass(1); tb.now.Load()-low > (MaxDelay + 2*time.Millisecond).Nanoseconds() {
		t.Errorf("a source holds time %d ms back, at most %s are waited for", (tb.now.Load()-low)/ms, MaxDelay)
	}
}

// What the processes were kept from doing while the node was busy is done before
// time passes over it.
func TestAfterAPauseOfTheSidecarWhatLayWaitingIsInTime(t *testing.T) {
	tb := newTable(0)
	s, _ := tb.open("a")
	tb.calm()
	low := tb.pass(1)
	tb.now.Add(500 * ms)
	if next := tb.pass(1); next-low > 10*ms {
		t.Errorf("time passed by %d ms before anybody could say anything", (next-low)/ms)
	}
	tb.put(s, tb.now.Load()-100*ms)
	tb.pass(300)
	if len(tb.taken) != 1 {
		t.Error("the fact is not taken")
	}
}

// A node that is short of processors shows that in the sidecar's own sleep.
func TestWhoOversleepsExpectsTheOthersToBeLate(t *testing.T) {
	tb := newTable(0)
	quiet, _ := tb.open("quiet")
	tb.calm()
	tb.Overslept(60 * time.Millisecond)
	tb.pass(60)
	tb.put(quiet, tb.now.Load()-50*ms)
	if low := tb.pass(1); low > tb.now.Load()-50*ms {
		t.Errorf("time has passed a fact that is as late as was to be expected by %d ms", (low-tb.now.Load())/ms+50)
	}
	tb.calm()
	tb.Overslept(time.Hour)
	if low := tb.pass(20); tb.now.Load()-low > 2*MaxDelay.Nanoseconds() {
		t.Errorf("time is %d ms behind", (tb.now.Load()-low)/ms)
	}
}

func TestASourceThatCatchesUpHoldsTheOthersBackForSoLong(t *testing.T) {
	tb := newTable(0)
	_, standA := tb.open("a")
	b, _ := tb.open("b")
	tb.calm()
	standA.Store(uint32(CatchingUp))
	tb.put(b, tb.now.Load())
	tb.pass(HoldLimit.Milliseconds() - 20)
	if len(tb.taken) != 0 {
		t.Fatal("time passed what is being caught up with")
	}
	tb.pass(50)
	if len(tb.taken) != 1 {
		t.Fatal("a snapshot that does not end stops the others")
	}
	tb.put(b, tb.now.Load())
	tb.pass(20)
	if len(tb.taken) != 2 {
		t.Error("it does so again")
	}
	standA.Store(uint32(Live))
	tb.pass(1000)
	standA.Store(uint32(CatchingUp))
	tb.put(b, tb.now.Load())
	tb.pass(50)
	if len(tb.taken) != 2 {
		t.Error("it may not do so after a time of good behaviour")
	}
	tb.pass(100)
	if len(tb.taken) != 3 {
		t.Error("it may do so for longer than a tenth of that time")
	}
}

func TestASnapshotIsInTimeAndItsEndFreesTheOthers(t *testing.T) {
	tb := newTable(0)
	a, standA := tb.open("a")
	b, _ := tb.open("b")
	standA.Store(uint32(CatchingUp))
	tb.pass(10)
	tb.put(b, tb.now.Load())
	at := tb.now.Load() - ms
	tb.pass(200)
	tb.put(a, at) // as of then, 200 ms ago
	tb.pass((MaxDelay + 10*time.Millisecond).Milliseconds())
	if got := tb.times(); len(got) != 2 || got[0] != at/ms {
		t.Errorf("taken: %v", got)
	}
}

func TestOneThatIsAwayHoldsNobodyBack(t *testing.T) {
	tb := newTable(0)
	_, stand := tb.open("a")
	b, _ := tb.open("b")
	stand.Store(uint32(Away))
	tb.calm()
	tb.put(b, tb.now.Load())
	tb.pass(10)
	if len(tb.taken) != 1 {
		t.Error("it does")
	}
}

func TestTimesThatCannotBeAreRefusedAndCounted(t *testing.T) {
	tb := newTable(0)
	s, _ := tb.open("a")
	now := tb.now.Load()
	for _, at := range []int64{now + 51*ms, lifecycle.MaxTime, now - 30001*ms, -lifecycle.MaxTime} {
		tb.put(s, at)
	}
	tb.put(s, now+49*ms)
	tb.pass(5)
	if len(tb.taken) != 0 {
		t.Error("a fact is taken before its time")
	}
	tb.pass(100)
	st := s.Stats()
	if len(tb.taken) != 1 || st.Lost[Ahead] != 2 || st.Lost[Behind] != 2 || st.Put != 5 || st.Taken != 1 {
		t.Errorf("%d taken, %+v", len(tb.taken), st)
	}
}

func TestAFullSourceWaitsAndNothingIsLost(t *testing.T) {
	one := size(&lifecycle.Fact{})
	tb := newTable(10 * one)
	s, _ := tb.open("a")
	const facts = 1000
	var wg sync.WaitGroup
	wg.Go(func() {
		for range facts {
			tb.put(s, tb.now.Load())
		}
	})
	most := 0
	for end := time.Now().Add(20 * time.Second); len(tb.taken) < facts && time.Now().Before(end); {
		most = max(most, s.Stats().Bytes)
		tb.pass(1)
		time.Sleep(10 * time.Microsecond)
	}
	wg.Wait()
	if len(tb.taken) != facts || most > 10*one {
		t.Errorf("%d of %d facts, %d bytes of %d", len(tb.taken), facts, most, 10*one)
	}
}

func TestALargeFactFitsWhereNothingElseWaits(t *testing.T) {
	tb := newTable(1)
	s, _ := tb.open("a")
	s.Put(t.Context(), &lifecycle.Fact{T: tb.now.Load(), Pages: make(lifecycle.Runs, 1000)})
	tb.pass(10)
	if len(tb.taken) != 1 {
		t.Error("it waits for ever")
	}
}

func TestAClosedSourceLosesWhatComesAndIsForgotten(t *testing.T) {
	tb := newTable(0)
	s, _ := tb.open("a")
	tb.put(s, tb.now.Load())
	s.Close()
	tb.put(s, tb.now.Load())
	tb.pass(10)
	st := s.Stats()
	if len(tb.taken) != 1 || st.Lost[Closed] != 1 || len(tb.sources) != 0 {
		t.Errorf("%d taken, %+v, %d sources", len(tb.taken), st, len(tb.sources))
	}
}

func TestWhoWaitsForRoomIsFreedByItsContext(t *testing.T) {
	tb := newTable(1)
	s, _ := tb.open("a")
	tb.put(s, tb.now.Load())
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	s.Put(ctx, &lifecycle.Fact{T: tb.now.Load()})
	if st := s.Stats(); st.Lost[Closed] != 1 || st.Put != 2 {
		t.Errorf("%+v", st)
	}
}

func TestItIsKnownWhenAFactCame(t *testing.T) {
	tb := newTable(64 << 20)
	a, _ := tb.open("a")
	b, _ := tb.open("b")
	tb.put(b, 7*ms+900*ms)
	for i := range int64(2 * arrivals) {
		a.Put(t.Context(), &lifecycle.Fact{T: tb.now.Load() - 10*ms + i})
	}
	tb.now.Add(ms)
	a.Put(t.Context(), &lifecycle.Fact{T: tb.now.Load()})
	if at, known := tb.Arrived("a", tb.now.Load()); !known || at != tb.now.Load() {
		t.Errorf("%d, %v", at, known)
	}
	if at, known := tb.Arrived("elsewhere", 907*ms); !known || at != tb.now.Load()-ms {
		t.Errorf("%d, %v", at, known)
	}
	if _, known := tb.Arrived("a", 990*ms); known {
		t.Error("what came long ago is still known")
	}
}

func BenchmarkPutAndTake(b *testing.B) {
	in := New(Config{Now: func() int64 { return time.Now().UnixNano() }, QueueBytes: 1 << 30})
	s := in.Open("a", func() Standing { return Live })
	facts := make([]lifecycle.Fact, 1<<17) // more than wait at a time
	for i := range b.N {
		f := &facts[i%len(facts)]
		f.T = time.Now().UnixNano()
		s.Put(b.Context(), f)
		if i%200 == 0 {
			in.Take(func(*lifecycle.Fact) {})
		}
	}
}
