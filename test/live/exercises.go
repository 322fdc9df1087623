package live

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kvwitness/kvwitness/engine/drill"
	"github.com/kvwitness/kvwitness/engine/process"
	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/engine/worker"
)

// Exercise is the traffic of a drill, which can be played again and again.
type Exercise struct {
	Drill   scheduler.Drill
	unified bool
	asks    int // requests of one play: the first of them is drilled
	delay   time.Duration
	pages   int
	chunk   int
	setup   Setup // beyond that
	// Once: a sidecar says the findings once of two engines, however often it is played.
	Once bool
	// play returns the answer that the fault concerns, and its time is 0 where no
	// client waits for it.
	play func(c *Cluster, round int) (Answer, error)
}

// Exercises are those of all drills but lying-engine, which nothing reveals that an
// engine says of itself.
var Exercises = []Exercise{
	{Drill: scheduler.RejectedHandoff, asks: 1, pages: 9, chunk: 64, setup: incident, play: secretOfA},
	{Drill: scheduler.EarlyRelease, asks: 2, delay: 1, pages: 33, chunk: 4, play: giveUpEarly},
	{Drill: scheduler.LateChunk, asks: 2, delay: 50 * time.Millisecond, pages: 33, chunk: 16, play: oneThenAnother},
	{Drill: scheduler.DoubleRelease, unified: true, asks: 3, pages: 33, chunk: 16, play: releaseTwice},
	{Drill: scheduler.UnwrittenCache, unified: true, asks: 1, pages: 33, chunk: 4, play: hitEarly},
	{Drill: scheduler.SaltDrop, unified: true, asks: 1, pages: 33, chunk: 16, play: samePrefix},
	{Drill: scheduler.LayoutMismatch, Once: true, asks: 1, pages: 33, chunk: 16, play: oneThenAnother},
	{Drill: scheduler.StalePull, asks: 1, pages: 17, chunk: 16, play: pullEarly},
}

// Expected are the findings of the exercise.
func (e *Exercise) Expected() []string { return drill.Expected(e.Drill).Findings }

// Start starts the engines, with the drill on or off.
func (e *Exercise) Start(ctx context.Context, dir string, drilled bool) (*Cluster, error) {
	change := func(role scheduler.Role, c *process.Config) {
		w := &c.Worker
		w.DrillEvery, w.DrillDelay, w.ChunkTokens, w.BatchTokens = e.asks, e.delay, e.chunk, 64
		w.Pages, w.ContextTokens = e.pages, 256
		if drilled {
			w.Drill = e.Drill
		}
		if e.setup != nil {
			e.setup(role, c)
		}
	}
	if e.unified {
		return Alone(ctx, dir, change)
	}
	return Disaggregated(ctx, dir, change)
}

// Play sends the traffic once.
func (e *Exercise) Play(c *Cluster, round int) (Answer, error) {
	a, err := e.play(c, round)
	if err != nil {
		return a, fmt.Errorf("play %s: %w", e.Drill, err)
	}
	return a, nil
}

// incident is the one of DESIGN to scale: pages of 64 tokens, 8 on decode, 4 on
// prefill, and a context of 512.
func incident(role scheduler.Role, c *process.Config) {
	w := &c.Worker
	w.PageTokens, w.ContextTokens, w.BatchTokens = 64, 512, 256
	if role == scheduler.Prefill {
		w.Pages = 5
	}
}

const (
	promptA = "alpha says: the first tenant wrote this and it is nobody else's business at all; alpha says: "
	promptB = "beta asks: what did the others write, and is any of it still to be found here; beta asks: "
)

// fresh is a prompt whose beginning no other round has, so that nothing is cached.
func fresh(prompt string, round int) string {
	return fmt.Sprintf("%06d%s", round, prompt[6:])
}

func secretOfA(c *Cluster, round int) (Answer, error) {
	_, err := c.Complete("key-a", fresh(strings.Repeat(promptA, 3)[:200], round), 312)
	if err != nil {
		return Answer{}, err
	}
	return c.Complete("key-b", fresh(strings.Repeat("b", 480), round), 32)
}

// oneThenAnother is two requests of two tenants, one after the other.
func oneThenAnother(c *Cluster, round int) (Answer, error) {
	a, err := c.Complete("key-a", fresh(promptA, round), 20)
	if err != nil {
		return a, err
	}
	time.Sleep(100 * time.Millisecond) // a late chunk is sent
	_, err = c.Complete("key-b", fresh(promptB, round), 20)
	return a, err
}

// giveUpEarly lets decode give up, and the late write come, before it asks again.
func giveUpEarly(c *Cluster, round int) (Answer, error) {
	if _, err := c.Complete("key-a", fresh(strings.Repeat(promptA, 2), round), 20); err != nil {
		return Answer{}, err
	}
	var looked error
	err := Await("prefill is done", func() bool {
		idle, err := Look(c.Prefill, func(v worker.View) bool { return v.Scheduler.Idle() })
		looked = err
		return idle || err != nil
	})
	if err = errors.Join(err, looked); err != nil {
		return Answer{}, err
	}
	_, err = c.Complete("key-b", fresh(promptB, round), 20)
	return Answer{}, err
}

// releaseTwice gives pages back twice, and then two requests at once, each of as
// many pages, get the same.
func releaseTwice(c *Cluster, round int) (Answer, error) {
	prompt := fresh(strings.Repeat(promptB, 2), round)
	if _, err := c.Complete("key-a", prompt, 2); err != nil {
		return Answer{}, err
	}
	return Answer{}, c.Together(prompt, "one"+prompt[3:])
}

// hitEarly asks the same twice at once, in memory that holds another's text.
func hitEarly(c *Cluster, round int) (Answer, error) {
	if _, err := c.Complete("key-a", fresh(strings.Repeat(promptA, 2), round), 20); err != nil {
		return Answer{}, err
	}
	if _, err := Look(c.Unified, flush); err != nil {
		return Answer{}, err
	}
	prompt := fresh(strings.Repeat(promptB, 2), round)
	return Answer{}, c.Together(prompt, prompt)
}

// samePrefix is one prompt of two tenants.
func samePrefix(c *Cluster, round int) (Answer, error) {
	if a, err := c.Complete("key-a", fresh(promptA, round), 4); err != nil {
		return a, err
	}
	return c.Complete("key-b", fresh(promptA, round), 4)
}

// pullEarly makes prefill send from memory that holds another's text.
func pullEarly(c *Cluster, round int) (Answer, error) {
	if a, err := c.Complete("key-a", fresh(strings.Repeat(promptA, 2), round), 2); err != nil {
		return a, err
	}
	if _, err := Look(c.Prefill, flush); err != nil {
		return Answer{}, err
	}
	return c.Complete("key-b", fresh(strings.Repeat(promptB, 2), round), 2)
}

// flush empties an engine's prefix cache.
func flush(v worker.View) bool {
	v.Cache.Flush()
	return true
}
