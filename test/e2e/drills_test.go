package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/api"
	"github.com/kvwitness/kvwitness/engine/drill"
	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/engine/process"
	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/engine/worker"
)

// An exercise is the traffic of a drill. What its recorded streams must give
// stands in engine/drill, where documents and the command take it from.
type exercise struct {
	drill   scheduler.Drill
	unified bool
	every   int
	delay   time.Duration
	pages   int
	chunk   int
	by      func(testing.TB, setup) setup // how bytes move; nil: over TCP
	play    func(t *testing.T, c *cluster) fate
}

// fate is how the request ends that a fault would harm: the worst, if there are
// several.
type fate struct {
	status int
	right  bool // the answer, if it has one
}

func (a answer) fate(prompt string, maxTokens int) fate {
	return fate{a.status, a.text == string(model.Expect([]byte(prompt), maxTokens))}
}

var exercises = []exercise{
	{drill: scheduler.EarlyRelease, every: 1000, delay: 1, pages: 33, chunk: 4, play: giveUpEarly},
	{drill: scheduler.LateChunk, every: 1000, delay: 50 * time.Millisecond, pages: 33, chunk: 16, play: oneThenAnother},
	{drill: scheduler.DoubleRelease, unified: true, every: 1000, pages: 33, chunk: 16, play: releaseTwice},
	{drill: scheduler.UnwrittenCache, unified: true, pages: 33, chunk: 4, play: hitEarly},
	{drill: scheduler.SaltDrop, unified: true, pages: 33, chunk: 16, play: samePrefix},
	{drill: scheduler.LayoutMismatch, pages: 33, chunk: 16, play: oneThenAnother},
	{drill: scheduler.StalePull, pages: 17, chunk: 16, play: pullEarly},
	{drill: scheduler.LyingEngine, pages: 33, chunk: 16, play: oneThenAnother},
}

func (e exercise) begin(t *testing.T, d scheduler.Drill, keep ...scheduler.Protection) *cluster {
	t.Helper()
	keys, err := api.ParseKeys([]byte("alpha key-a\nbeta key-b\n"))
	if err != nil {
		t.Fatal(err)
	}
	change := func(_ scheduler.Role, c *process.Config) {
		c.Keys = keys
		w := &c.Worker
		w.Drill, w.DrillEvery, w.DrillDelay, w.ChunkTokens, w.BatchTokens = d, e.every, e.delay, e.chunk, 64
		w.Pages, w.ContextTokens, w.Keep = e.pages, 256, keep
	}
	if e.unified {
		c := alone(t, change)
		c.keys = keys
		return c
	}
	var settings setup = change
	if e.by != nil {
		settings = e.by(t, change)
	}
	c, err := disaggregated(t, settings)
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
			c.expectFindings(drill.Expected(e.drill).Findings...)
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

// timed are pairs whose fault is a write in the middle of another request's life,
// which takes more to play: TestPageTagsFindALateChunk and
// TestPageTagsFindWhatComesAfterAnEarlyRelease do.
func timed(d scheduler.Drill, p scheduler.Protection) bool {
	return p == scheduler.PageTags && (d == scheduler.EarlyRelease || d == scheduler.LateChunk)
}

// Promise: a chunk that comes late, into pages that are another's by then, is found
// by page tags alone: the other's answer ends with an error, and not with text.
func TestPageTagsFindALateChunk(t *testing.T) {
	for _, delay := range []time.Duration{50, 100, 200, 400, 800} { // until one falls into B's life
		c, err := disaggregated(t, func(_ scheduler.Role, c *process.Config) {
			w := &c.Worker
			w.Drill, w.DrillEvery, w.DrillDelay = scheduler.LateChunk, 1000, delay*time.Millisecond
			w.Keep, w.ContextTokens = []scheduler.Protection{scheduler.PageTags}, 2048
		})
		if err != nil {
			t.Fatal(err)
		}
		c.complete("", promptA, 20)
		b := c.complete("", promptB, 1500)
		if want, _ := drill.Stops(scheduler.LateChunk, scheduler.PageTags); b.status == want && strings.Contains(b.raw, `"page_tag"`) {
			return
		}
		if b.status != 200 || b.text != string(model.Expect([]byte(promptB), 1500)) {
			t.Fatalf("B is answered %d %s", b.status, b.raw)
		}
	}
	t.Fatal("no late chunk fell into B's life")
}

// Promise: each of a drill's protections alone stops it, and says that it did; the
// test prints the table.
func TestEachProtectionAloneStopsItsDrills(t *testing.T) {
	table := "drill              protection            stopped\n"
	for _, e := range exercises {
		for _, p := range e.drill.Spec().Off {
			if timed(e.drill, p) {
				continue
			}
			t.Run(e.drill.String()+"/"+p.String(), func(t *testing.T) {
				want, _ := drill.Stops(e.drill, p)
				var c *cluster
				var got fate
				for range 5 { // a fault that comes too late to harm shows nothing
					c = e.begin(t, e.drill, p)
					if got = e.play(t, c); got.status == want || !got.right {
						break
					}
				}
				if got.status != want || want == 200 && !got.right {
					t.Errorf("the request ends with %+v, the table says %d", got, want)
				}
				n := c.stopped(p)
				if n == 0 {
					t.Errorf("%s did not say that it stopped anything", p)
				}
				table += fmt.Sprintf("%-18s %-21s %d\n", e.drill, p, n)
			})
		}
	}
	t.Log("\n" + table)
}

const (
	promptA = "alpha says: the first tenant wrote this and it is nobody else's business at all; alpha says: "
	promptB = "beta asks: what did the others write, and is any of it still to be found here; beta asks: "
)

// oneThenAnother is two requests of two tenants, one after the other.
func oneThenAnother(t *testing.T, c *cluster) fate {
	c.complete("key-a", promptA, 20)
	time.Sleep(100 * time.Millisecond) // a late chunk is sent
	return c.complete("key-b", promptB, 20).fate(promptB, 20)
}

// giveUpEarly lets decode give up, and the late write come, before it asks again.
func giveUpEarly(t *testing.T, c *cluster) fate {
	c.complete("key-a", strings.Repeat(promptA, 2), 20)
	c.await("prefill is done", func() bool { return c.look(c.prefill, func(v worker.View) bool { return v.Scheduler.Idle() }) })
	return c.complete("key-b", promptB, 20).fate(promptB, 20)
}

// releaseTwice gives pages back twice, and then two requests at once, each of as
// many pages, get the same.
func releaseTwice(t *testing.T, c *cluster) fate {
	prompt := strings.Repeat(promptB, 2)
	c.complete("key-a", prompt, 2)
	return c.together(prompt, "one"+prompt[3:])
}

// hitEarly asks the same twice at once, in memory that holds another's text.
func hitEarly(t *testing.T, c *cluster) fate {
	c.complete("key-a", strings.Repeat(promptA, 2), 20)
	c.flush(c.unified)
	prompt := strings.Repeat(promptB, 2)
	return c.together(prompt, prompt)
}

// together hands requests of one tenant to a unified engine side by side, and waits
// for their ends: the second is there before the first step of the first is done.
func (c *cluster) together(prompts ...string) fate {
	c.t.Helper()
	worst := fate{right: true}
	var answers []*worker.Answer
	for _, prompt := range prompts {
		a, err := c.unified.Worker.Submit(worker.Request{
			Domain: c.keys.Domain("beta", ""), Prompt: model.Encode([]byte(prompt)), MaxTokens: 2,
		})
		if err != nil {
			c.t.Fatal(err)
		}
		answers = append(answers, a)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for i, a := range answers {
		var got []byte
		for end := (*worker.End)(nil); end == nil; {
			var text []byte
			var err error
			if text, end, err = a.Read(ctx); err != nil {
				c.t.Fatal(err)
			}
			got = append(got, text...)
			if end != nil {
				worst.status = max(worst.status, end.Status)
			}
		}
		worst.right = worst.right && string(got) == string(model.Expect([]byte(prompts[i]), 2))
	}
	return worst
}

// samePrefix is one prompt of two tenants.
func samePrefix(t *testing.T, c *cluster) fate {
	c.complete("key-a", promptA, 4)
	return c.complete("key-b", promptA, 4).fate(promptA, 4)
}

// pullEarly makes prefill send from memory that holds another's text.
func pullEarly(t *testing.T, c *cluster) fate {
	c.complete("key-a", strings.Repeat(promptA, 2), 2)
	c.flush(c.prefill)
	prompt := strings.Repeat(promptB, 2)
	return c.complete("key-b", prompt, 2).fate(prompt, 2)
}

// flush empties an engine's prefix cache.
func (c *cluster) flush(p *process.Process) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := p.Worker.Inspect(ctx, func(v worker.View) { v.Cache.Flush() }); err != nil {
		c.t.Fatal(fmt.Errorf("flushing the cache: %w", err))
	}
}
