package ledger

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

var somebody = poster{"prefill-0", "x"}

// What was posted and never seen to end is bounded, for all instances together, and
// what is beyond is counted, and known to be.
func TestStraysAreBounded(t *testing.T) {
	l := New(Config{Limits: Limits{Strays: 100}})
	a, b := l.instance("a", "n"), l.instance("b", "n")
	for i := range uint64(90) {
		l.stray(a, somebody, 2*i, 2*i+1, false)
	}
	for i := range uint64(30) {
		l.stray(b, somebody, 2*i, 2*i+1, false)
	}
	if l.strays != 100 || l.stats.Forgotten.Strays != 20 || a.strays.beyond != 0 || b.strays.beyond != strayTime {
		t.Errorf("%d are kept, %d forgotten, beyond until %d, %d", l.strays, l.stats.Forgotten.Strays, a.strays.beyond, b.strays.beyond)
	}
	for i := range uint64(90) {
		if posted, landed := l.endStray(a, somebody, 2*i, 2*i+1); !posted || landed {
			t.Fatalf("%d: posted %v, landed %v", i, posted, landed)
		}
	}
	if l.strays != 10 || len(a.strays.all) != 0 {
		t.Errorf("%d are kept after those of one instance ended, in %d transfers of it", l.strays, len(a.strays.all))
	}
	if l.forgetStrays(b); l.strays != 0 || b.strays.beyond != 0 {
		t.Errorf("%d are kept after a restart", l.strays)
	}
}

// Where room is needed, what is so old that its end was lost is forgotten, and costs
// no sight; what is younger stays, and what is posted beyond it costs sight for as long
// as its end may come.
func TestOldStraysMakeRoom(t *testing.T) {
	l := New(Config{Limits: Limits{Strays: 10}})
	inst := l.instance("a", "n")
	for i := range uint64(10) {
		l.now = int64(i) * 1e9
		l.stray(inst, poster{"p", fmt.Sprint(i)}, 0, 1, false)
	}
	l.now = 5e9
	l.strayLanded(inst, poster{"p", "0"})
	post := func(at int64, xfer string) {
		l.now = at
		l.stray(inst, poster{"p", xfer}, 0, 1, false)
	}
	post(strayTime, "early")
	if l.strays != 10 || inst.strays.beyond != 2*strayTime || l.stats.Forgotten.Strays != 1 {
		t.Errorf("%d are kept, %d forgotten, beyond until %d", l.strays, l.stats.Forgotten.Strays, inst.strays.beyond)
	}
	post(strayTime+2e9, "late") // 1 and 2 are old; 0 landed later
	kept := slices.Sorted(func(yield func(string) bool) {
		for of := range inst.strays.all {
			if !yield(of.xfer) {
				return
			}
		}
	})
	if want := []string{"0", "3", "4", "5", "6", "7", "8", "9", "late"}; !slices.Equal(kept, want) || l.strays != len(want) || l.stats.Forgotten.Strays != 1 {
		t.Errorf("kept are %v (%d), want %v; %d forgotten", kept, l.strays, want, l.stats.Forgotten.Strays)
	}
}

// Ends that cut what was posted into pieces make no more of them than are kept.
func TestStraysAreBoundedWhenCut(t *testing.T) {
	l := New(Config{Limits: Limits{Strays: 10}})
	inst := l.instance("a", "n")
	l.stray(inst, somebody, 0, 1000, true)
	for i := range uint64(100) {
		l.endStray(inst, somebody, 4*i+1, 4*i+2)
		if l.strays > 10 {
			t.Fatalf("%d are kept", l.strays)
		}
	}
	if inst.strays.beyond == 0 || l.stats.Forgotten.Strays != 11 {
		t.Errorf("beyond until %d, forgotten: %d", inst.strays.beyond, l.stats.Forgotten.Strays)
	}
}

// Whatever is posted, completed and seen to end, in any order, each byte is what a map
// of bytes says that it is.
func TestStraysAreThoseOfEachByte(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		l := New(Config{})
		inst := l.instance("a", "n")
		flying, landed := map[uint64]bool{}, map[uint64]bool{}
		for range 20 {
			lo := rng.Uint64N(40)
			hi := lo + 1 + rng.Uint64N(10)
			all := func(m map[uint64]bool) bool {
				for x := lo; x < hi; x++ {
					if !m[x] {
						return false
					}
				}
				return true
			}
			switch rng.IntN(4) {
			case 0, 1:
				l.stray(inst, somebody, lo, hi, false)
				for x := lo; x < hi; x++ {
					flying[x] = true
				}
			case 2:
				l.strayLanded(inst, somebody)
				for x := range flying {
					landed[x] = true
				}
				clear(flying)
			default:
				down, up := all(landed), all(flying)
				posted, was := l.endStray(inst, somebody, lo, hi)
				if was != down || posted != (down || up) {
					t.Fatalf("[%d, %d): posted %v, landed %v; want %v, %v", lo, hi, posted, was, down || up, down)
				}
				for x := lo; x < hi; x++ {
					delete(flying, x)
					delete(landed, x)
				}
			}
		}
		if sum := len(flying) + len(landed); (sum == 0) != (l.strays == 0) || (sum == 0) != (len(inst.strays.all) == 0) {
			t.Fatalf("%d bytes are left, in %d pieces of %d transfers", sum, l.strays, len(inst.strays.all))
		}
	}
}

// What was posted to an instance goes with the last of its pools.
func TestStraysGoWithThePools(t *testing.T) {
	l := New(Config{})
	step := func(at int64, ev lifecycle.Ev, pool string, spec *lifecycle.PoolSpec) {
		l.Step(&lifecycle.Fact{T: at, Node: "n", Inst: "a", Src: lifecycle.Engine, Ev: ev, Pool: pool, Spec: spec})
		l.Advance(at + 1e9)
	}
	step(1e9, lifecycle.PoolOpened, "kv", &lifecycle.PoolSpec{Pages: 8, PageTokens: 16})
	step(3e9, lifecycle.PoolOpened, "swa", &lifecycle.PoolSpec{Pages: 8, PageTokens: 16})
	l.stray(l.instance("a", "n"), somebody, 0, 1, false)
	if step(5e9, lifecycle.PoolClosed, "kv", nil); l.strays != 1 {
		t.Errorf("%d are kept while a pool is open, want 1", l.strays)
	}
	if step(7e9, lifecycle.PoolClosed, "swa", nil); l.strays != 0 {
		t.Errorf("%d are kept after the last pool", l.strays)
	}
}
