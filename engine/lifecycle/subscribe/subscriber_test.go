package subscribe

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/stream"
)

// 2. An engine's word is a claim about itself. What it says in another's name, or
// as if it had been seen, is dropped and counted.
func TestAnEngineCannotWitness(t *testing.T) {
	e := newScripted(t)
	s, heard := e.follow()
	as := func(change func(*lifecycle.Fact)) *lifecycle.Fact {
		f := claim(1, 1)
		change(f)
		return f
	}
	bad := []*lifecycle.Fact{
		as(func(f *lifecycle.Fact) { f.Src = lifecycle.RDMA }),
		as(func(f *lifecycle.Fact) { f.Src = lifecycle.Sidecar }),
		as(func(f *lifecycle.Fact) { f.Inst = "another" }),
		as(func(f *lifecycle.Fact) { f.Epoch = lifecycle.Opt[uint64]{} }),
		as(func(f *lifecycle.Fact) { f.Epoch = lifecycle.Some(uint64(9)) }),
		as(func(f *lifecycle.Fact) { f.Ev, f.Of, f.Complete = lifecycle.SourceCoverage, lifecycle.RDMA, true }),
		as(func(f *lifecycle.Fact) { f.Ev, f.Addr, f.Bytes = lifecycle.BytesMoved, 4096, 64 }),
		as(func(f *lifecycle.Fact) { f.Ev, f.Of, f.GapTo = lifecycle.StreamGap, lifecycle.Engine, 9 }),
		as(func(f *lifecycle.Fact) { f.Ev, f.Of, f.Count = lifecycle.EventsLost, lifecycle.Engine, 9 }),
		as(func(f *lifecycle.Fact) { f.Ev, f.NS = lifecycle.ClockOffset, 1<<40 }),
		as(func(f *lifecycle.Fact) { f.Ev, f.Of = lifecycle.Watermark, lifecycle.RDMA }),
		as(func(f *lifecycle.Fact) {
			f.Ev, f.VRAM, f.Bytes = lifecycle.VRAMUsage, &lifecycle.Usage{GPU: "0", PID: 1}, 1
		}),
		as(func(f *lifecycle.Fact) { f.Ev, f.Pool = lifecycle.PagesRead, "" }), // none of the format
	}
	e.say(message(1, slices.Concat([]*lifecycle.Fact{claim(1, 1)}, bad, []*lifecycle.Fact{claim(1, 2)})...))
	waitFor(t, "two facts", func() bool { return len(heard()) == 2 })
	for _, f := range heard() {
		if f.Ev != lifecycle.PeerGone || f.Src != lifecycle.Engine || f.Node != "n1" || f.Inst != "e" {
			t.Errorf("handed on %s", f.AppendJSON(nil))
		}
	}
	st := counted(t, s)
	if st.Lost[ForeignFact] != 5 || st.Lost[NotAClaim] != 7 || st.Lost[BadFact] != 1 || st.Lost[EngineQueue] != 0 {
		t.Errorf("%+v", st)
	}
}

// What is no batch is counted, and the stream goes on after it.
func TestWhatIsNoBatchIsCountedAndPassedOver(t *testing.T) {
	e := newScripted(t)
	s, heard := e.follow()
	e.say(stream.Message{Seq: 1, Payload: []byte("no batch")})
	e.pub.Publish(stream.Topic("e"), []byte("short"))
	e.sayAs(stream.Topic("e-other"), message(1, claim(1, 1))) // its topic begins like ours
	e.say(message(2, claim(1, 1)))
	waitFor(t, "the fact", func() bool { return len(heard()) == 1 })
	if st := counted(t, s); st.Lost[BadBatch] != 2 || st.Replays != 0 {
		t.Errorf("%+v", st)
	}
}

// 1. Each fact once and in order, however batches come: twice, or with a hole that
// a replay fills.
func TestEachFactComesOnceAndInOrder(t *testing.T) {
	e := newScripted(t)
	var batches []stream.Message
	for i := range uint64(10) {
		batches = append(batches, message(i, claim(1, i)))
	}
	e.answers(func(r stream.Request) []stream.Message {
		if r.Snapshot {
			return []stream.Message{message(0, marker(1, 0))}
		}
		return batches[r.From:] // and beyond what was asked for
	})
	s, heard := e.follow()
	for _, i := range []int{1, 1, 2, 5, 5, 3, 9, 8} {
		e.say(batches[i])
	}
	waitFor(t, "nine facts", func() bool { return len(heard()) >= 9 })
	for i, f := range heard() {
		if f.Seq.V != uint64(i+1) {
			t.Fatalf("fact %d has number %d", i, f.Seq.V)
		}
	}
	waitFor(t, "the last batch", func() bool { return s.Stats().Twice >= 4 })
	if st := counted(t, s); len(heard()) != 9 || st.Replays != 2 || st.Gaps != 0 {
		t.Errorf("%d facts, %+v", len(heard()), st)
	}
}

// What the engine's own queue lost shows in the facts' numbers, and is counted as
// such; the numbers are handed on as they are.
func TestWhatTheEngineLostIsCountedAsItsLoss(t *testing.T) {
	e := newScripted(t)
	s, heard := e.follow()
	e.say(message(1, claim(1, 1), claim(1, 5)))
	e.say(message(2, claim(1, 6), claim(1, 8)))
	waitFor(t, "four facts", func() bool { return len(heard()) == 4 })
	if st := counted(t, s); st.Lost[EngineQueue] != 4 || st.Gaps != 0 {
		t.Errorf("%+v", st)
	}
	if EngineQueue.Stage() != "engine" || EngineQueue.Reason() != "queue full" {
		t.Error(EngineQueue.Stage(), EngineQueue.Reason())
	}
}

// A gap stands where it belongs: after what began in it, before what holds.
func TestAGapIsToldWithinTheSnapshotThatFollowsIt(t *testing.T) {
	e := newScripted(t)
	s, heard := e.follow()
	e.say(message(1, claim(1, 1)))
	waitFor(t, "the first fact", func() bool { return len(heard()) == 1 })
	e.answers(func(r stream.Request) []stream.Message {
		if !r.Snapshot {
			return nil // it is kept no longer
		}
		return []stream.Message{
			message(7, marker(1, 20), held(1, 120, lifecycle.RequestAdmitted)),
			message(7, held(1, 120, lifecycle.PoolOpened), held(1, 120, lifecycle.PagesReserved)),
		}
	})
	e.say(message(8, claim(1, 21)))
	waitFor(t, "the last fact", func() bool { return len(heard()) == 6 })
	got := heard()
	want := []lifecycle.Ev{lifecycle.PeerGone, lifecycle.RequestAdmitted, lifecycle.StreamGap, lifecycle.PoolOpened, lifecycle.PagesReserved, lifecycle.PeerGone}
	for i, f := range got {
		if f.Ev != want[i] {
			t.Fatalf("fact %d is %s, want %s", i, f.Ev, want[i])
		}
	}
	if g := got[2]; g.GapFrom != 2 || g.GapTo != 20 || g.T != 120 || g.Src != lifecycle.Sidecar || g.Node != "n1" || g.Epoch.V != 1 {
		t.Errorf("%s", g.AppendJSON(nil))
	}
	if st := counted(t, s); st.Gaps != 1 || st.Lost[GapNotKept] != 19 {
		t.Errorf("%+v", st)
	}
}

// A snapshot is taken whole or not at all, however long it takes to get one.
func TestASnapshotIsTakenWholeOrNotAtAll(t *testing.T) {
	pool, page := held(1, 120, lifecycle.PoolOpened), held(1, 120, lifecycle.PagesReserved)
	bad := map[string]func(stream.Request) []stream.Message{
		"nothing":   func(stream.Request) []stream.Message { return nil },
		"silence":   nil,
		"no marker": func(stream.Request) []stream.Message { return []stream.Message{message(7, pool, page)} },
		"of two times": func(stream.Request) []stream.Message {
			return []stream.Message{message(7, marker(1, 2), pool), message(8, page)}
		},
		"no batch": func(stream.Request) []stream.Message { return []stream.Message{{Seq: 7, Payload: []byte("x")}} },
		"of another": func(stream.Request) []stream.Message {
			m := marker(1, 2)
			m.Inst = "x"
			return []stream.Message{message(7, m, pool)}
		},
		"longer than taken": func(stream.Request) []stream.Message {
			return slices.Repeat([]stream.Message{message(7, marker(1, 2), pool)}, 40)
		},
	}
	for name, answer := range bad {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newScripted(t)
			e.cfg.SnapshotBytes = 2000
			e.answers(answer)
			s, heard := e.follow()
			e.say(message(1, claim(1, 1)))
			waitFor(t, "another try", func() bool { return s.Stats().Retries >= 2 })
			if len(heard()) > 0 {
				t.Fatalf("handed on %d facts of it", len(heard()))
			}
			e.answers(func(stream.Request) []stream.Message { return []stream.Message{message(0, marker(1, 0), pool, page)} })
			waitFor(t, "the snapshot and the stream", func() bool { return len(heard()) == 3 })
			counted(t, s)
		})
	}
}

// A replay that goes back, or that another process answers, is not believed: a
// snapshot decides.
func TestAReplayThatGoesBackIsNotBelieved(t *testing.T) {
	for name, replayed := range map[string][]stream.Message{
		"back":             {message(3, claim(1, 3)), message(2, claim(1, 2))},
		"of another epoch": {message(2, claim(2, 2)), message(3, claim(2, 3)), message(4, claim(2, 4))},
	} {
		t.Run(name, func(t *testing.T) {
			e := newScripted(t)
			s, heard := e.follow()
			e.say(message(1, claim(1, 1)))
			waitFor(t, "the first fact", func() bool { return len(heard()) == 1 })
			e.answers(func(r stream.Request) []stream.Message {
				if r.Snapshot {
					return []stream.Message{message(4, marker(1, 4), held(1, 104, lifecycle.PoolOpened))}
				}
				return replayed
			})
			e.say(message(5, claim(1, 5)))
			waitFor(t, "the last fact", func() bool { h := heard(); return h[len(h)-1].Seq.V == 5 })
			for _, f := range heard() {
				if f.Epoch.V != 1 {
					t.Errorf("handed on %s", f.AppendJSON(nil))
				}
			}
			if st := counted(t, s); st.Gaps != 1 || st.Restarts != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// A new epoch begins anew, even where its numbers go on as if nothing had been;
// what comes late of the one before is dropped.
func TestANewEpochBeginsAnew(t *testing.T) {
	e := newScripted(t)
	s, heard := e.follow()
	e.say(message(1, claim(1, 1)))
	waitFor(t, "the first fact", func() bool { return len(heard()) == 1 })
	e.answers(func(r stream.Request) []stream.Message {
		return []stream.Message{message(1, marker(2, 1), held(2, 120, lifecycle.PoolOpened))}
	})
	e.say(message(2, claim(2, 2)))
	e.say(message(2, claim(1, 2)))
	e.say(message(3, claim(2, 3)))
	waitFor(t, "the last fact", func() bool { return len(heard()) == 4 })
	epochs := []uint64{}
	for _, f := range heard() {
		epochs = append(epochs, f.Epoch.V)
	}
	if !slices.Equal(epochs, []uint64{1, 2, 2, 2}) {
		t.Errorf("epochs %v", epochs)
	}
	if st := counted(t, s); st.Restarts != 1 || st.Epoch != 2 || st.Gaps != 0 {
		t.Errorf("%+v", st)
	}
}

// Silence is a state, not an end.
func TestSilenceIsAState(t *testing.T) {
	e := newScripted(t)
	s, heard := e.follow()
	e.say(message(1, claim(1, 1)))
	waitFor(t, "the first fact", func() bool { return len(heard()) == 1 && s.Stats().State == Live })
	waitFor(t, "silence", func() bool { return s.Stats().State == Waiting && s.Stats().Silences > 0 })
	e.say(message(2, claim(1, 2)))
	waitFor(t, "the second fact", func() bool { return len(heard()) == 2 && s.Stats().State == Live })
	if got := strings.Join([]string{Waiting.String(), CatchingUp.String(), Live.String()}, ", "); got != "waiting, catching up, live" {
		t.Error(got)
	}
}

func TestAConfigurationWithoutAnInstanceIsRefused(t *testing.T) {
	if _, err := New(Config{}); !errors.Is(err, ErrConfig) {
		t.Error(err)
	}
	if _, err := New(Config{Instance: strings.Repeat("x", 200)}); !errors.Is(err, stream.ErrPath) {
		t.Error(err)
	}
	s, err := New(Config{Instance: "e", Endpoint: "no endpoint", ReplayEndpoint: "ipc://@x"})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(t.Context(), func(*lifecycle.Fact) {}) }()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("an endpoint that is none can be followed")
		}
	case <-time.After(10 * time.Second):
		t.Error("an endpoint that is none is followed for ever")
	}
}
