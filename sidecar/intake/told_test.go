package intake

import (
	"testing"
	"time"
)

// A source that says how far it has come is waited for while it has a backlog and
// works it off, however long that is: what comes is late for nobody.
func TestABacklogThatIsWorkedOffMakesNothingLate(t *testing.T) {
	tb := newTable(0)
	s, _ := tb.open("")
	tb.calm()
	begun := tb.now.Load()
	for n := range int64(400) { // a turn each 10 ms, of 5 ms of what happened
		at := begun + n*5*ms
		tb.put(s, at)
		s.Reached(at)
		if low := tb.pass(10); low > at {
			t.Fatalf("turn %d: time has passed what comes next by %d ms", n, (low-at)/ms)
		}
	}
	if len(tb.taken) != 400 || tb.now.Load()-begun < 3*MaxDelay.Nanoseconds() {
		t.Errorf("%d facts are taken", len(tb.taken))
	}
}

// One that comes no further holds time back for so long and no longer.
func TestASourceThatComesNoFurtherIsNotWaitedFor(t *testing.T) {
	tb := newTable(0)
	s, _ := tb.open("")
	tb.calm()
	s.Reached(tb.now.Load())
	stood := tb.now.Load()
	if low := tb.pass(SilenceLimit.Milliseconds() - 10); low > stood {
		t.Errorf("time has passed it by %d ms at once", (low-stood)/ms)
	}
	low := tb.pass(SilenceLimit.Milliseconds())
	if behind := (tb.now.Load() - low) / ms; behind > SilenceLimit.Milliseconds()+1 {
		t.Errorf("time is %d ms behind, at most %v are waited", behind, SilenceLimit)
	}
}

// One that waits for room is at work too: what it put in is taken, and what it holds
// in its hand is not late.
func TestASourceThatWaitsForRoomMakesNothingLate(t *testing.T) {
	tb := newTable(1) // room for one fact at a time
	s, _ := tb.open("")
	tb.calm()
	first := tb.now.Load()
	s.Reached(first - 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := range int64(3) {
			tb.put(s, first+n)
		}
	}()
	waits := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.pressed
	}
	await(t, "the source waits for room", waits)
	tb.now.Add((SilenceLimit + time.Second).Nanoseconds())
	await(t, "all is taken", func() bool {
		if low := tb.pass(1); len(tb.taken) < 3 && low > first+2 {
			t.Fatal("time has passed what waits for room")
		}
		return len(tb.taken) == 3
	})
	<-done
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}
