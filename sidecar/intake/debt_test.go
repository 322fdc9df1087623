package intake

import (
	"context"
	"slices"
	"testing"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// see is bytes that a source sees to arrive at an instance.
func (tb *table) see(s *Source, inst string, at int64) {
	s.Put(context.Background(), &lifecycle.Fact{T: at, Inst: inst, Src: lifecycle.TCP, Ev: lifecycle.BytesMoved})
}

// watched is an instance, and who sees what happens to it, after a long calm.
func watched(queueBytes int) (tb *table, engine, probe *Source) {
	tb = newTable(queueBytes)
	engine, _ = tb.open("a")
	probe, _ = tb.open("")
	tb.calm()
	tb.put(engine, tb.now.Load())
	tb.pass(2)
	return tb, engine, probe
}

// Promise: what an engine said before bytes were seen to arrive is taken before them,
// though it comes up to MaxDelay after them and was never late until now.
func TestWhatIsSeenWaitsForWhatItsInstanceSays(t *testing.T) {
	tb, engine, probe := watched(0)
	heard, seen := engine.last, tb.now.Load()
	tb.see(probe, "a", seen)
	if low := tb.pass(MaxDelay.Milliseconds() - 10); low > heard {
		t.Fatalf("time passed what was heard by %d ms", (low-heard)/ms)
	}
	tb.taken = nil
	tb.put(engine, seen-ms)
	tb.put(engine, seen+ms)
	tb.pass(5)
	if got := tb.times(); !slices.Equal(got, []int64{seen/ms - 1, seen / ms, seen/ms + 1}) {
		t.Errorf("taken at %v, the bytes at %d", got, seen/ms)
	}
}

// Promise: so does what is judged by what a sender says of the pages that it sent, or by
// what the engine says of a transfer that was seen on the wire.
func TestWhatNamesAnInstanceWaitsForWhatThatSays(t *testing.T) {
	for name, f := range map[string]lifecycle.Fact{
		"read from an address of its": {Inst: "b", From: "a", FromAddr: lifecycle.Some[uint64](1), Src: lifecycle.RDMA, Ev: lifecycle.BytesMoved},
		"started on the wire":         {Inst: "a", Src: lifecycle.Wire, Ev: lifecycle.TransferStarted},
		"completed on the wire":       {Inst: "a", Src: lifecycle.Wire, Ev: lifecycle.TransferCompleted},
	} {
		tb, engine, probe := watched(0)
		heard, seen := engine.last, tb.now.Load()
		f.T = seen
		probe.Put(t.Context(), &f)
		if low := tb.pass(MaxDelay.Milliseconds() - 10); low > heard {
			t.Errorf("%s: time passed what was heard by %d ms", name, (low-heard)/ms)
		}
	}
}

// Near misses: bytes of before what was heard, those of another instance, and what the
// engine says itself hold nobody back.
func TestWhatOwesNothingHoldsNobodyBack(t *testing.T) {
	for name, put := range map[string]func(tb *table, engine, probe *Source){
		"of before": func(tb *table, engine, probe *Source) { tb.see(probe, "a", engine.last-1) },
		"another's": func(tb *table, _, probe *Source) { tb.see(probe, "b", tb.now.Load()) },
		"its own":   func(tb *table, engine, _ *Source) { tb.put(engine, tb.now.Load()) },
		"no bytes":  func(tb *table, _, probe *Source) { tb.put(probe, tb.now.Load()) },
		"from nowhere told": func(tb *table, _, probe *Source) {
			probe.Put(context.Background(), &lifecycle.Fact{T: tb.now.Load(), Inst: "b", From: "a", Src: lifecycle.TCP, Ev: lifecycle.BytesMoved})
		},
		"by its own claim": func(tb *table, _, probe *Source) { tb.claim(probe, "a") },
	} {
		tb, engine, probe := watched(0)
		put(tb, engine, probe)
		low := tb.pass(40)
		if behind := (tb.now.Load() - low) / ms; behind > 20 {
			t.Errorf("%s: time is %d ms behind", name, behind)
		}
	}
}

func (tb *table) claim(s *Source, inst string) {
	s.Put(context.Background(), &lifecycle.Fact{T: tb.now.Load(), Inst: inst, Src: lifecycle.Engine, Ev: lifecycle.BytesMoved})
}

// Promise: an instance that says nothing of what is seen of it is waited for ever less,
// and as long as before once it has spoken a few times.
func TestWhoSaysNothingOfWhatIsSeenIsWaitedForEverLess(t *testing.T) {
	tb, engine, probe := watched(0)
	waits := func() (millis int64) {
		seen := tb.now.Load()
		tb.see(probe, "a", seen)
		for ; tb.pass(1) < seen; millis++ {
		}
		tb.pass(2 * MaxDelay.Milliseconds())
		return millis
	}
	var all []int64
	for range 9 {
		all = append(all, waits())
	}
	if all[0] < MaxDelay.Milliseconds()-1 || all[0] > MaxDelay.Milliseconds()+5 || all[8] > 20 || !slices.IsSortedFunc(all, func(a, b int64) int { return int(b - a) }) {
		t.Errorf("waited %v ms", all)
	}
	for range 8 {
		seen := tb.now.Load()
		tb.see(probe, "a", seen)
		tb.pass(2)
		tb.put(engine, seen+1)
		tb.pass(2 * MaxDelay.Milliseconds())
	}
	if again := waits(); again < MaxDelay.Milliseconds()-1 {
		t.Errorf("waited %d ms for one that speaks", again)
	}
}

// Promise: an engine that is heard, and never of what was seen last, is not waited for
// less: it is at work.
func TestWhoIsHeardBehindWhatIsSeenIsWaitedFor(t *testing.T) {
	tb, engine, probe := watched(0)
	for range 5 * MaxDelay.Milliseconds() / 100 {
		seen := tb.now.Load()
		tb.see(probe, "a", seen)
		if low := tb.pass(100); low > seen {
			t.Fatalf("time passed what was seen by %d ms", (low-seen)/ms)
		}
		tb.see(probe, "a", tb.now.Load())
		tb.put(engine, seen+1)
		tb.pass(1)
	}
}

// Promise: while a source waits for room nobody is held back for what was seen.
func TestWhoWaitsForRoomIsNotHeldBack(t *testing.T) {
	tb, _, probe := watched(1) // room for one fact at a time
	done := make(chan struct{})
	first := tb.now.Load()
	go func() {
		defer close(done)
		for n := range int64(3) {
			tb.see(probe, "a", first+n)
		}
	}()
	start := tb.now.Load()
	await(t, "all is taken", func() bool {
		probe.mu.Lock()
		pressed := probe.pressed
		probe.mu.Unlock()
		if pressed {
			tb.pass(1)
		}
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
	if took := (tb.now.Load() - start) / ms; took > 100 {
		t.Errorf("it waited %d ms for room", took)
	}
}
