package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/engine/process"
	"github.com/kvwitness/kvwitness/engine/router"
	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/engine/worker"
)

// fleet is several prefills, each of so many ranks, and several decodes that are
// connected to all of them, behind one router.
type fleet struct {
	*cluster
	prefills []*process.Process // rank by rank
	decodes  []*process.Process
}

func newFleet(t *testing.T, prefills, ranks, decodes int) *fleet {
	t.Helper()
	f := &fleet{cluster: newCluster(t)}
	t.Cleanup(f.close)
	var bootstraps []string
	var cfg router.Config
	for i := range prefills * ranks {
		p := f.begin(scheduler.Prefill, i, func(p *process.Config) {
			p.Worker.Rank, p.Worker.Ranks = i%ranks, ranks
			if i%ranks > 0 {
				p.BootstrapAt = bootstraps[len(bootstraps)-1]
			}
		})
		if i%ranks == 0 {
			bootstraps = append(bootstraps, p.Bootstrap)
		}
		f.prefills, cfg.Prefills = append(f.prefills, p), append(cfg.Prefills, p.URL())
	}
	for i := range decodes {
		d := f.begin(scheduler.Decode, i, func(p *process.Config) { p.Worker.Ranks, p.Prefills = ranks, bootstraps })
		f.decodes, cfg.Decodes = append(f.decodes, d), append(cfg.Decodes, d.URL())
	}
	cfg.Log = log()
	r, err := router.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(r.Handler())
	t.Cleanup(func() { web.Close(); r.Close() })
	f.url = web.URL
	f.await("all know each other, and the router all of them", func() bool {
		for _, p := range f.prefills {
			if p.Peers() != decodes {
				return false
			}
		}
		for _, d := range f.decodes {
			if d.Peers() != prefills*ranks {
				return false
			}
		}
		return r.Ready()
	})
	return f
}

// begin starts one engine, with a trace of its own.
func (f *fleet) begin(role scheduler.Role, n int, change func(*process.Config)) *process.Process {
	f.t.Helper()
	p, err := f.start(role, func(_ scheduler.Role, c *process.Config) {
		change(c)
		c.Witness = func(inst string) (process.Witness, error) { return f.recordAs(fmt.Sprint(role, "-", n), inst) }
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.more = append(f.more, p)
	return p
}

// lose ends an engine at once, with whatever it has to do.
func (f *fleet) lose(p *process.Process) {
	f.t.Helper()
	f.must(p.Close())
	for i := range f.more {
		if f.more[i] == p {
			f.more = append(f.more[:i], f.more[i+1:]...)
			return
		}
	}
}

// Promise: through the router, too, each of two ranks brings its share of every
// page: whichever prefill and decode a request meets, it is answered rightly.
func TestAFleetAnswersRightly(t *testing.T) {
	f := newFleet(t, 2, 2, 2)
	idle := func(p *process.Process) bool { return f.submitted(p) == 0 }
	for end := time.Now().Add(time.Minute); ; { // the router is ready with its first pair, and learns of the others
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				prompt := fmt.Sprintf("%d %s", i, story)
				if a := f.complete("", prompt, 20); a.text != string(model.Expect([]byte(prompt), 20)) {
					t.Errorf("%d %s", a.status, a.raw)
				}
			})
		}
		wg.Wait()
		if !slices.ContainsFunc(f.more, idle) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("an engine has nothing to do")
		}
	}
	f.rest()
	f.expectFindings()
}

// outcomes are what clients saw.
type outcomes struct{ right, failed, cut atomic.Int64 }

// clients ask until stop is closed. An answer that is given must be right; a
// failure must be one of those that a lost engine excuses.
func (f *fleet) clients(n int, stop <-chan struct{}, o *outcomes) *sync.WaitGroup {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for turn := 0; ; turn++ {
				select {
				case <-stop:
					return
				default:
				}
				f.one(fmt.Sprintf("%d.%d %s", i, turn, strings.Repeat(story, 1+turn%3)), turn%2 == 0, o)
			}
		})
	}
	return &wg
}

func (f *fleet) one(prompt string, stream bool, o *outcomes) {
	body, _ := json.Marshal(map[string]any{"prompt": prompt, "max_tokens": 30, "stream": stream})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	a, err := ask(ctx, f.url+"/v1/completions", "", body)
	switch {
	case err != nil && ctx.Err() != nil:
		f.t.Errorf("no answer in time: %v", err)
	case err != nil:
		o.cut.Add(1) // within the answer
	case a.status == 502 || a.status == 503:
		o.failed.Add(1)
	case a.status != 200 || a.text != string(model.Expect([]byte(prompt), 30)):
		f.t.Errorf("%d %q %s", a.status, a.text, a.raw)
	default:
		o.right.Add(1)
	}
}

// Promise: when one of several engines is lost in the middle of everything, no
// answer is wrong; requests that it had end with 502, 503 or a cut connection, each
// within its time; soon every request is answered again by the others, which lose
// no page and are accused of nothing.
func TestAFleetGoesOnWithoutOneOfIts(t *testing.T) {
	for name, of := range map[string]func(*fleet) *process.Process{
		"decode":  func(f *fleet) *process.Process { return f.decodes[1] },
		"prefill": func(f *fleet) *process.Process { return f.prefills[1] },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 2, 1, 2)
			var during, after outcomes
			stop := make(chan struct{})
			wg := f.clients(12, stop, &during)
			f.await("answers come", func() bool { return during.right.Load() > 40 })
			lost := of(f)
			f.lose(lost)
			had := during.right.Load()
			f.await("answers come again", func() bool { return during.right.Load() > had+40 })
			close(stop)
			wg.Wait()
			t.Logf("%d right, %d failed, %d cut", during.right.Load(), during.failed.Load(), during.cut.Load())
			time.Sleep(1200 * time.Millisecond) // the router has asked everybody again
			stop = make(chan struct{})
			wg = f.clients(4, stop, &after)
			f.await("answers come afterwards", func() bool { return after.right.Load() > 40 })
			close(stop)
			wg.Wait()
			if after.failed.Load()+after.cut.Load() > 0 {
				t.Errorf("afterwards %d fail and %d are cut", after.failed.Load(), after.cut.Load())
			}
			f.rest()
			f.expectFindings()
		})
	}
}

// submitted is how many requests an engine has been given.
func (f *fleet) submitted(p *process.Process) (n uint64) {
	f.look(p, func(v worker.View) bool { n = v.Scheduler.Stats().Submitted; return true })
	return n
}
