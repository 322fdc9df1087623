package publish

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/scheduler"
)

// A world is engines whose schedulers and pools are the real ones, without bytes:
// what their publishers say of random traffic must be a story without a fault.
type world struct {
	t       testing.TB
	rng     *rand.Rand
	now     int64
	engines []*engine
	wires   map[[2]string][]func() scheduler.Event
	flights []flight
	next    kvcache.Req
	room    scheduler.Room
	drill   scheduler.Drill
	twins   bool // each request comes twice
	// tells makes the Teller of an engine that starts.
	tells func(e *engine) *Teller
	// after is called whenever an engine has done something.
	after func(e *engine)
	good  int // requests that ended well
}

type flight struct {
	scheduler.StartTransfer
	from, to *engine
}

type engine struct {
	w             *world
	name          string
	role          scheduler.Role
	epoch         uint64
	s             *scheduler.Scheduler
	kv, aux       *kvcache.Pool
	tell          *Teller
	kvPool, auxes *Pool
	launch        *scheduler.Launch
	local         []scheduler.Event
	reqs          []kvcache.Req
}

const (
	worldPages  = 24
	worldTokens = 4
)

func newWorld(t testing.TB, seed uint64) *world {
	return &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 0)), now: 1_000_000_000,
		wires: map[[2]string][]func() scheduler.Event{}, after: func(*engine) {},
	}
}

func (w *world) add(name string, role scheduler.Role) *engine {
	e := &engine{w: w, name: name, role: role}
	w.engines = append(w.engines, e)
	e.boot()
	return e
}

func (e *engine) boot() {
	w := e.w
	e.epoch++
	e.tell = w.tells(e)
	spec := lifecycle.PoolSpec{Pages: worldPages, PageTokens: worldTokens, NullIDs: lifecycle.Runs{{First: 0, Count: 1}}}
	e.kvPool = must(e.tell.PoolEvents("kv", spec))
	spec.PageTokens, spec.Owes = 1, lifecycle.OwesNone
	e.auxes = must(e.tell.PoolEvents("aux", spec))
	e.kv = must(kvcache.New(kvcache.Config{
		Name: "kv", Pages: worldPages, PageTokens: worldTokens, DrainTimeout: 150 * time.Millisecond,
		BatchPages: 5, Events: e.kvPool, Verify: true,
	}))
	e.aux = must(kvcache.New(kvcache.Config{Name: "aux", Pages: worldPages, PageTokens: 1, Events: e.auxes, Verify: true}))
	if e.role == scheduler.Decode {
		e.kv = must(kvcache.New(kvcache.Config{
			Name: "kv", Pages: worldPages, PageTokens: worldTokens, DrainTimeout: 150 * time.Millisecond,
			Events: e.kvPool, Verify: true,
		}))
	}
	cache := must(kvcache.NewCache(e.kv, kvcache.Secret{1}))
	e.s = must(scheduler.New(scheduler.Config{
		Role: e.role, ContextTokens: 60, MaxQueued: 6, MaxRunning: 5, BatchTokens: 24, ChunkTokens: 9,
		BootstrapTimeout: 400 * time.Millisecond, QueueTimeout: 800 * time.Millisecond, TransferTimeout: 300 * time.Millisecond,
		Protections: scheduler.AllProtections(), Drill: w.drill, DrillDelay: 5 * time.Millisecond, Events: e.tell, Verify: true,
	}, e.kv, e.aux, cache))
	e.launch, e.local, e.reqs = nil, nil, nil
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (e *engine) at() kvcache.At { return kvcache.At{Now: e.w.now, Step: e.s.StepID()} }

func (e *engine) step(ev scheduler.Event) {
	e.w.now += 1 + e.w.rng.Int64N(20_000)
	for _, a := range slices.Clone(e.s.Step(e.w.now, ev)) {
		e.act(a)
	}
	e.w.after(e)
}

func (w *world) by(name scheduler.Peer) *engine {
	for _, e := range w.engines {
		if e.name == string(name) {
			return e
		}
	}
	return nil
}

func (w *world) send(from *engine, to scheduler.Peer, ev scheduler.Event) {
	k := [2]string{from.name, string(to)}
	w.wires[k] = append(w.wires[k], func() scheduler.Event { return ev })
}

func (e *engine) act(action scheduler.Action) {
	w, me := e.w, scheduler.Peer(e.name)
	switch a := action.(type) {
	case scheduler.Launch:
		e.launch = &a
	case scheduler.StartTransfer:
		w.flights = append(w.flights, flight{a, e, w.by(a.Peer)})
	case scheduler.SendTargets:
		w.send(e, a.Peer, scheduler.Targets{
			Room: a.Room, Peer: me, Pages: slices.Clone(a.Pages), Gens: slices.Clone(a.Gens),
			Slot: a.Slot, SlotGen: a.SlotGen, PrefixTokens: a.PrefixTokens,
		})
	case scheduler.TellStatus:
		w.send(e, a.Peer, scheduler.Completed{
			Room: a.Room, Peer: me, OK: a.OK, Counted: true, HasLength: a.HasLength, Pages: a.Pages,
			Tokens: a.Tokens, First: 7, Status: a.Status, Reason: a.Reason,
		})
	case scheduler.TellAbort:
		w.send(e, a.Peer, scheduler.PeerAborted{Room: a.Room, Peer: me, Reason: a.Reason})
	case scheduler.TellDrained:
		w.send(e, a.Peer, scheduler.Drained{Room: a.Room, Peer: me})
	case scheduler.CheckDigest:
		e.local = append(e.local, scheduler.DigestChecked{Req: a.Req, Ran: true, Match: true})
	case scheduler.FencePeer:
		w.cut(e, w.by(a.Peer))
	case scheduler.Answer:
		if a.Outcome.Status == 200 {
			w.good++
		}
	}
}

// land ends a flight: the bytes are counted at the receiver, the sender is told.
func (w *world) land(i int, ok bool) {
	f := w.flights[i]
	w.flights = slices.Delete(w.flights, i, i+1)
	if ok {
		w.send(f.from, scheduler.Peer(f.to.name), scheduler.Arrived{
			Room: f.Room, Peer: scheduler.Peer(f.from.name), First: f.First, Count: len(f.Target), Tokens: f.Tokens,
		})
	}
	f.from.local = append(f.from.local, scheduler.Sent{Xfer: f.Xfer, OK: ok})
}

func (w *world) hello(from, to *engine) func() scheduler.Event {
	return func() scheduler.Event {
		return scheduler.PeerUp{Peer: scheduler.Peer(from.name), Capacity: from.kv.Capacity()}
	}
}

// cut closes the connection of two engines: nothing that is under way arrives.
func (w *world) cut(a, b *engine) {
	w.flights = slices.DeleteFunc(w.flights, func(f flight) bool {
		return f.from == a && f.to == b || f.from == b && f.to == a
	})
	for _, k := range [][2]*engine{{a, b}, {b, a}} {
		k[1].local = slices.DeleteFunc(k[1].local, func(ev scheduler.Event) bool { _, sent := ev.(scheduler.Sent); return sent })
		w.wires[[2]string{k[0].name, k[1].name}] = []func() scheduler.Event{
			func() scheduler.Event { return scheduler.PeerGone{Peer: scheduler.Peer(k[0].name)} }, w.hello(k[0], k[1]),
		}
	}
}

func (w *world) peers(e *engine) (out []*engine) {
	for _, o := range w.engines {
		if o.role != e.role && o.role != scheduler.Unified && e.role != scheduler.Unified {
			out = append(out, o)
		}
	}
	return out
}

func (w *world) greet() {
	for _, a := range w.engines {
		for _, b := range w.peers(a) {
			k := [2]string{a.name, b.name}
			w.wires[k] = append(w.wires[k], w.hello(a, b))
		}
	}
}

func (w *world) crash(e *engine) {
	for _, o := range w.peers(e) {
		w.cut(e, o)
	}
	e.boot()
	for _, o := range w.peers(e) { // it knows nothing of what went
		w.wires[[2]string{o.name, e.name}] = []func() scheduler.Event{w.hello(o, e)}
	}
	w.after(e)
}

func (w *world) request() {
	family := rand.New(rand.NewPCG(w.rng.Uint64N(4), 9))
	prompt := make([]int32, 1+w.rng.IntN(40))
	for i := range prompt {
		prompt[i] = family.Int32N(50)
	}
	if w.rng.IntN(2) == 0 {
		prompt[len(prompt)-1] = w.rng.Int32N(50)
	}
	domain := []kvcache.Domain{"", "0123456789abcdef", "fedcba9876543210"}[w.rng.IntN(3)]
	w.submit(domain, prompt)
	if w.twins {
		w.submit(domain, prompt)
	}
}

func (w *world) submit(domain kvcache.Domain, prompt []int32) {
	w.room++
	for _, e := range w.engines {
		w.next++
		ev := scheduler.Submit{Req: w.next, Domain: domain, Prompt: prompt, MaxNew: 1 + w.rng.IntN(20), Room: w.room}
		for _, p := range w.peers(e) {
			ev.Peers = append(ev.Peers, scheduler.Peer(p.name))
		}
		e.local = append(e.local, ev)
		e.reqs = append(e.reqs, w.next)
	}
}

func (e *engine) forward() {
	l := *e.launch
	e.launch = nil
	done := scheduler.ForwardDone{Step: l.Step, Results: make([]scheduler.Result, len(l.Items))}
	if e.w.rng.IntN(300) == 0 {
		done = scheduler.ForwardDone{Step: l.Step, Err: errors.New("the device is gone")}
	}
	for i := range done.Results {
		done.Results[i].Token = e.w.rng.Int32N(50)
	}
	e.step(done)
}

// chance does one random thing.
func (w *world) chance(disturbed bool) {
	e := w.engines[w.rng.IntN(len(w.engines))]
	switch n := w.rng.IntN(1000); {
	case n < 15:
		w.request()
	case n < 330 && len(e.local) > 0:
		ev := e.local[0]
		e.local = e.local[1:]
		e.step(ev)
	case n < 560:
		w.deliver()
	case n < 780 && len(w.flights) > 0:
		w.land(w.rng.IntN(len(w.flights)), w.rng.IntN(30) > 0)
	case n < 950 && e.launch != nil:
		e.forward()
	case n < 990:
		w.now += w.rng.Int64N(int64(4 * time.Millisecond))
		e.step(scheduler.Tick{})
	case disturbed:
		w.disturb(e)
	}
}

func (w *world) deliver() bool {
	var keys [][2]string
	for k, queue := range w.wires {
		if len(queue) > 0 {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return false
	}
	slices.SortFunc(keys, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	k := keys[w.rng.IntN(len(keys))]
	ev := w.wires[k][0]()
	w.wires[k] = w.wires[k][1:]
	w.by(scheduler.Peer(k[1])).step(ev)
	return true
}

func (w *world) disturb(e *engine) {
	switch n := w.rng.IntN(100); {
	case n < 50 && len(e.reqs) > 0:
		recent := e.reqs[max(0, len(e.reqs)-6):]
		e.step(scheduler.Abort{Req: recent[w.rng.IntN(len(recent))], Reason: "asked to"})
	case n < 90 && len(e.reqs) > 0:
		recent := e.reqs[max(0, len(e.reqs)-6):]
		e.step(scheduler.Disconnect{Req: recent[w.rng.IntN(len(recent))]})
	case n < 92:
		w.crash(e)
	case n < 97:
		if peers := w.peers(e); len(peers) > 0 {
			w.cut(e, peers[w.rng.IntN(len(peers))])
		}
	}
}

// rest lets everything come to its end.
func (w *world) rest() {
	w.t.Helper()
	for range 1_000_000 {
		idle := len(w.flights) == 0
		for _, e := range w.engines {
			idle = idle && e.s.Idle() && len(e.local) == 0 && e.launch == nil
		}
		if idle && !w.deliver() {
			return
		}
		w.turn()
	}
	w.t.Fatal("the world comes to no rest")
}

func (w *world) turn() {
	for _, e := range w.engines {
		if len(e.local) > 0 {
			ev := e.local[0]
			e.local = e.local[1:]
			e.step(ev)
			return
		}
	}
	if w.deliver() {
		return
	}
	if len(w.flights) > 0 {
		w.land(0, true)
		return
	}
	for _, e := range w.engines {
		if e.launch != nil {
			e.forward()
			return
		}
	}
	w.now += int64(5 * time.Millisecond)
	for _, e := range w.engines {
		e.step(scheduler.Tick{})
	}
}

// audit has every engine count its pools.
func (w *world) audit() {
	for _, e := range w.engines {
		e.kvPool.Audited(e.at(), e.kv.Audit())
		e.auxes.Audited(e.at(), e.aux.Audit())
		w.after(e)
	}
}
