package scheduler

import (
	"fmt"
	"testing"
)

// disasters are what may happen to an engine between any two steps.
var disasters = []struct {
	name string
	do   func(w *world, e *engine)
}{
	{"abort", func(w *world, e *engine) {
		for _, sb := range w.all {
			if e.subs[sb.req] != nil {
				e.step(Abort{Req: sb.req, Reason: "asked to"})
			}
		}
	}},
	{"disconnect", func(w *world, e *engine) {
		for _, sb := range w.all {
			if e.subs[sb.req] != nil {
				e.step(Disconnect{Req: sb.req})
			}
		}
	}},
	{"crash", func(w *world, e *engine) { w.crash(e) }},
	{"cut", func(w *world, e *engine) {
		for _, o := range w.peersOf(e) {
			w.cut(e, o)
		}
	}},
}

// traffic is little, and has everything in it: a prompt of several chunks and
// batches, a prefix that is shared, a page that is copied, and too few pages for all.
func (w *world) traffic() {
	w.request("a", tokens(1, 30), 12, NoDrill)
	w.request("a", tokens(1, 31), 12, NoDrill)
	w.request("b", tokens(50, 22), 20, NoDrill)
	w.request("a", tokens(1, 16), 5, NoDrill)
}

// points runs the traffic and calls at before each step; it returns their number.
func (w *world) points(at func(n int)) (n int) {
	w.traffic()
	for ; ; n++ {
		at(n)
		if !w.turn() {
			return n
		}
	}
}

// Each disaster happens to each engine at each point of the same traffic, one point
// a run: before every event that is delivered, every pass and every transfer. Each
// time everybody is answered once or lost with the engine that crashed, no answer is
// wrong, and when all has come to rest every page is free or cached.
func TestADisasterAtEachPointLosesNoPage(t *testing.T) {
	for _, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			w := newWorld(t, 1)
			shape.build(w)
			steps, engines := w.points(func(int) {}), len(w.engines)
			if steps < 40 {
				t.Fatalf("%d points: the traffic shows nothing", steps)
			}
			reached, stride := map[string]bool{}, strideOf(engines)
			for point := range steps {
				for k, d := range disasters {
					for i := range engines {
						if (point+k+i)%stride != 0 {
							continue
						}
						w := newWorld(t, 1)
						shape.build(w)
						where := fmt.Sprintf("%s of engine %d at point %d", d.name, i, point)
						w.play(where, func(n int) {
							if n == point {
								w.note(reached, d.name, w.engines[i])
								d.do(w, w.engines[i])
							}
						})
					}
				}
			}
			for _, d := range disasters {
				for _, e := range w.engines {
					for s := range w.seen(e) {
						if stride > 1 {
							continue // not each of them, then
						}
						if key := d.name + " " + string(e.name) + " " + s; !reached[key] {
							t.Errorf("no %s", key)
						}
					}
				}
			}
			t.Logf("%d points, %d engines, %d disasters; %d kinds of point", steps, engines, len(disasters), len(reached))
		})
	}
}

// strideOf is which part of the points is tried: all of them in the long run, and in
// an everyday one of the largest world each fifth, another fifth for each disaster
// and engine.
func strideOf(engines int) int {
	if engines > 2 && *simSteps < longRun {
		return 5
	}
	return 1
}

// play runs the traffic with a disaster in it, to its end.
func (w *world) play(where string, at func(n int)) {
	w.t.Helper()
	defer func() {
		if r := recover(); r != nil {
			w.t.Fatalf("%s: %v\n%s", where, r, w.describe())
		}
		if w.t.Failed() {
			w.t.Fatal(where)
		}
	}()
	w.points(at)
	w.settle()
}

// note writes down in which queues requests were when a disaster came.
func (w *world) note(reached map[string]bool, name string, e *engine) {
	for queue, n := range e.s.Queues() {
		if n > 0 {
			reached[name+" "+string(e.name)+" "+queue] = true
		}
	}
}

// seen are the queues that an engine's requests go through.
func (w *world) seen(e *engine) map[string]bool {
	queues := map[Role][]string{
		Unified: {"waiting", "running"},
		Prefill: {"bootstrap", "waiting", "running", "inflight"},
		Decode:  {"prealloc", "transfer", "digest", "running"},
	}
	out := map[string]bool{}
	for _, q := range queues[e.cfg.Role] {
		out[q] = true
	}
	return out
}
