package evidence

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// Bounds of the gatherer.
const (
	// MaxOpen is how many incidents are gathered at a time.
	MaxOpen = 128
	// Burst is how many incidents of a kind begin at once at most, and then one
	// each refill.
	Burst  = 32
	refill = time.Second
	// Hold is how long after its last finding an incident waits for what comes
	// after, and longest how long in all.
	Hold     = time.Second
	longest  = 5 * time.Second
	maxSpecs = 1 << 12
	// QueueBytes bounds the bodies that wait for the disk.
	QueueBytes = 16 << 20
)

// GatherConfig says what a gatherer works with. All fields but Log must be set.
type GatherConfig struct {
	Store   *Store
	Memory  int // bytes of remembered facts
	Node    string
	Boot    string
	Zero    string // wall clock where t is 0
	Version string
	State   func() jsontext.Value
	// Told is called for each finding of an incident that may wake somebody, and
	// again once it is on the disk; it must not wait.
	Told func(i *Incident, stored bool)
	Log  *slog.Logger
}

// Seen is one thing that the judge took or said. Exactly one of the first two is
// set, or neither.
type Seen struct {
	Fact    *lifecycle.Fact
	Finding *finding.Finding
	Shadow  bool
	Map     *Map // of that moment, where it was asked for
}

// Gatherer makes incidents of what it is told. Take is for one goroutine.
type Gatherer struct {
	cfg    GatherConfig
	memory *memory
	specs  map[place]*lifecycle.PoolSpec
	open   map[string]*gathering
	tokens [finding.NumKind]bucket
	base   Versions

	mu     sync.Mutex
	names  map[string]bool // of open incidents; for Wants
	queue  []pending
	size   int
	wake   chan struct{}
	closed bool
	ended  chan struct{}

	unkept, skipped, lost atomic.Uint64
	waiting               atomic.Int64
}

// bucket lets some begin at once, and then one each refill.
type bucket struct {
	left int
	at   time.Time
}

func (b *bucket) take(now time.Time) bool {
	if b.at.IsZero() {
		b.left, b.at = Burst, now
	}
	if n := int(now.Sub(b.at) / refill); n > 0 {
		b.left, b.at = min(Burst, b.left+n), b.at.Add(time.Duration(n)*refill)
	}
	if b.left == 0 {
		return false
	}
	b.left--
	return true
}

// gathering is an incident that may have more to come.
type gathering struct {
	Incident
	body        Body // of the entry to come
	wants       *interest
	next        uint64 // number of the first fact that is not in an entry
	begun, last time.Time
	stored      bool
}

type pending struct {
	incident Incident
	body     []byte
}

// NewGatherer begins to gather.
func NewGatherer(cfg GatherConfig) *Gatherer {
	g := &Gatherer{
		cfg: cfg, memory: newMemory(cfg.Memory), specs: map[place]*lifecycle.PoolSpec{}, open: map[string]*gathering{},
		base: versions("/", cfg.Version), names: map[string]bool{}, wake: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	go g.write()
	return g
}

// Wants reports whether the page map of a finding's moment is asked for. It may be
// called from any goroutine.
func (g *Gatherer) Wants(f *finding.Finding) bool {
	if f.Pool == "" {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.names) < MaxOpen && !g.names[nameOf(f)]
}

func nameOf(f *finding.Finding) string { return f.Node + "\x00" + f.Incident() }

// Unkept counts facts that never came here.
func (g *Gatherer) Unkept(n uint64) { g.unkept.Add(n) }

// Take takes in what was taken and said, in order.
func (g *Gatherer) Take(all []Seen, now time.Time) {
	for i := range all {
		switch s := &all[i]; {
		case s.Fact != nil:
			g.fact(s.Fact)
		case s.Finding != nil:
			g.finding(s, now)
		}
	}
	g.flush(now)
}

func (g *Gatherer) fact(f *lifecycle.Fact) {
	if f.Ev == lifecycle.PoolOpened && f.Spec != nil {
		at := place{f.Inst, f.Pool}
		if _, known := g.specs[at]; known || len(g.specs) < maxSpecs {
			g.specs[at] = f.Spec
		}
	}
	g.memory.add(f)
}

func (g *Gatherer) finding(s *Seen, now time.Time) {
	f := s.Finding
	name := nameOf(f)
	in := g.open[name]
	if in == nil {
		if len(g.open) >= MaxOpen || !g.tokens[f.Kind].take(now) {
			g.skipped.Add(1)
			if !f.Synthetic && !s.Shadow { // no evidence, but told all the same
				i := Incident{Kind: f.Kind, Severity: f.Severity, Name: f.Incident(), Node: f.Node, Inst: f.Inst, Wakes: true, First: now, Last: now}
				g.cfg.Told(&i, false)
			}
			return
		}
		in = g.begin(f, now)
		g.open[name] = in
		g.say(name, true)
	}
	in.add(f)
	in.Wakes = in.Wakes || !f.Synthetic && !s.Shadow
	in.Open = in.Open || in.Wakes && f.Severity == finding.Critical && !f.Synthetic && !s.Shadow
	in.Last, in.last = now, now
	in.body.Shadow = in.body.Shadow || s.Shadow
	in.body.finding(f)
	in.wants.add(f, g.specs[place{f.Inst, f.Pool}])
	if s.Map != nil && in.body.Map == nil {
		in.body.Map = s.Map
	}
	if in.Wakes {
		i := in.copied()
		g.cfg.Told(&i, false)
	}
}

// say lets others know whether an incident of that name is open.
func (g *Gatherer) say(name string, open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if open {
		g.names[name] = true
	} else {
		delete(g.names, name)
	}
}

func (g *Gatherer) begin(f *finding.Finding, now time.Time) *gathering {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s %d %d", f.Node, f.Inst, f.Incident(), f.T, now.UnixNano()))
	return &gathering{
		Incident: Incident{
			ID: hex.EncodeToString(sum[:6]), Name: f.Incident(), Node: f.Node, Inst: f.Inst, Req: f.Req, Room: f.Room, First: now,
		},
		wants: newInterest(), begun: now, last: now,
	}
}

// flush writes what is due: new incidents at once, and what came after once it is
// quiet.
func (g *Gatherer) flush(now time.Time) {
	for name, in := range g.open {
		switch {
		case !in.stored:
			g.entry(in, "opened", now)
			in.stored = true
		case now.Sub(in.last) >= Hold || now.Sub(in.begun) >= longest:
			g.entry(in, "completed", now)
			delete(g.open, name)
			g.say(name, false)
		}
	}
}

// entry hands an entry on to the disk.
func (g *Gatherer) entry(in *gathering, part string, now time.Time) {
	b := &in.body
	b.Part, b.Node, b.Boot, b.Zero, b.At = part, g.cfg.Node, g.cfg.Boot, g.cfg.Zero, now.UTC().Format(time.RFC3339Nano)
	b.Versions, b.Since, b.Engines = g.base, g.memory.oldest(), g.cfg.State()
	b.Losses = Losses{g.unkept.Load(), g.skipped.Load()}
	var facts gathered
	if in.next == 0 { // once through, to learn the names of its transfers
		g.memory.since(0, func(f *lifecycle.Fact) { in.wants.wants(f) })
		b.Process = g.processes(in)
	}
	g.memory.since(in.next, func(f *lifecycle.Fact) {
		if in.wants.wants(f) {
			facts.add(f)
		}
	})
	in.next = g.memory.next
	facts.into(b)
	text, err := b.encoded()
	in.body = Body{}
	if err != nil || len(text) > MaxBody {
		g.lost.Add(1)
		return
	}
	g.put(pending{in.copied(), text})
}

func (g *Gatherer) processes(in *gathering) (all []Process) {
	for at, spec := range g.specs {
		if !in.wants.insts[at.inst] {
			continue
		}
		for _, pid := range spec.PIDs {
			if len(all) < maxProcesses {
				all = append(all, process("/", pid))
			}
		}
	}
	return all
}

func (g *Gatherer) put(p pending) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || g.size+len(p.body) > QueueBytes {
		g.lost.Add(1)
		return
	}
	g.queue, g.size = append(g.queue, p), g.size+len(p.body)
	g.waiting.Store(int64(g.size))
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// write puts entries on the disk until the gatherer is closed.
func (g *Gatherer) write() {
	defer close(g.ended)
	for range g.wake {
		g.mu.Lock()
		todo := g.queue
		g.queue, g.size = nil, 0
		g.mu.Unlock()
		for i := range todo {
			p := &todo[i]
			if _, err := g.cfg.Store.Put(p.incident, p.body); err != nil {
				g.lost.Add(1)
				if g.cfg.Log != nil {
					g.cfg.Log.Error("evidence is not on the disk", "incident", p.incident.ID, "error", err)
				}
				continue
			}
			if i, err := g.cfg.Store.Incident(p.incident.ID); err == nil && i.Wakes {
				g.cfg.Told(&i, true)
			}
		}
		g.waiting.Store(0)
	}
}

// GatherStats says how a gatherer stands.
type GatherStats struct {
	Skipped uint64 // incidents that were too many to record
	Lost    uint64 // entries that did not come to the disk
	Unkept  uint64 // facts that never came here
	Waiting int    // bytes that wait for the disk
}

// Stats may be called from any goroutine.
func (g *Gatherer) Stats() GatherStats {
	return GatherStats{
		Skipped: g.skipped.Load(), Lost: g.lost.Load(), Unkept: g.unkept.Load(), Waiting: int(g.waiting.Load()),
	}
}

// Close writes what is open, for at most that long. It is called by who calls Take.
func (g *Gatherer) Close(wait time.Duration) {
	now := time.Now()
	for name, in := range g.open {
		part := "completed"
		if !in.stored {
			part = "opened"
		}
		g.entry(in, part, now)
		delete(g.open, name)
	}
	g.mu.Lock()
	g.closed = true
	close(g.wake)
	g.mu.Unlock()
	select {
	case <-g.ended:
	case <-time.After(wait):
	}
}
