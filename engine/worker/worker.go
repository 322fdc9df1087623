package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/engine/handoff"
	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/lifecycle/publish"
	"github.com/kvwitness/kvwitness/engine/scheduler"
)

// inboxEvents bounds what waits for the owner; who posts more waits.
const inboxEvents = 1024

// ErrClosed is returned by a worker that has been closed.
var ErrClosed = errors.New("the engine is closed")

// ErrContext is returned where the declared context is longer than the model's.
var ErrContext = errors.New("the context is too long")

// Worker is a running engine.
type Worker struct {
	cfg             Config
	layout          scheduler.Layout
	be              backend.Backend
	memory          *handoff.Memory
	kv              *kvcache.Pool
	aux             *kvcache.Pool
	cache           *kvcache.Cache
	sched           *scheduler.Scheduler
	link            Link
	kvTold, auxTold *publish.Pool // nil: nobody listens

	inbox    chan any // scheduler.Event, submission or func()
	launches chan scheduler.Launch
	stop     chan struct{}
	stopOnce sync.Once
	done     sync.WaitGroup
	req      atomic.Uint64
	faults   atomic.Uint64

	mu     sync.Mutex
	live   map[kvcache.Req]*Answer
	closed bool
}

// New opens the memory, makes scheduler and pools, and starts them. Errors: those
// of the scheduler's own checks, or of the system's where memory is short.
func New(cfg Config) (*Worker, error) {
	cfg.complete()
	w := &Worker{
		cfg: cfg, inbox: make(chan any, inboxEvents), launches: make(chan scheduler.Launch, 1),
		stop: make(chan struct{}), live: map[kvcache.Req]*Answer{},
	}
	if err := w.open(); err != nil {
		if w.be != nil {
			err = errors.Join(err, w.be.Close())
		}
		return nil, err
	}
	if cfg.Link != nil {
		w.link = cfg.Link(w)
	}
	w.done.Add(2)
	go w.own()
	go w.compute()
	return w, nil
}

func (w *Worker) open() (err error) {
	c := &w.cfg
	if most := c.Model.Spec().MaxContext; c.ContextTokens > most {
		return fmt.Errorf("%w: %d tokens, %s knows positions for %d", ErrContext, c.ContextTokens, c.Model.Spec().Name, most)
	}
	if w.be, err = c.Open(c.Model, c.Pages, c.PageTokens, c.DType); err != nil {
		return err
	}
	var guard sync.Locker
	if c.drilled() {
		guard = &sync.Mutex{}
	}
	if w.memory, err = handoff.NewMemory(w.be, c.Slots, c.Ranks, guard); err != nil {
		return err
	}
	l := w.be.Memory().Layout()
	w.layout = scheduler.Layout{
		PageTokens: l.PageTokens, DType: l.DType.String(), BytesPerToken: l.PageBytes() / l.PageTokens,
		Layers: len(w.be.Spec().Layers), KVHeads: c.heads(l.KVHeads),
	}
	if err = w.openPools(); err != nil {
		return err
	}
	var secret kvcache.Secret
	_, _ = rand.Read(secret[:]) // never fails
	if w.cache, err = kvcache.NewCache(w.kv, secret); err != nil {
		return err
	}
	w.sched, err = scheduler.New(w.schedulerConfig(), w.kv, w.aux, w.cache)
	return err
}

func (w *Worker) openPools() (err error) {
	c, verify := &w.cfg, kvcache.VerifyFromEnv()
	kv := kvcache.Config{
		Name: "kv", Pages: c.Pages, PageTokens: c.PageTokens, DrainTimeout: c.DrainTimeout,
		Tagged: true, TagWords: w.memory.PageTags(), Verify: verify,
	}
	if c.Role == scheduler.Prefill { // a receiver names all of a request's pages at once
		kv.BatchPages = c.BatchPages
	}
	aux := kvcache.Config{
		Name: "aux", Pages: c.Slots, PageTokens: 1, DrainTimeout: c.DrainTimeout,
		Tagged: c.Role == scheduler.Decode, TagStripes: c.Ranks, TagWords: w.memory.SlotTags(), Verify: verify,
	}
	if err = w.witness(&kv, &aux); err != nil {
		return err
	}
	if w.kv, err = kvcache.New(kv); err != nil {
		return err
	}
	if c.Role == scheduler.Unified {
		return nil
	}
	w.aux, err = kvcache.New(aux)
	return err
}

func (w *Worker) schedulerConfig() scheduler.Config {
	c := &w.cfg
	s := scheduler.Config{
		Role: c.Role, ContextTokens: c.ContextTokens, LowerContext: c.LowerContext,
		MaxQueued: c.MaxQueued, MaxRunning: c.MaxRunning, BatchTokens: c.BatchTokens, ChunkTokens: c.ChunkTokens,
		BootstrapTimeout: c.BootstrapTimeout, QueueTimeout: c.QueueTimeout, TransferTimeout: c.TransferTimeout,
		SlowestPagesPerSecond: c.SlowestPagesPerSecond, Layout: w.layout,
		Protections: scheduler.AllProtections().Without(c.Off...), Drill: c.Drill, Keep: c.Keep, DrillEvery: c.DrillEvery,
		AllowRequestDrill: c.AllowRequestDrill, DrillDelay: c.DrillDelay, Verify: kvcache.VerifyFromEnv(),
	}
	if c.Witness != nil {
		s.Events = c.Witness
	}
	return s
}

// Config as it is in force.
func (w *Worker) Config() Config { return w.cfg }

// Layout of this instance's pages, as it is announced.
func (w *Worker) Layout() scheduler.Layout { return w.layout }

// Memory that peers may reach.
func (w *Worker) Memory() *handoff.Memory { return w.memory }

// Post hands an event to the scheduler; it waits while too many wait already, and
// does nothing once the worker is closed.
func (w *Worker) Post(ev scheduler.Event) { _ = w.post(ev) }

func (w *Worker) post(what any) error {
	select {
	case w.inbox <- what:
		return nil
	case <-w.stop:
		return fmt.Errorf("handing an event to the engine: %w", ErrClosed)
	}
}

// Inspect runs do in the goroutine that owns scheduler and pools. It must be short
// and must not keep what it is given.
func (w *Worker) Inspect(ctx context.Context, do func(View)) error {
	ran := make(chan struct{})
	if err := w.post(func() {
		do(View{Scheduler: w.sched, KV: w.kv, Aux: w.aux, Cache: w.cache})
		close(ran)
	}); err != nil {
		return err
	}
	select {
	case <-ran:
		return nil
	case <-w.stop:
		return ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("looking into the engine: %w", ctx.Err())
	}
}

// TagFaults counts the pages that were not what a block table took them for.
func (w *Worker) TagFaults() uint64 { return w.faults.Load() }

// View is what Inspect gives sight of.
type View struct {
	Scheduler *scheduler.Scheduler
	KV, Aux   *kvcache.Pool // Aux is nil in a unified engine
	Cache     *kvcache.Cache
}

// Drain refuses new requests and waits until those that are here have ended.
func (w *Worker) Drain(ctx context.Context) error {
	if err := w.post(scheduler.Stop{}); err != nil {
		return err
	}
	for {
		idle := false
		if err := w.Inspect(ctx, func(v View) { idle = v.Scheduler.Idle() }); err != nil {
			return err
		}
		if idle {
			return nil
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("waiting for requests to end: %w", err)
		}
	}
}

// Close ends everything at once; answers that have not ended fail.
func (w *Worker) Close() error {
	var err error
	w.stopOnce.Do(func() {
		close(w.stop)
		w.done.Wait()
		if w.link != nil {
			err = w.link.Close()
		}
		w.abandon()
		err = errors.Join(err, w.be.Close())
	})
	return err
}
