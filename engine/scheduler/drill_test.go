package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// A scene is a drill with its traffic, small enough to be followed by eye: pages of
// four tokens, and only as many as the story needs.
type scene struct {
	drill Drill
	roles []Role
	// pages of the prefill, unified and decode pools, with the null page.
	prefillPages, pages int
	chunk               int
	every               int
	play                func(*world)
}

var scenes = []scene{
	{drill: RejectedHandoff, roles: []Role{Prefill, Decode}, prefillPages: 5, pages: 9, play: func(w *world) {
		w.request("a", tokens(1, 14), 18, NoDrill)
		w.run(nil)
		w.request("b", tokens(100, 30), 2, NoDrill)
		w.run(nil)
	}},
	{drill: EarlyRelease, roles: []Role{Prefill, Decode}, prefillPages: 20, pages: 14, every: 1000, play: func(w *world) {
		w.request("a", tokens(1, 16), 2, NoDrill)
		w.run(func() bool { return len(w.flights) > 0 })
		late := w.flights[0]
		late.stuck = true
		w.tick(20 * time.Millisecond)
		w.victimThen(func() { late.stuck = false })
	}},
	{drill: LateChunk, roles: []Role{Prefill, Decode}, prefillPages: 20, pages: 14, every: 1000, play: func(w *world) {
		w.request("a", tokens(1, 16), 2, NoDrill)
		w.run(func() bool { return w.by["d0"].s.Idle() && len(w.all) > 0 && w.all[len(w.all)-1].answers > 0 })
		w.victimThen(func() { w.tick(20 * time.Millisecond) })
	}},
	{drill: DoubleRelease, roles: []Role{Unified}, pages: 14, every: 1000, play: func(w *world) {
		w.request("a", tokens(1, 8), 1, NoDrill)
		w.run(nil)
		w.request("b", tokens(100, 8), 4, NoDrill)
		w.request("c", tokens(200, 8), 4, NoDrill)
		w.run(w.allAnswered)
	}},
	{drill: UnwrittenCache, roles: []Role{Unified}, pages: 20, chunk: 4, play: func(w *world) {
		w.request("a", tokens(1, 30), 4, NoDrill)
		w.run(nil)
		w.by["u0"].cache.Flush()
		w.request("b", tokens(100, 30), 1, NoDrill)
		w.request("b", tokens(100, 31), 1, NoDrill)
		w.run(nil)
	}},
	{drill: SaltDrop, roles: []Role{Unified}, pages: 20, play: func(w *world) {
		w.request("a", tokens(1, 14), 1, NoDrill)
		w.run(nil)
		w.request("b", tokens(1, 14), 1, NoDrill)
		w.run(nil)
	}},
	{drill: LayoutMismatch, roles: []Role{Prefill, Decode}, prefillPages: 20, pages: 14, play: func(w *world) {
		w.request("a", tokens(1, 14), 2, NoDrill)
		w.run(nil)
	}},
	{drill: StalePull, roles: []Role{Prefill, Decode}, prefillPages: 9, pages: 14, chunk: 4, play: func(w *world) {
		w.request("a", tokens(1, 30), 1, NoDrill)
		w.run(nil)
		w.by["p0"].cache.Flush()
		w.request("b", tokens(100, 30), 2, NoDrill)
		w.run(nil)
	}},
	{drill: LyingEngine, roles: []Role{Prefill, Decode}, prefillPages: 20, pages: 14, play: func(w *world) {
		w.request("a", tokens(1, 14), 2, NoDrill)
		w.run(nil)
	}},
}

func tokens(from, n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(from + i)
	}
	return out
}

// victimThen lets another request take the pages, come into the middle of its
// answer, and then lets do happen.
func (w *world) victimThen(do func()) {
	subs := w.request("v", tokens(100, 16), 12, NoDrill)
	victim := subs[len(subs)-1]
	w.run(func() bool { return len(victim.out) >= 2 || victim.answers > 0 })
	do()
	w.run(nil)
}

func (w *world) allAnswered() bool {
	return !slices.ContainsFunc(w.all, func(s *sub) bool { return s.answers == 0 && !s.lost })
}

// build makes the scene's world, with drill on its processes.
func (sc scene) build(t testing.TB, drill Drill, keep ...Protection) (w *world, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = r.(error)
		}
	}()
	w = newWorld(gate{t}, 1)
	for _, role := range sc.roles {
		cfg, kvc := simConfig(role)
		cfg.Drill, cfg.Keep, cfg.DrillEvery, cfg.DrillDelay = drill, keep, sc.every, 10*time.Millisecond
		cfg.ContextTokens = 40
		cfg.TransferTimeout, cfg.BootstrapTimeout = time.Second, time.Second
		kvc.DrainTimeout, kvc.Pages = 5*time.Second, sc.pages
		if sc.chunk > 0 {
			cfg.ChunkTokens = sc.chunk
		}
		cfg.BatchTokens = 40
		switch role {
		case Prefill:
			kvc.Pages, kvc.BatchPages = sc.prefillPages, 8
		case Decode:
			kvc.TagStripes = stripes
		}
		if drill != RejectedHandoff { // every other drill needs no prompt that is too long
			cfg.LowerContext = true
		}
		e := w.add(Peer([]string{"u0", "p0", "d0"}[role]), cfg, kvc, 0, 1)
		if sc.drill == LayoutMismatch && drill == LayoutMismatch && role == Prefill {
			e.shift, e.cfg.Layout.KVHeads = 1, 1
		}
	}
	if len(w.engines) == 2 {
		w.greet(w.engines[0], w.engines[1])
		w.run(nil)
	}
	return w, nil
}

// gate turns a scheduler that refuses to start into an error of build.
type gate struct{ testing.TB }

func (g gate) Fatal(args ...any) {
	if err, ok := args[0].(error); ok && errors.Is(err, ErrContextExceedsPool) {
		panic(err)
	}
	g.TB.Fatal(args...)
}

func (w *world) stoppedBy(p Protection) (n uint64) {
	for _, e := range w.engines {
		n += e.s.Stats().Stopped[p]
	}
	return n
}

func TestDrillLeaksWithoutItsProtections(t *testing.T) {
	for _, sc := range scenes {
		t.Run(sc.drill.String(), func(t *testing.T) {
			w, err := sc.build(t, sc.drill)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range w.engines {
				if got, want := e.s.Protections(), AllProtections().Without(sc.drill.Spec().Off...); got != want {
					t.Fatalf("%s runs with protections %v, want %v", e.name, got, want)
				}
			}
			sc.play(w)
			if len(w.leaks) == 0 {
				t.Fatal("nothing leaked: the drill proves nothing")
			}
		})
	}
}

func TestEachProtectionAloneStopsTheDrill(t *testing.T) {
	for _, sc := range scenes {
		for _, p := range sc.drill.Spec().Off {
			t.Run(fmt.Sprintf("%s/%s", sc.drill, p), func(t *testing.T) {
				w, err := sc.build(t, sc.drill, p)
				if err != nil {
					if p != PoolGate {
						t.Fatal(err)
					}
					return // it refused to start, which is how this one stops
				}
				sc.play(w)
				if len(w.leaks) > 0 {
					t.Fatalf("leaked although %s was on: %s", p, w.leaks[0])
				}
				if w.stoppedBy(p) == 0 {
					t.Fatalf("nothing leaked, but %s did not say that it stopped anything", p)
				}
			})
		}
	}
}

func TestSameTrafficWithoutTheDrillIsClean(t *testing.T) {
	for _, sc := range scenes {
		t.Run(sc.drill.String(), func(t *testing.T) {
			sc.prefillPages = max(sc.prefillPages, 14)
			sc.pages = max(sc.pages, 14)
			w, err := sc.build(t, NoDrill)
			if err != nil {
				t.Fatal(err)
			}
			sc.play(w)
			w.settle()
		})
	}
}

// A protection that is on in a drill's row does not stop it: that is what the table
// says, and what tells which of them one may rely on.
func TestEveryDrillHasASceneAndARow(t *testing.T) {
	var seen []Drill
	for _, sc := range scenes {
		seen = append(seen, sc.drill)
	}
	for i, spec := range Drills() {
		if !slices.Contains(seen, spec.Drill) {
			t.Errorf("drill %s has no scene", spec.Name)
		}
		if spec.Drill != Drill(i+1) || len(spec.Off) == 0 || len(spec.Roles) == 0 || spec.In == "" || spec.Fault == "" {
			t.Errorf("row %d is %+v", i, spec)
		}
		if d, err := ParseDrill(spec.Name); err != nil || d != spec.Drill || d.String() != spec.Name {
			t.Errorf("parsing %q: %v, %v", spec.Name, d, err)
		}
	}
	for i := range NumProtections {
		if p, err := ParseProtection(i.String()); err != nil || p != i {
			t.Errorf("parsing %q: %v, %v", i, p, err)
		}
	}
	for _, name := range []string{"Rejected-Handoff", "x"} {
		if _, err := ParseDrill(name); err == nil {
			t.Errorf("drill %q was accepted", name)
		}
		if _, err := ParseProtection(name); err == nil {
			t.Errorf("protection %q was accepted", name)
		}
	}
	if d, err := ParseDrill(""); d != NoDrill || err != nil || d.String() != "none" {
		t.Errorf("no drill: %v, %v", d, err)
	}
}

// The prompt fits the context and decode's pool, and not prefill's.
func TestRejectionAtTheDoorKeepsTheReasonAndHoldsNothing(t *testing.T) {
	sc := scenes[0]
	w, err := sc.build(t, RejectedHandoff, AdmissionReject)
	if err != nil {
		t.Fatal(err)
	}
	for _, sb := range w.request("b", tokens(100, 30), 2, NoDrill) {
		w.run(nil)
		if !sb.rejected || sb.outcome.Status != 400 || !errors.Is(sb.outcome.Err, ErrPoolTooSmall) {
			t.Fatalf("request %d: rejected %v, %+v; want 400 and ErrPoolTooSmall", sb.req, sb.rejected, sb.outcome)
		}
	}
	for _, e := range w.engines {
		if g := e.kv.Tags().HandedOut(1); g != 0 {
			t.Errorf("%s handed out a page to a rejected request", e.name)
		}
	}
}
