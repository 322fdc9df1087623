package e2e

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/drill"
	"github.com/kvwitness/kvwitness/engine/process"
	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/engine/worker"
)

// both sends a request to both halves by hand, so that prefill's goes on when decode
// has given up, and returns decode's answer.
func (c *cluster) both(ctx context.Context, key, prompt string, room int) answer {
	c.t.Helper()
	body, _ := json.Marshal(map[string]any{
		"prompt": prompt, "max_tokens": 20, "bootstrap_host": "127.0.0.1", "bootstrap_room": room,
		"bootstrap_port": portOf(c.t, c.prefill.Bootstrap), "bootstrap_decode": c.decode.Control,
	})
	go func() { _, _ = ask(ctx, c.prefill.URL()+"/v1/completions", key, body) }()
	a, err := ask(ctx, c.decode.URL()+"/v1/completions", key, body)
	if err != nil {
		c.t.Fatal(err)
	}
	return a
}

// holdWhen stops an engine's scheduler as soon as what is asked is so, until the
// function that it returns. Transfers go on.
func (c *cluster) holdWhen(what string, p *process.Process, ask func(worker.View) bool) (free func()) {
	c.t.Helper()
	held, release := make(chan struct{}), make(chan struct{})
	go func() {
		for done := false; !done; time.Sleep(100 * time.Microsecond) { // some things pass quickly
			err := p.Worker.Inspect(context.Background(), func(v worker.View) {
				if done = ask(v); done {
					close(held)
					<-release
				}
			})
			done = done || err != nil
		}
	}()
	select {
	case <-held:
	case <-time.After(patience):
		c.t.Fatalf("not within %v: %s", patience, what)
	}
	return func() { close(release) }
}

// Of giveUpWhileB: A is long and computed token by token, so that there is time for
// everything; B's answer goes on as long as it is let.
const lateContext = 4096

var (
	endlessA = strings.Repeat("a long text of A's; ", 150)
	endlessB = strings.Repeat("xy", pageTokens)[:pageTokens+1]
)

// early is a pair of engines with drill early-release for the first request.
func early(t *testing.T, keep ...scheduler.Protection) *cluster {
	t.Helper()
	c, err := disaggregated(t, func(_ scheduler.Role, p *process.Config) {
		w := &p.Worker
		w.Drill, w.DrillEvery, w.DrillDelay, w.Keep = scheduler.EarlyRelease, 1000, 1, keep
		w.ContextTokens, w.Pages, w.ChunkTokens = lateContext, lateContext/pageTokens+1, 1
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// giveUpWhileB plays early-release with the late bytes in the middle of another
// request's life: decode gives A up, B takes the pages one after the other, overtakes
// A in them, and then the rest of A's bytes comes.
//
// Where A is done too soon, on a machine that is busy, it shows nothing, and another
// pair of engines plays it again.
func giveUpWhileB(t *testing.T, keep ...scheduler.Protection) (*cluster, answer) {
	t.Helper()
	for range 10 {
		c := early(t, keep...)
		if b, played := c.giveUpWhileB(); played {
			return c, b
		}
		c.close()
	}
	t.Fatal("A was too fast each time: the test shows nothing")
	return nil, answer{}
}

func (c *cluster) giveUpWhileB() (b answer, played bool) {
	guard := c.prefill.Worker.Memory() // which no pass can do without
	guard.Lock()
	if a := c.both(c.t.Context(), "", endlessA, 77); a.status != 504 {
		c.t.Errorf("A is answered %d %s", a.status, a.raw)
	}
	sent := func(v worker.View) int { return int(v.Scheduler.StepID()) / pageTokens } // pages of A
	guard.Unlock()
	c.holdWhen("the first of A's pages are sent", c.prefill, func(v worker.View) bool { return sent(v) >= 10 })()
	done := make(chan answer, 1)
	go func() { done <- c.complete("", endlessB, lateContext/2) }()
	free := c.holdWhen("B is being answered", c.decode, func(v worker.View) bool { return v.Scheduler.Queues()["running"] == 1 })
	guard.Lock()
	free()
	front := 0
	c.look(c.prefill, func(v worker.View) bool { front = sent(v); return true })
	if front >= len(endlessA)/pageTokens-10 {
		guard.Unlock()
		<-done
		return b, false
	}
	free = c.holdWhen("B has overtaken A", c.decode, func(v worker.View) bool { return v.KV.Audit().Held >= front+5 })
	guard.Unlock()
	c.await("all that is A's has come", func() bool { return c.look(c.prefill, func(v worker.View) bool { return v.Scheduler.Idle() }) })
	free()
	return <-done, true
}

// Promise: bytes that come late, into pages that decode has given up early and that
// are another's by then, are found by page tags alone: the other's answer ends with
// an error and not with text. With nothing to stop them the other is answered as if
// nothing had been, and the streams show an early release.
func TestPageTagsFindWhatComesAfterAnEarlyRelease(t *testing.T) {
	c, b := giveUpWhileB(t, scheduler.PageTags)
	if want, _ := drill.Stops(scheduler.EarlyRelease, scheduler.PageTags); b.status != want || !strings.Contains(b.raw, `"page_tag"`) || c.stopped(scheduler.PageTags) == 0 {
		t.Errorf("B is answered %d %.300s", b.status, b.raw)
	}
	c.rest()
	if c, b = giveUpWhileB(t); b.status != 200 || len(b.text) != lateContext/2 {
		t.Errorf("with nothing to stop them B is answered %d %.300s", b.status, b.raw)
	}
	c.rest()
	c.expectFindings(drill.Expected(scheduler.EarlyRelease).Findings...)
}
