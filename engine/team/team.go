// Package team shares the rounds of a loop among goroutines that stay, so that a
// loop of microseconds is worth sharing. It imports the standard library only.
//
// It promises: a loop that Share is given has run whole when Share returns, each
// round once; Share allocates nothing; after Close no goroutine is left.
package team

import (
	"runtime"
	"sync"
)

// Team is a number of goroutines. Its methods are for one goroutine at a time.
type Team struct {
	size int
	jobs chan job
	left sync.WaitGroup // of the loop that is being shared
	gone sync.WaitGroup
}

// Work runs rounds from up to to (not including) of a loop. worker, below the
// team's size, is the same for no two that run at once.
type Work func(worker, from, to int)

type job struct {
	do               Work
	worker, from, to int
}

// New starts a team of as many as Go runs at once.
func New() *Team {
	t := &Team{size: runtime.GOMAXPROCS(0), jobs: make(chan job)}
	for range t.size - 1 {
		t.gone.Go(func() {
			for j := range t.jobs {
				j.do(j.worker, j.from, j.to)
				t.left.Done()
			}
		})
	}
	return t
}

// Size is how many work at once, the caller of Share among them.
func (t *Team) Size() int { return t.size }

// Share runs n rounds, in neighbouring ranges of at least least rounds: below that,
// waking another costs more than it saves.
func (t *Team) Share(n, least int, do Work) {
	parts := min(t.size, n/max(least, 1))
	if parts < 2 {
		do(0, 0, n)
		return
	}
	t.left.Add(parts - 1)
	for i := 1; i < parts; i++ {
		t.jobs <- job{do, i, i * n / parts, (i + 1) * n / parts}
	}
	do(0, 0, n/parts)
	t.left.Wait()
}

// Close ends the goroutines.
func (t *Team) Close() {
	close(t.jobs)
	t.gone.Wait()
}
