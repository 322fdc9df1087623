package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/kvcache"
)

// A world is engines whose schedulers and pools are the real ones, with a memory
// that can be checked: the cell of position i holds a chain over the tokens up to
// i, made from the cell before it as it was read. So a page that is not the
// request's own spoils the answer, and the reader is caught in the act.

// sub is one submission to one engine.
type sub struct {
	req      kvcache.Req
	room     Room
	domain   kvcache.Domain
	prompt   []int32
	out      []int32
	answers  int
	outcome  Outcome
	rejected bool
	lost     bool
}

type engine struct {
	w       *world
	name    Peer
	ranks   []int // the stripes it computes
	cfg     Config
	kvc     kvcache.Config
	slots   int
	s       *Scheduler
	kv, aux *kvcache.Pool
	cache   *kvcache.Cache
	mem     [][]cell
	first   []int32 // metadata slots
	slotOf  map[Room]kvcache.PageID
	conns   map[Peer]int // the connections it believes to have
	launch  *Launch
	local   []Event
	subs    map[kvcache.Req]*sub
	// shift: a layout of its own, by so many slots (drill layout-mismatch).
	shift int
}

// flight is a transfer on its way.
type flight struct {
	StartTransfer
	from, to *engine
	conn     int // it was posted on
	stuck    bool
}

type pair struct{ from, to Peer }

type digestKey struct {
	room Room
	pair
}

// total is what all engines of a world did, over all their epochs.
type total struct {
	Stats
	Steps, Good                  uint64
	Aborts, Disconnects, Crashes int // that happened to it
}

func (t *total) take(s *Scheduler) {
	st := s.Stats()
	for i := range st.Ran {
		t.Ran[i] += st.Ran[i]
		t.Stopped[i] += st.Stopped[i]
	}
	t.Submitted += st.Submitted
	t.Rejected += st.Rejected
	t.Answered += st.Answered
	t.Preempted += st.Preempted
	t.Fenced += st.Fenced
	t.Late += st.Late
	t.Steps += s.StepID()
}

type world struct {
	t       testing.TB
	rng     *rand.Rand
	now     int64
	engines []*engine
	by      map[Peer]*engine
	wires   map[pair][]func(*engine) Event
	conns   map[pair]int // counts the connections of two engines
	flights []*flight
	sent    map[digestKey]map[int][]cell
	all     []*sub
	next    kvcache.Req
	rooms   Room
	leaks   []string
	total   total
	drill   Drill // of every engine that is added
}

func newWorld(t testing.TB, seed uint64) *world {
	return &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 0)), by: map[Peer]*engine{},
		wires: map[pair][]func(*engine) Event{}, conns: map[pair]int{}, sent: map[digestKey]map[int][]cell{},
	}
}

func (w *world) add(name Peer, cfg Config, kvc kvcache.Config, ranks ...int) *engine {
	if w.drill != NoDrill {
		cfg.Drill = w.drill
	}
	e := &engine{w: w, name: name, cfg: cfg, kvc: kvc, ranks: ranks, slots: 9}
	w.engines = append(w.engines, e)
	w.by[name] = e
	e.boot()
	return e
}

// boot starts a new epoch with everything forgotten but the bytes in memory.
func (e *engine) boot() {
	var err error
	if e.kv, err = kvcache.New(e.kvc); err != nil {
		e.w.t.Fatal(err)
	}
	aux := kvcache.Config{
		Name: "aux", Pages: e.slots, PageTokens: 1, DrainTimeout: e.kvc.DrainTimeout,
		Tagged: true, TagStripes: e.kvc.TagStripes, Verify: e.kvc.Verify,
	}
	if e.aux, err = kvcache.New(aux); err != nil {
		e.w.t.Fatal(err)
	}
	if e.cache, err = kvcache.NewCache(e.kv, kvcache.Secret{1}); err != nil {
		e.w.t.Fatal(err)
	}
	if e.s, err = New(e.cfg, e.kv, e.aux, e.cache); err != nil {
		e.w.t.Fatal(err)
	}
	if e.mem == nil {
		e.mem = make([][]cell, e.kvc.Pages)
		for i := range e.mem {
			e.mem[i] = make([]cell, e.kvc.PageTokens)
		}
		e.first = make([]int32, e.slots)
	}
	e.subs, e.slotOf = map[kvcache.Req]*sub{}, map[Room]kvcache.PageID{}
	e.launch, e.local, e.conns = nil, nil, map[Peer]int{}
	for k, n := range e.w.conns {
		if k.from == e.name {
			e.conns[k.to] = n
		}
	}
}

// step feeds one event and carries the actions out.
func (e *engine) step(ev Event) {
	for _, a := range slices.Clone(e.s.Step(e.w.now, ev)) {
		e.act(a)
	}
}

func (e *engine) act(action Action) {
	w := e.w
	switch a := action.(type) {
	case Launch:
		e.launch = &a
	case StartTransfer:
		to := w.by[a.Peer]
		w.flights = append(w.flights, &flight{StartTransfer: a, from: e, to: to, conn: e.conns[a.Peer]})
	case SendTargets:
		e.slotOf[a.Room] = a.Slot
		w.send(e.name, a.Peer, Targets{Room: a.Room, Peer: e.name, Pages: a.Pages, Gens: a.Gens, Slot: a.Slot, SlotGen: a.SlotGen, PrefixTokens: a.PrefixTokens})
	case TellStatus:
		w.wire(e.name, a.Peer, func(to *engine) Event {
			return Completed{
				Room: a.Room, Peer: e.name, OK: a.OK, Counted: true, HasLength: a.HasLength, Pages: a.Pages,
				Tokens: a.Tokens, First: to.first[to.slotOf[a.Room]], Status: a.Status, Reason: a.Reason,
			}
		})
	case TellAbort:
		w.send(e.name, a.Peer, PeerAborted{Room: a.Room, Peer: e.name, Reason: a.Reason})
	case TellDrained:
		w.send(e.name, a.Peer, Drained{Room: a.Room, Peer: e.name})
	case CheckDigest:
		e.local = append(e.local, DigestChecked{Req: a.Req, Ran: true, Match: e.digestMatches(a)})
	case FencePeer:
		w.cut(e, w.by[a.Peer])
	case Token:
		e.subs[a.Req].out = append(e.subs[a.Req].out, a.Token)
	case Answer:
		e.subs[a.Req].end(a.Outcome)
		if a.Outcome.Status == 200 && e.cfg.Role != Prefill {
			w.total.Good++
		}
	case Reject:
		sb := e.subs[a.Req]
		sb.rejected = true
		sb.end(Outcome{Status: a.Status, Finish: FinishError, Err: a.Err})
	case Retracted, RefusePeer:
	}
}

func (s *sub) end(o Outcome) { s.answers, s.outcome = s.answers+1, o }

func (w *world) send(from, to Peer, ev Event) {
	w.wire(from, to, func(*engine) Event { return ev })
}

// wire sends a message, unless the connection is closed and the sender does not
// know it yet.
func (w *world) wire(from, to Peer, m func(*engine) Event) {
	if k := (pair{from, to}); w.by[from].conns[to] == w.conns[k] {
		w.wires[k] = append(w.wires[k], m)
	}
}

// deliver the first message of a wire.
func (w *world) deliver(k pair) {
	m := w.wires[k][0]
	w.wires[k] = w.wires[k][1:]
	if len(w.wires[k]) == 0 {
		delete(w.wires, k)
	}
	to := w.by[k.to]
	to.step(m(to))
}

// cut closes the connection of two engines: what is under way may have written a
// part, and after this nothing of it can write any more.
func (w *world) cut(a, b *engine) {
	for _, f := range slices.Clone(w.flights) {
		if f.from == a && f.to == b || f.from == b && f.to == a {
			if f.conn == w.conns[pair{f.from.name, f.to.name}] {
				w.write(f, w.rng.IntN(len(f.Source)+1))
			}
			w.flights = slices.DeleteFunc(w.flights, func(o *flight) bool { return o == f })
		}
	}
	for _, k := range []pair{{a.name, b.name}, {b.name, a.name}} {
		w.conns[k]++
		w.wires[k] = []func(*engine) Event{func(to *engine) Event {
			to.conns[k.from] = w.conns[k]
			return PeerGone{Peer: k.from}
		}, w.hello(k)}
	}
}

// greet tells two engines of each other.
func (w *world) greet(a, b *engine) {
	for _, k := range []pair{{a.name, b.name}, {b.name, a.name}} {
		w.wire(k.from, k.to, w.hello(k))
	}
}

func (w *world) hello(k pair) func(*engine) Event {
	return func(*engine) Event {
		return PeerUp{Peer: k.from, Capacity: w.by[k.from].kv.Capacity(), Layout: w.by[k.from].cfg.Layout}
	}
}

// crash kills an engine and starts it again.
func (w *world) crash(e *engine) {
	for _, sb := range e.subs {
		sb.lost = true
	}
	for _, o := range w.peersOf(e) {
		w.cut(e, o)
	}
	w.total.take(e.s)
	e.boot()
	for _, o := range w.peersOf(e) { // it knows nothing of the connection that went
		k := pair{o.name, e.name}
		w.wires[k] = []func(*engine) Event{w.hello(k)}
	}
}

func (w *world) peersOf(e *engine) (out []*engine) {
	for _, o := range w.engines {
		if e.cfg.Role == Prefill && o.cfg.Role == Decode || e.cfg.Role == Decode && o.cfg.Role == Prefill {
			out = append(out, o)
		}
	}
	return out
}

// request submits one request to the engines that must have it.
func (w *world) request(domain kvcache.Domain, prompt []int32, maxNew int, drill Drill) []*sub {
	w.rooms++
	var out []*sub
	for _, e := range w.engines {
		w.next++
		sb := &sub{req: w.next, domain: domain, prompt: prompt}
		ev := Submit{Req: sb.req, Domain: domain, Prompt: prompt, MaxNew: maxNew, Drill: drill}
		if e.cfg.Role != Unified {
			sb.room, ev.Room = w.rooms, w.rooms
		}
		for _, p := range w.peersOf(e) {
			ev.Peers = append(ev.Peers, p.name)
		}
		e.subs[sb.req] = sb
		e.local = append(e.local, ev)
		out = append(out, sb)
	}
	w.all = append(w.all, out...)
	return out
}

// run lets everything happen, in a fixed order, until nothing is left to happen or
// until says so.
func (w *world) run(until func() bool) {
	w.t.Helper()
	for range 200_000 {
		if until != nil && until() {
			return
		}
		if !w.turn() {
			if until == nil && w.idle() {
				return
			}
			w.tick(5 * time.Millisecond)
		}
	}
	w.t.Fatalf("nothing comes to rest: %s", w.describe())
}

// turn does the first thing that can be done.
func (w *world) turn() bool {
	for _, e := range w.engines {
		if len(e.local) > 0 {
			e.pop()
			return true
		}
	}
	if k, ok := w.firstWire(); ok {
		w.deliver(k)
		return true
	}
	for _, f := range w.flights {
		if !f.stuck {
			w.fly(f, true)
			return true
		}
	}
	for _, e := range w.engines {
		if e.launch != nil {
			e.forward()
			return true
		}
	}
	return false
}

func (e *engine) pop() {
	ev := e.local[0]
	e.local = e.local[1:]
	e.step(ev)
}

func (w *world) busyWires() []pair {
	var keys []pair
	for k := range w.wires {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b pair) int { return slices.Compare([]Peer{a.from, a.to}, []Peer{b.from, b.to}) })
	return keys
}

func (w *world) firstWire() (pair, bool) {
	keys := w.busyWires()
	if len(keys) == 0 {
		return pair{}, false
	}
	return keys[0], true
}

func (w *world) tick(d time.Duration) {
	w.now += int64(d)
	for _, e := range w.engines {
		e.step(Tick{})
	}
}

func (w *world) idle() bool {
	for _, e := range w.engines {
		if !e.s.Idle() || len(e.local) > 0 {
			return false
		}
	}
	return len(w.wires) == 0 && len(w.flights) == 0
}

func (w *world) describe() (text string) {
	for _, e := range w.engines {
		text += fmt.Sprintf("%s: queues %v, pages %+v; ", e.name, e.s.Queues(), e.kv.Audit())
	}
	return text
}

// settle lets everything end, and then every page must be accounted for, every
// submission answered once, and every good answer right.
func (w *world) settle() {
	w.t.Helper()
	w.run(nil)
	for _, e := range w.engines {
		for _, p := range []*kvcache.Pool{e.kv, e.aux} {
			if a := p.Audit(); a.Held != 0 || a.PendingDrain != 0 || !a.Balanced() {
				w.t.Fatalf("%s at rest: %+v", e.name, a)
			}
		}
		e.cache.Flush()
		if a := e.kv.Audit(); a.Free != a.Pages-1 {
			w.t.Fatalf("%s with an empty cache: %+v", e.name, a)
		}
	}
	w.judge()
}

func (w *world) judge() {
	w.t.Helper()
	if len(w.leaks) > 0 {
		w.t.Fatalf("%d leaks, the first: %s", len(w.leaks), w.leaks[0])
	}
	for _, sb := range w.all {
		if sb.answers != 1 && !sb.lost || sb.answers > 1 {
			w.t.Fatalf("request %d was answered %d times", sb.req, sb.answers)
		}
		if want := oracle(sb.prompt, len(sb.out)); !slices.Equal(sb.out, want) {
			w.t.Fatalf("request %d was answered %v, want %v", sb.req, sb.out, want)
		}
	}
	w.all = slices.DeleteFunc(w.all, func(sb *sub) bool { return sb.answers > 0 || sb.lost })
}
