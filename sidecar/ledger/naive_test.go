package ledger

import (
	"math/rand/v2"
	"testing"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// Promise: spans hold for each page what was said of it last, whatever
// overlaps.
func TestSpansEqualAMapOfPages(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var ss spans
		naive := map[[2]int]uint64{}
		for tick := uint64(1); tick < 200; tick++ {
			pool, first, count := int32(rng.IntN(2)), uint32(rng.IntN(40)), uint32(1+rng.IntN(10))
			remove := rng.IntN(3) == 0
			if remove {
				ss.remove(pool, first, count)
			} else {
				ss.add(span{pool: pool, first: first, count: count, tick: tick})
			}
			for at := first; at < first+count; at++ {
				if remove {
					delete(naive, [2]int{int(pool), int(at)})
				} else {
					naive[[2]int{int(pool), int(at)}] = tick
				}
			}
			checkSpans(t, seed, ss, naive)
		}
	}
}

func checkSpans(t *testing.T, seed uint64, ss spans, naive map[[2]int]uint64) {
	t.Helper()
	for pool := range int32(2) {
		for at := range uint32(60) {
			s, want := ss.find(pool, at), naive[[2]int{int(pool), int(at)}]
			if (s == nil) != (want == 0) || s != nil && s.tick != want {
				t.Fatalf("seed %d: pool %d page %d: %+v, want tick %d", seed, pool, at, s, want)
			}
		}
	}
	for i := 1; i < len(ss); i++ {
		if !ss[i-1].before(ss[i].pool, ss[i].first) {
			t.Fatalf("seed %d: spans %+v and %+v are out of order", seed, ss[i-1], ss[i])
		}
	}
}

// Promise: ranges are the set of numbers that were put in and not taken out.
func TestRangesEqualASetOfNumbers(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		var r ranges
		naive := map[uint64]bool{}
		for range 200 {
			if from := rng.Uint64N(50); rng.IntN(2) == 0 {
				to := from + rng.Uint64N(6)
				r.add(from, to, 1000)
				for n := from; n <= to; n++ {
					naive[n] = true
				}
			} else if r.remove(from) != naive[from] {
				t.Fatalf("seed %d: whether %d was in is not told truly", seed, from)
			} else {
				delete(naive, from)
			}
			for n := range uint64(60) {
				if r.holds(n, n) != naive[n] {
					t.Fatalf("seed %d: %d in %v: want %v", seed, n, r, naive[n])
				}
			}
		}
	}
}

// Promise: ranges keep to their limit, and forget the oldest.
func TestRangesForgetTheOldest(t *testing.T) {
	var r ranges
	for n := uint64(0); n < 100; n += 2 {
		r.add(n, n, 10)
	}
	if len(r) != 10 || r.holds(0, 0) || !r.holds(98, 98) {
		t.Fatalf("%d ranges from %d to %d", len(r), r[0].from, r[len(r)-1].to)
	}
}

// Promise: timers come due by time, and those of one time in the order in
// which they were set.
func TestTimersComeDueInOrder(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 3))
		var ts timers
		for range 300 {
			ts.add(timer{at: rng.Int64N(50)})
		}
		last, n := timer{at: -1}, 0
		for at := int64(0); at < 50; at++ {
			for tm, due := ts.due(at); due; tm, due = ts.due(at) {
				if n++; tm.before(&last) || tm.at != at {
					t.Fatalf("seed %d: %+v came due at %d after %+v", seed, tm, at, last)
				}
				last = tm
			}
		}
		if n != 300 {
			t.Fatalf("seed %d: %d of 300 came due", seed, n)
		}
	}
}

// Promise: the window gives facts back by time, those of one time in the order
// of arrival.
func TestWindowSortsByTime(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 4))
		w := newWindow()
		in, out := 0, 0
		last := int64(-1)
		for step := int64(0); step < 2000; step++ {
			w.push(held{f: &lifecycle.Fact{}, at: step + rng.Int64N(20)})
			in++
			for g := w.pop(step - 1); g != nil; g = w.pop(step - 1) {
				if g[0].at <= last {
					t.Fatalf("seed %d: time %d after %d", seed, g[0].at, last)
				}
				last = g[0].at
				out += len(g)
			}
			w.compact()
		}
		if in != out+w.len() {
			t.Fatalf("seed %d: %d facts in, %d out, %d left", seed, in, out, w.len())
		}
	}
}
