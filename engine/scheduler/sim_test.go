package scheduler

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/kvcache"
)

var (
	simSteps = flag.Int("sim.steps", 15_000, "random steps of each simulated world")
	simSeed  = flag.Uint64("sim.seed", 0, "run this seed alone")
)

// longRun is how many steps make a run the long one.
const longRun = 1_000_000

// simConfigs are small enough that everything runs out all the time.
func simConfig(role Role) (Config, kvcache.Config) {
	sc := Config{
		Role: role, ContextTokens: 60, MaxQueued: 6, MaxRunning: 5, BatchTokens: 24, ChunkTokens: 9,
		BootstrapTimeout: 400 * time.Millisecond, QueueTimeout: 800 * time.Millisecond, TransferTimeout: 300 * time.Millisecond,
		Protections: AllProtections(), Verify: true,
	}
	pc := kvcache.Config{
		Name: "kv", Pages: 20, PageTokens: 4, DrainTimeout: 150 * time.Millisecond, Tagged: true, Verify: true,
	}
	return sc, pc
}

// shapes of the simulated worlds, by what they add.
var shapes = []struct {
	name  string
	build func(*world)
}{
	{"unified", func(w *world) {
		cfg, kvc := simConfig(Unified)
		w.add("u0", cfg, kvc, 0, 1)
	}},
	{"one prefill, one decode", func(w *world) { pairWorld(w, 1, 1) }},
	{"two prefill ranks, two decode", func(w *world) { pairWorld(w, 2, 2) }},
}

func pairWorld(w *world, prefills, decodes int) {
	for i := range prefills {
		cfg, kvc := simConfig(Prefill)
		kvc.BatchPages = 3
		ranks := []int{i}
		if prefills == 1 {
			ranks = []int{0, 1}
		}
		w.add(Peer("p"+string('0'+rune(i))), cfg, kvc, ranks...)
	}
	for i := range decodes {
		cfg, kvc := simConfig(Decode)
		kvc.TagStripes, kvc.MaxTransfers, kvc.Pages = stripes, 5, 24
		w.add(Peer("d"+string('0'+rune(i))), cfg, kvc, 0, 1)
	}
	for _, a := range w.engines {
		for _, b := range w.engines {
			if a.cfg.Role == Prefill && b.cfg.Role == Decode {
				w.greet(a, b)
			}
		}
	}
}

// chance does one random thing.
func (w *world) chance() {
	e := w.engines[w.rng.IntN(len(w.engines))]
	if w.rng.IntN(1000*len(w.engines)) < 130 {
		w.disturb(e)
		return
	}
	switch n := w.rng.IntN(1000); {
	case n < 15:
		w.randomRequest()
	case n < 330:
		if len(e.local) > 0 {
			e.pop()
		}
	case n < 560:
		if keys := w.busyWires(); len(keys) > 0 {
			w.deliver(keys[w.rng.IntN(len(keys))])
		}
	case n < 800:
		w.someFlight()
	default:
		w.someForward(e)
	}
}

// disturb lets time pass, and now and then breaks something. The more engines there
// are, the longer each thing takes, and the rarer this is.
func (w *world) disturb(e *engine) {
	switch n := w.rng.IntN(1000); {
	case n < 40:
		w.total.Aborts++
		w.someSub(e, func(sb *sub) { e.step(Abort{Req: sb.req, Reason: "asked to"}) })
	case n < 80:
		w.total.Disconnects++
		w.someSub(e, func(sb *sub) { e.step(Disconnect{Req: sb.req}) })
	case n < 83:
		w.total.Crashes++
		w.crash(e)
	case n < 90:
		if peers := w.peersOf(e); len(peers) > 0 {
			w.cut(e, peers[w.rng.IntN(len(peers))])
		}
	default:
		w.tick(time.Duration(w.rng.IntN(4)) * time.Millisecond)
	}
}

func (w *world) someFlight() {
	if len(w.flights) == 0 {
		return
	}
	f := w.flights[w.rng.IntN(len(w.flights))]
	switch n := w.rng.IntN(100); {
	case f.stuck:
	case n < 3:
		f.stuck = true
	default:
		w.fly(f, n >= 6)
	}
}

func (w *world) someForward(e *engine) {
	switch {
	case e.launch == nil:
	case w.rng.IntN(300) == 0: // the pass fails, having written who knows what
		step := e.launch.Step
		e.launch = nil
		e.step(ForwardDone{Step: step, Err: errTest})
	case w.rng.IntN(100) == 0: // a result of another step
		e.step(ForwardDone{Step: e.launch.Step - 1})
	default:
		e.forward()
	}
}

func (w *world) someSub(e *engine, do func(*sub)) {
	if len(w.all) == 0 {
		return
	}
	recent := w.all[max(0, len(w.all)-20):]
	if sb := recent[w.rng.IntN(len(recent))]; e.subs[sb.req] != nil {
		do(sb)
	}
}

// randomRequest draws from few prefixes, so that the cache has something to do, and
// now and then asks for more than fits.
func (w *world) randomRequest() {
	family := rand.New(rand.NewPCG(w.rng.Uint64N(4), 9))
	n := 1 + w.rng.IntN(40)
	if w.rng.IntN(30) == 0 {
		n = 58 + w.rng.IntN(5)
	}
	prompt := make([]int32, n)
	for i := range prompt {
		prompt[i] = family.Int32N(50)
	}
	if w.rng.IntN(2) == 0 {
		prompt[n-1] = w.rng.Int32N(50)
	}
	w.request([]kvcache.Domain{"", "a", "b"}[w.rng.IntN(3)], prompt, 1+w.rng.IntN(20), NoDrill)
}

func simulate(t *testing.T, seed uint64, build func(*world)) {
	w := newWorld(t, seed)
	defer func() {
		if r := recover(); r != nil {
			t.Fatalf("seed %d: %v\n%s", seed, r, w.describe())
		}
		if t.Failed() {
			t.Logf("seed %d: run it again with -sim.seed=%d -sim.steps=%d", seed, seed, *simSteps)
		}
	}()
	build(w)
	for i := range *simSteps {
		w.chance()
		if i%500 == 499 {
			w.judgeLive()
		}
	}
	w.settle()
	for _, e := range w.engines {
		w.total.take(e.s)
	}
	t.Logf("seed %d: %+v", seed, w.total)
	for _, p := range []Protection{PageTags, HandoffDigest} { // the last lines, behind rules that held
		if w.total.Stopped[p] > 0 {
			t.Fatalf("seed %d: %s stopped %d faults that should not have been", seed, p, w.total.Stopped[p])
		}
	}
	if *simSteps >= longRun && min(w.total.Aborts, w.total.Disconnects, w.total.Crashes) < 20 {
		t.Fatalf("seed %d: %d aborts, %d disconnects, %d crashes: the world is too quiet", seed, w.total.Aborts, w.total.Disconnects, w.total.Crashes)
	}
	if w.total.Good < uint64(*simSteps/1500) {
		t.Fatalf("seed %d: %d good answers: the world is too rough to show anything", seed, w.total.Good)
	}
}

// judgeLive looks at what can be judged before all has ended.
func (w *world) judgeLive() {
	if len(w.leaks) > 0 {
		w.t.Fatalf("a leak: %s", w.leaks[0])
	}
}

// The long run is
//
//	go test ./engine/scheduler -run 'Nothing|Disaster' -timeout 60m -args -sim.steps=1000000 -sim.seed=11
//
// The pools and the schedulers check their own invariants at each transition; the
// world checks every byte that is read, every answer, and that each page is
// accounted for when all has come to rest.
func TestNothingLeaksAndNoPageIsLostWhateverHappens(t *testing.T) {
	for _, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			if *simSeed != 0 {
				simulate(t, *simSeed, shape.build)
				return
			}
			for seed := uint64(1); seed <= 3; seed++ {
				simulate(t, seed, shape.build)
			}
		})
	}
}

// A drill breaks what it is meant to break, and nothing else: the engine goes on,
// and everybody is answered once.
func TestDrilledEngineStillAnswersEverybodyOnce(t *testing.T) {
	for _, spec := range Drills() {
		for _, shape := range shapes {
			t.Run(spec.Name+"/"+shape.name, func(t *testing.T) {
				w := newWorld(t, 1)
				w.drill = spec.Drill
				shape.build(w)
				for range *simSteps / 3 {
					w.chance()
				}
				w.run(w.allAnswered)
				for _, sb := range w.all {
					if sb.answers != 1 && !sb.lost || sb.answers > 1 {
						t.Fatalf("seed 1: request %d was answered %d times", sb.req, sb.answers)
					}
				}
			})
		}
	}
}
