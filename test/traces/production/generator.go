package production

import (
	"container/heap"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// Config says what to make. Sizes and rates are those of a small cluster, see
// cluster.go.
type Config struct {
	Requests  int
	Incidents int // of Requests
	Seed      uint64
}

// Generator gives the facts of one trace, in the order of their times, each
// time once.
type Generator struct {
	cfg     Config
	rng     *rand.Rand
	engines cluster
	now     int64 // ns
	waiting queue // requests by the time of their next step
	arrived int
	next    int64 // when the next request arrives
	due     int   // incidents still to come
	rooms   []string
	facts   []*lifecycle.Fact // made and not yet given
}

// New returns the generator of the trace that cfg describes.
func New(cfg Config) (*Generator, error) {
	if cfg.Requests < 0 || cfg.Incidents < 0 || cfg.Incidents > cfg.Requests {
		return nil, fmt.Errorf("making %d incidents of %d requests: want 0 ≤ incidents ≤ requests", cfg.Incidents, cfg.Requests)
	}
	g := &Generator{cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 0)), due: cfg.Incidents}
	g.engines = newCluster()
	g.open()
	return g, nil
}

// Next returns the next fact, nil after the last one.
func (g *Generator) Next() *lifecycle.Fact {
	for len(g.facts) == 0 {
		if !g.advance() {
			return nil
		}
	}
	f := g.facts[0]
	g.facts = g.facts[1:]
	return f
}

// Incidents are the rooms of the incident requests made so far.
func (g *Generator) Incidents() []string { return g.rooms }

// advance takes the next step of a request or lets one arrive; false when all
// have ended.
func (g *Generator) advance() bool {
	arrival := g.arrived < g.cfg.Requests
	switch {
	case arrival && (len(g.waiting) == 0 || g.next <= g.waiting[0].at):
		g.now = max(g.now, g.next)
		g.next = g.now + g.between(0, 2*meanArrival)
		g.step(g.arrive())
	case len(g.waiting) > 0:
		r := heap.Pop(&g.waiting).(*request)
		g.now = max(g.now, r.at)
		g.step(r)
	default:
		return false
	}
	return true
}

// step lets a request do what comes next. One that finds no room in a pool
// tries again later.
func (g *Generator) step(r *request) {
	wait, done := r.steps[0](g, r)
	if done {
		r.steps = r.steps[1:]
	}
	if len(r.steps) > 0 {
		r.at = g.now + wait
		heap.Push(&g.waiting, r)
	}
}

// say appends a fact of engine e: a microsecond after the one before, with the
// next number of its stream.
func (g *Generator) say(e *engine, ev lifecycle.Ev, f lifecycle.Fact) {
	g.now += microsecond
	f.T, f.Node, f.Inst, f.Src, f.Ev = g.now, e.node, e.name, lifecycle.Engine, ev
	f.Seq = lifecycle.Some(e.seq)
	e.seq++
	g.facts = append(g.facts, &f)
}

func (g *Generator) between(lo, hi int64) int64 { return lo + g.rng.Int64N(hi-lo+1) }

// incident draws whether the next request is one, so that exactly as many as
// asked come, spread over the trace.
func (g *Generator) incident() bool {
	left := g.cfg.Requests - g.arrived
	if g.rng.IntN(left) >= g.due {
		return false
	}
	g.due--
	return true
}

// Write writes the whole trace to out.
func (g *Generator) Write(out io.Writer) error {
	w, err := lifecycle.NewWriter(out, lifecycle.Header{})
	if err != nil {
		return err
	}
	for f := g.Next(); f != nil; f = g.Next() {
		if err := w.Write(f); err != nil {
			return fmt.Errorf("writing the trace: %w", err)
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("writing the trace: %w", err)
	}
	return nil
}

// queue is a heap of requests by the time of their next step.
type queue []*request

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].at < q[j].at || q[i].at == q[j].at && q[i].n < q[j].n }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(r any)        { *q = append(*q, r.(*request)) }
func (q *queue) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}
