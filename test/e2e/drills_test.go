package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/api"
	"github.com/kvwitness/kvwitness/engine/process"
	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/engine/worker"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// An exercise is a drill with its traffic and what the recorded streams must give:
// the findings that docs/DRILLS.md lists, and no other.
type exercise struct {
	drill    scheduler.Drill
	unified  bool
	every    int
	delay    time.Duration
	pages    int // 0: 33
	play     func(t *testing.T, c *cluster)
	findings []finding.Kind
}

var exercises = []exercise{
	{drill: scheduler.EarlyRelease, every: 1000, delay: time.Millisecond, play: giveUpEarly, findings: []finding.Kind{finding.EarlyRelease}},
	{drill: scheduler.LateChunk, every: 1000, delay: 50 * time.Millisecond, play: oneThenAnother, findings: []finding.Kind{finding.RejectedHandoff}},
	{drill: scheduler.DoubleRelease, unified: true, every: 1000, play: releaseTwice, findings: []finding.Kind{finding.DoubleHold, finding.DoubleRelease, finding.ForeignPage}},
	{drill: scheduler.UnwrittenCache, unified: true, play: hitEarly, findings: []finding.Kind{finding.StaleRead}},
	{drill: scheduler.SaltDrop, unified: true, play: samePrefix, findings: []finding.Kind{finding.TenantCrossing}},
	{drill: scheduler.LayoutMismatch, play: oneThenAnother, findings: []finding.Kind{finding.LayoutMismatch}},
	{drill: scheduler.StalePull, pages: 17, play: pullEarly, findings: []finding.Kind{finding.StaleRead}},
	{drill: scheduler.LyingEngine, play: oneThenAnother},
}

func (e exercise) begin(t *testing.T, drill scheduler.Drill) *cluster {
	t.Helper()
	keys, err := api.ParseKeys([]byte("alpha key-a\nbeta key-b\n"))
	if err != nil {
		t.Fatal(err)
	}
	change := func(_ scheduler.Role, c *process.Config) {
		c.Keys = keys
		w := &c.Worker
		w.Drill, w.DrillEvery, w.DrillDelay, w.ChunkTokens, w.BatchTokens = drill, e.every, e.delay, 16, 64
		w.Pages, w.ContextTokens = 33, 256
		if e.pages > 0 {
			w.Pages = e.pages
		}
	}
	if e.unified {
		return alone(t, change)
	}
	c, err := disaggregated(t, change)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Promise: each drill's recorded streams give the findings listed for it and no
// other; lying-engine gives none, since its claims agree with each other.
func TestEachDrillGivesItsFindings(t *testing.T) {
	for _, e := range exercises {
		t.Run(e.drill.String(), func(t *testing.T) {
			c := e.begin(t, e.drill)
			e.play(t, c)
			c.expectFindings(e.findings...)
		})
	}
}

// Promise: the same traffic without the drill gives none.
func TestTheSameTrafficWithoutADrillGivesNone(t *testing.T) {
	for _, e := range exercises {
		t.Run(e.drill.String(), func(t *testing.T) {
			c := e.begin(t, scheduler.NoDrill)
			e.play(t, c)
			c.rest()
			c.expectFindings()
		})
	}
}

const (
	promptA = "alpha says: the first tenant wrote this and it is nobody else's business at all; alpha says: "
	promptB = "beta asks: what did the others write, and is any of it still to be found here; beta asks: "
)

// oneThenAnother is two requests of two tenants, one after the other.
func oneThenAnother(t *testing.T, c *cluster) {
	c.complete("key-a", promptA, 20)
	time.Sleep(100 * time.Millisecond) // a late chunk is sent
	c.complete("key-b", promptB, 20)
}

// giveUpEarly lets decode give up, and the late write come, before it asks again.
func giveUpEarly(t *testing.T, c *cluster) {
	c.complete("key-a", strings.Repeat(promptA, 2), 20)
	c.await("prefill is done", func() bool { return c.look(c.prefill, func(v worker.View) bool { return v.Scheduler.Idle() }) })
	c.complete("key-b", promptB, 20)
}

// releaseTwice gives pages back twice, so that two requests at once get them.
func releaseTwice(t *testing.T, c *cluster) {
	c.complete("key-a", "short", 2)
	var wg sync.WaitGroup
	for _, key := range []string{"key-a", "key-b"} {
		wg.Go(func() { c.complete(key, promptB, 40) })
	}
	wg.Wait()
}

// hitEarly asks the same twice at once, in memory that holds another's text.
func hitEarly(t *testing.T, c *cluster) {
	c.complete("key-a", strings.Repeat(promptA, 2), 20)
	c.flush(c.unified)
	var wg sync.WaitGroup
	wg.Go(func() { c.complete("key-b", strings.Repeat(promptB, 2), 2) })
	c.await("the first is running", func() bool {
		return c.look(c.unified, func(v worker.View) bool { return v.Scheduler.Queues()["running"] > 0 })
	})
	wg.Go(func() { c.complete("key-b", strings.Repeat(promptB, 2), 2) })
	wg.Wait()
}

// samePrefix is one prompt of two tenants.
func samePrefix(t *testing.T, c *cluster) {
	c.complete("key-a", promptA, 4)
	c.complete("key-b", promptA, 4)
}

// pullEarly makes prefill send from memory that holds another's text.
func pullEarly(t *testing.T, c *cluster) {
	c.complete("key-a", strings.Repeat(promptA, 2), 2)
	c.flush(c.prefill)
	c.complete("key-b", strings.Repeat(promptB, 2), 2)
}

// flush empties an engine's prefix cache.
func (c *cluster) flush(p *process.Process) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := p.Worker.Inspect(ctx, func(v worker.View) { v.Cache.Flush() }); err != nil {
		c.t.Fatal(fmt.Errorf("flushing the cache: %w", err))
	}
}
