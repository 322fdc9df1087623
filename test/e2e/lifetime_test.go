package e2e

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/api"
	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/engine/process"
	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/engine/worker"
)

// Promise: two prefill ranks each bring a share of every page, and the answer is
// right only with both.
func TestTwoPrefillRanksBringEachPage(t *testing.T) {
	c := newCluster(t)
	t.Cleanup(c.close)
	ranks := func(rank int) setup {
		return func(role scheduler.Role, p *process.Config) {
			p.Worker.Rank, p.Worker.Ranks = rank, 2
			p.Witness = func(inst string) (process.Witness, error) {
				return c.recordAs(role.String()+"-"+string(rune('0'+rank)), inst)
			}
		}
	}
	first, err := c.start(scheduler.Prefill, ranks(0))
	if err != nil {
		t.Fatal(err)
	}
	second, err := c.start(scheduler.Prefill, func(role scheduler.Role, p *process.Config) {
		ranks(1)(role, p)
		p.BootstrapAt = first.Bootstrap
	})
	if err != nil {
		t.Fatal(err)
	}
	c.prefill, c.more = first, append(c.more, second)
	if c.decode, err = c.start(scheduler.Decode, ranks(0), first.Bootstrap); err != nil {
		t.Fatal(err)
	}
	c.await("decode knows both ranks", func() bool { return c.decode.Peers() == 2 && first.Peers() == 1 && second.Peers() == 1 })
	body, _ := json.Marshal(map[string]any{
		"prompt": story, "max_tokens": 30, "bootstrap_host": "127.0.0.1", "bootstrap_room": 77,
		"bootstrap_port": portOf(t, first.Bootstrap), "bootstrap_decode": c.decode.Control,
	})
	for _, p := range []*process.Process{first, second} {
		go func() { _, _ = ask(t.Context(), p.URL()+"/v1/completions", "", body) }()
	}
	a, err := ask(t.Context(), c.decode.URL()+"/v1/completions", "", body)
	if err != nil || a.text != string(model.Expect([]byte(story), 30)) {
		t.Fatalf("%v %d %q %s", err, a.status, a.text, a.raw)
	}
	c.rest()
	c.expectFindings()
}

// Promise: a request is drilled alone, by header, only where that is allowed.
func TestARequestIsDrilledAlone(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		c := alone(t, func(_ scheduler.Role, p *process.Config) { p.Worker.AllowRequestDrill = allowed })
		c.complete("", promptA, 2)
		b := c.complete("", promptA, 2, api.DrillHeader, scheduler.SaltDrop.String())
		if want := map[bool]int{false: 403, true: 200}[allowed]; b.status != want {
			t.Errorf("allowed %v: %d %s", allowed, b.status, b.raw)
		}
		if d := c.complete("", promptA, 2, api.DrillHeader, "luck"); allowed && d.status != 400 {
			t.Errorf("an unknown drill: %d %s", d.status, d.raw)
		}
		c.rest()
	}
}

// Promise: a graceful stop answers what was let in and refuses what comes.
func TestAGracefulStopAnswersWhatIsHere(t *testing.T) {
	c, err := disaggregated(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	answers := make(chan answer, 1)
	go func() { answers <- c.complete("", strings.Repeat(story, 2), 340) }()
	c.await("it runs on decode", func() bool {
		return c.look(c.decode, func(v worker.View) bool { return v.Scheduler.Queues()["running"] > 0 })
	})
	stopped := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		stopped <- c.decode.Stop(ctx)
	}()
	if a := <-answers; a.text != string(model.Expect([]byte(strings.Repeat(story, 2)), 340)) {
		t.Errorf("%d %q %s", a.status, a.text, a.raw)
	}
	c.must(<-stopped)
	if a := c.complete("", "x", 1); a.status != 503 && a.status != 502 {
		t.Errorf("after the stop: %d %s", a.status, a.raw)
	}
	c.decode = nil // it is closed
}

// Promise: when a decode engine is gone in the middle of things, prefill gives
// everything back.
func TestPrefillGivesBackWhatADeadDecodeHeld(t *testing.T) {
	c, err := disaggregated(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 8 {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			body, _ := json.Marshal(map[string]any{"prompt": strings.Repeat(story, 4), "max_tokens": 50})
			_, _ = ask(ctx, c.url+"/v1/completions", "", body)
		}()
	}
	c.await("prefill works", func() bool {
		return c.look(c.prefill, func(v worker.View) bool { return v.Scheduler.StepID() > 3 })
	})
	c.must(c.decode.Close())
	c.decode = nil
	c.await("prefill has no peer", func() bool { return c.prefill.Peers() == 0 })
	c.rest()
}
