package intake

import (
	"context"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

func (tb *table) remote() (*Source, *Standing) {
	stand := Live
	return tb.OpenRemote("far", 1<<20, func() Standing { return stand }), &stand
}

// What another node has not said yet is waited for: its absence would accuse.
func TestTimeComesNoFurtherThanAnotherNodeSaysThatItHas(t *testing.T) {
	tb := newTable(0)
	far, _ := tb.remote()
	here, _ := tb.open("here")
	far.Heard(tb.now.Load())
	said := tb.now.Load()
	tb.put(here, said+2*ms)
	if low := tb.pass(300); low > said || len(tb.taken) != 0 {
		t.Fatalf("time is %d ms beyond what was said, and %d facts were taken", (low-said)/ms, len(tb.taken))
	}
	far.PutAt(context.Background(), &lifecycle.Fact{T: 1, Inst: "far"}, said+ms)
	far.Heard(tb.now.Load())
	tb.pass(20)
	if len(tb.taken) != 2 || tb.taken[0].Inst != "far" {
		t.Errorf("taken %v: a fact on another clock has its place by this one", tb.taken)
	}
}

func TestAnotherNodesSilenceIsWaitedForUntilItsOwnerLetsGo(t *testing.T) {
	for _, told := range []bool{false, true} {
		tb := newTable(0)
		far, stand := tb.remote()
		said := tb.now.Load()
		if far.Heard(said); told {
			far.Reached(said)
		}
		if low := tb.pass(5000); low > said {
			t.Errorf("time is %d ms beyond what was said", (low-said)/ms)
		}
		*stand = Away
		if low := tb.pass(2); tb.now.Load()-low > 10*ms {
			t.Errorf("one that is away holds time back by %d ms", (tb.now.Load()-low)/ms)
		}
	}
}

// Before it lets go, its owner says what is not known: that comes before all that
// happened meanwhile.
func TestWhatIsInterjectedComesBeforeWhatWaited(t *testing.T) {
	tb := newTable(0)
	far, stand := tb.remote()
	here, _ := tb.open("here")
	far.Heard(tb.now.Load())
	tb.pass(20)
	tb.put(here, tb.now.Load()-ms) // of before, and not taken yet
	tb.pass(100)
	if len(tb.taken) != 0 {
		t.Fatal("a fact was taken before the other node had come so far")
	}
	far.Interject(7, &lifecycle.Fact{Inst: "far", Pool: "first"}, &lifecycle.Fact{Inst: "far", Pool: "second"})
	*stand = Away
	tb.pass(20)
	if len(tb.taken) != 3 || tb.taken[0].Pool != "first" || tb.taken[1].Pool != "second" || tb.taken[2].Inst != "here" {
		t.Fatalf("taken %v", tb.taken)
	}
	later := tb.now.Load() + 5*ms
	far.InterjectFrom(later, 7, &lifecycle.Fact{Inst: "far"})
	if tb.pass(20); len(tb.taken) != 4 || tb.taken[3].T <= later {
		t.Errorf("what holds from later on is dated %d", tb.taken[len(tb.taken)-1].T)
	}
	if tb.taken[0].T >= tb.taken[1].T || tb.taken[1].T-7 >= tb.taken[2].T {
		t.Errorf("at %d, %d and %d", tb.taken[0].T, tb.taken[1].T, tb.taken[2].T)
	}
}

// The way between the nodes is not held to be the engine's delay.
func TestADelayOfAnotherNodesFactsIsMeasuredByItsOwnWord(t *testing.T) {
	tb := newTable(0)
	far, _ := tb.remote()
	for range 200 { // 100 ms on the way, 5 ms late there
		far.Heard(tb.now.Load() - 100*ms)
		far.PutAt(context.Background(), &lifecycle.Fact{Inst: "far"}, tb.now.Load()-105*ms)
		tb.pass(1)
	}
	if d := far.Stats().Delay; d < 5*ms || d > 15*ms {
		t.Errorf("expected with a delay of %d ms", d/ms)
	}
}

func TestAnotherNodesQueueIsBounded(t *testing.T) {
	tb := newTable(0)
	far, _ := tb.remote()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	n := 0
	for far.PutAt(ctx, &lifecycle.Fact{Inst: "far"}, tb.now.Load()) {
		n++
	}
	st := far.Stats()
	if st.Bytes > 1<<20 || n < 100 || st.Lost[Closed] != 1 {
		t.Errorf("%d facts, %d bytes wait, lost %v", n, st.Bytes, st.Lost)
	}
}
