package daemon

import (
	"context"
	"sync"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/config"
	"github.com/kvwitness/kvwitness/sidecar/intake"
	"github.com/kvwitness/kvwitness/sidecar/metrics"
	"github.com/kvwitness/kvwitness/sidecar/source/kvevents"
	"github.com/kvwitness/kvwitness/sidecar/source/logs"
)

// attached are the sources beside an engine's lifecycle stream and its endpoints: what
// SGLang and vLLM tell without a change.
type attached struct {
	events *kvevents.Follower // nil: not followed

	mu  sync.Mutex
	log *logs.Parser // nil: not followed
}

// AttachedState is how those sources stand.
type AttachedState struct {
	KVEvents map[string]uint64 `json:"kv_events,omitempty"`
	LogLines map[string]uint64 `json:"log_lines,omitempty"` // by what they are
}

// attach follows them until ctx ends, and calls done once they have ended.
func (d *Daemon) attach(ctx context.Context, e *config.Engine, done *sync.WaitGroup) *attached {
	a := &attached{}
	if e.KVEvents != "" {
		// An instance of its own: it begins anew at other times than what is said over
		// HTTP of the engine's pools.
		f, err := kvevents.New(kvevents.Config{
			Name: e.Name + "/kv", Node: d.node, Events: e.KVEvents, Replay: e.KVReplay, Ranks: e.Ranks(), Now: now,
		}, d.in)
		if err != nil {
			d.log.Error("KV events cannot be followed", "engine", e.Name, "error", err)
		} else {
			a.events = f
			done.Go(func() {
				if err := f.Run(ctx); err != nil {
					d.log.Error("KV events cannot be followed", "engine", e.Name, "error", err)
				}
			})
		}
	}
	if e.Log != "" {
		d.attachLog(ctx, e, a, done)
	}
	return a
}

func (d *Daemon) attachLog(ctx context.Context, e *config.Engine, a *attached, done *sync.WaitGroup) {
	name := e.Name
	// A stream of the engine's own says what its pools are; the log knows no page size.
	pools := name
	if e.Instance != "" {
		pools = name + "/log"
	}
	src := d.in.Open(name, func() intake.Standing { return intake.Away }) // holds nobody back
	a.log = &logs.Parser{Emit: func(f *lifecycle.Fact) {
		f.T, f.Node, f.Inst, f.Src = now(), d.node, name, lifecycle.Log
		if f.Ev == lifecycle.PoolOpened {
			f.Inst = pools
		}
		src.Put(ctx, f)
	}}
	with := func(do func()) { a.mu.Lock(); defer a.mu.Unlock(); do() }
	sink := logs.Sink{
		Line: func(text string) { with(func() { a.log.Read(text) }) },
		// Of what was there before, what holds still: its pool, and what has run.
		Past:   a.past,
		Forget: func() { with(a.log.Forget) },
		Lost:   func(lines uint64) { with(func() { a.log.Lose(lines) }) },
	}
	file := logs.File{Path: e.Log, Sink: sink}
	run := file.Run
	if unit, journal, _ := logs.Unit(e.Log); journal { // the configuration was checked
		j := logs.Journal{Unit: unit, Log: d.log.With("engine", name), Sink: sink}
		run = j.Run
	}
	done.Go(func() {
		defer src.Close()
		run(ctx)
	})
}

// past reads a line of before: requests of then are no news.
func (a *attached) past(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	emit := a.log.Emit
	defer func() { a.log.Emit = emit }()
	a.log.Emit = func(f *lifecycle.Fact) {
		if f.Ev == lifecycle.PoolOpened || f.Ev == lifecycle.Protection {
			emit(f)
		}
	}
	a.log.Read(text)
}

// beside is what metrics show of them.
func (d *Daemon) beside() (all []metrics.Beside) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.engines {
		b := metrics.Beside{Name: e.Name}
		if e.attached.events != nil {
			b.KV = e.attached.events.Stats()
		}
		if e.attached.log != nil {
			e.attached.mu.Lock()
			b.Log = e.attached.log.Count
			e.attached.mu.Unlock()
		}
		all = append(all, b)
	}
	return all
}

// state is nil where nothing is attached.
func (a *attached) state() *AttachedState {
	if a.events == nil && a.log == nil {
		return nil
	}
	s := &AttachedState{}
	if a.events != nil {
		c := a.events.Stats()
		s.KVEvents = map[string]uint64{
			"batches": c.Batches, "twice": c.Twice, "bad_batches": c.BadBatch, "bad_events": c.Bad, "missed": c.Missed, "gaps": c.Gaps,
			"replays": c.Replays, "restarts": c.Restarts, "ranks_connected": uint64(c.Up), "salted_blocks": c.Salted,
			"forgotten": c.Forgotten, "crossings": c.Crossings,
		}
		for k := range kvevents.NumKind {
			s.KVEvents[k.String()] = c.Events[k]
		}
	}
	if a.log != nil {
		s.LogLines = map[string]uint64{}
		a.mu.Lock()
		defer a.mu.Unlock()
		for l := range logs.NumLine {
			s.LogLines[l.String()] = a.log.Count[l]
		}
	}
	return s
}
