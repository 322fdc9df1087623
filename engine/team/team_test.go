package team

import (
	"runtime"
	"sync/atomic"
	"testing"
)

// Promise: every round runs once, in ranges that follow one another in the order
// of the workers, whatever the team's size.
func TestEveryRoundRunsOnce(t *testing.T) {
	for _, size := range []int{1, 2, 3, 8} {
		before := runtime.GOMAXPROCS(size)
		team := New()
		runtime.GOMAXPROCS(before)
		if team.Size() != size {
			t.Fatalf("a team of %d, want %d", team.Size(), size)
		}
		for n := range 40 {
			for _, least := range []int{0, 1, 7, 100} {
				ran, first := make([]atomic.Int32, n), make([]atomic.Int32, size)
				team.Share(n, least, func(worker, from, to int) {
					first[worker].Store(int32(from) + 1)
					for i := from; i < to; i++ {
						ran[i].Add(1)
					}
				})
				for i := range ran {
					if ran[i].Load() != 1 {
						t.Fatalf("size %d, %d rounds: round %d ran %d times", size, n, i, ran[i].Load())
					}
				}
				for w := 1; w < size; w++ {
					if at := first[w].Load(); at > 0 && at < first[w-1].Load() {
						t.Fatalf("worker %d begins before worker %d", w, w-1)
					}
				}
			}
		}
		team.Close()
	}
}

// Promise: sharing a loop allocates nothing.
func TestShareAllocatesNothing(t *testing.T) {
	team := New()
	defer team.Close()
	var sum atomic.Int64
	add := func(_, from, to int) { sum.Add(int64(to - from)) }
	if n := testing.AllocsPerRun(50, func() { team.Share(1000, 1, add) }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
	if sum.Load()%1000 != 0 || sum.Load() == 0 {
		t.Fatalf("%d rounds", sum.Load())
	}
}
