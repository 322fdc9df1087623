package publish

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/ledger"
)

// reader is an output whose facts go over the wire's encoding to a judge.
type reader struct {
	t    testing.TB
	dec  *lifecycle.Decoder
	hear func(*lifecycle.Fact)
}

func (r *reader) say(f *lifecycle.Fact) {
	got, err := r.dec.Decode(f.AppendMsgpack(nil))
	if err != nil {
		r.t.Fatalf("said a fact that is none: %v\n%s", err, f.AppendJSON(nil))
	}
	got.Node = "n1"
	r.hear(got)
}

// court is a ledger and what it was told.
type court struct {
	t        testing.TB
	l        *ledger.Ledger
	facts    []*lifecycle.Fact
	findings []finding.Finding
}

func newCourt(t testing.TB) *court { return &court{t: t, l: ledger.New(ledger.Config{})} }

func (c *court) hear(f *lifecycle.Fact) {
	c.facts = append(c.facts, f)
	c.findings = append(c.findings, c.l.Step(f)...)
}

func (c *court) close() {
	c.findings = append(c.findings, c.l.Close()...)
}

func (c *court) mustBeSilent(what string) {
	c.t.Helper()
	if len(c.findings) == 0 {
		return
	}
	f := c.findings[0]
	story := ""
	for _, fact := range c.facts {
		if fact.Room == f.Room && f.Room != "" || fact.Inst == f.Inst && fact.Req == f.Req && f.Req != "" {
			story += string(fact.AppendJSON(nil)) + "\n"
		}
	}
	c.t.Fatalf("%s: %d findings, the first: %+v\n%s", what, len(c.findings), f, story)
}

// told builds a Teller whose facts are made after each call, without sockets.
type told struct {
	e    *encoder
	half events
}

func (d *told) drain(q *queue) {
	d.half = q.swap(d.half)
	d.e.tellAll(&d.half)
}

// tellTo gives each engine of w a publisher without sockets that speaks to hear.
func tellTo(w *world, hear func(*lifecycle.Fact)) map[string]*told {
	all := map[string]*told{}
	w.tells = func(e *engine) *Teller {
		id := Identity{Instance: e.name, Epoch: e.epoch, Now: func() int64 { return w.now }}
		if err := id.complete(); err != nil {
			w.t.Fatal(err)
		}
		tell := newTeller(id)
		all[e.name] = &told{e: newEncoder(id, &reader{w.t, lifecycle.NewMsgpackDecoder(), hear})}
		return tell
	}
	w.after = func(e *engine) { all[e.name].drain(e.tell.q) }
	return all
}

var worlds = []struct {
	name  string
	roles []scheduler.Role
}{
	{"unified", []scheduler.Role{scheduler.Unified}},
	{"a pair", []scheduler.Role{scheduler.Prefill, scheduler.Decode}},
	{"two by two", []scheduler.Role{scheduler.Prefill, scheduler.Prefill, scheduler.Decode, scheduler.Decode}},
}

func (w *world) populate(roles []scheduler.Role) {
	for i, role := range roles {
		w.add(fmt.Sprintf("%s-%d", role, i), role)
	}
	w.greet()
}

// Whatever an engine does with all protections on, what is said of it breaks no
// rule, and the pages that its facts hold are those that it counts itself.
func TestAnHonestEngineTellsAStoryWithoutFault(t *testing.T) {
	for _, shape := range worlds {
		t.Run(shape.name, func(t *testing.T) {
			good := 0
			for seed := range uint64(8) {
				w, c := newWorld(t, seed), newCourt(t)
				tellTo(w, c.hear)
				w.populate(shape.roles)
				for i := range 4000 {
					w.chance(true)
					if i%500 == 0 {
						w.audit()
					}
				}
				w.rest()
				for range 3 { // an imbalance is said if it lasts for a second
					w.audit()
					w.now += int64(time.Second)
				}
				c.close()
				c.mustBeSilent(fmt.Sprintf("seed %d", seed))
				if s := c.l.Stats(); s.NoPool+s.Impossible+s.Late > 0 {
					t.Fatalf("seed %d: %+v", seed, s)
				}
				good += w.good
			}
			if good < 200 {
				t.Fatalf("%d requests ended well: the worlds are too rough to show anything", good)
			}
		})
	}
}

// Who joins late, with a snapshot of each engine, hears a story without a fault
// too, whenever that is.
func TestASnapshotIsTheStorySoFar(t *testing.T) {
	for _, shape := range worlds {
		t.Run(shape.name, func(t *testing.T) {
			for seed := range uint64(6) {
				w := newWorld(t, seed)
				var courts []*court
				all := tellTo(w, func(f *lifecycle.Fact) {
					for _, c := range courts {
						c.hear(f)
					}
				})
				w.populate(shape.roles)
				for i := range 3000 {
					w.chance(true)
					if i%60 == 0 {
						courts = append(courts, w.join(all))
					}
					if len(courts) > 8 {
						courts[0].mustBeSilent(fmt.Sprintf("seed %d, joined before step %d", seed, i))
						courts = courts[1:]
					}
				}
				w.rest()
				for _, c := range courts {
					c.close()
					c.mustBeSilent(fmt.Sprintf("seed %d, joined near the end", seed))
				}
			}
		})
	}
}

// join opens a court that hears a snapshot of every engine.
func (w *world) join(all map[string]*told) *court {
	c := newCourt(w.t)
	for _, e := range w.engines {
		w.snapshot(all[e.name], c.hear)
	}
	return c
}

func (w *world) snapshot(d *told, hear func(*lifecycle.Fact)) {
	var s snapshot
	d.e.take(&s, 0, w.now)
	r := reader{w.t, lifecycle.NewMsgpackDecoder(), hear}
	first := true
	err := s.facts(func(f *lifecycle.Fact) error {
		if !first { // the watermark is the subscriber's
			r.say(f)
		}
		first = false
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// What the queue had no room for is missing and accuses nobody: the judge is
// blind for it, and says no more than that. (What a gap on one side leaves of a
// handoff between two is the judge's own affair.)
func TestWhatIsLostAccusesNobody(t *testing.T) {
	blind := 0
	for seed := range uint64(20) {
		w, c := newWorld(t, seed), newCourt(t)
		all := tellTo(w, c.hear)
		losing := 0
		w.after = func(e *engine) {
			d := all[e.name]
			if losing--; losing < 0 && w.rng.IntN(300) == 0 {
				losing = w.rng.IntN(10)
			}
			opens := false
			d.half = e.tell.q.swap(d.half)
			for _, ev := range d.half.list {
				opens = opens || ev.kind == poolOpened
			}
			if n := len(d.half.list); losing > 0 && n > 0 && !opens {
				d.e.lose(uint64(n))
				return
			}
			d.e.tellAll(&d.half)
		}
		w.populate([]scheduler.Role{scheduler.Unified})
		for range 4000 {
			w.chance(true)
		}
		w.rest()
		c.close()
		c.findings = slices.DeleteFunc(c.findings, func(f finding.Finding) bool {
			if f.Kind == finding.Blind {
				blind++
				return true
			}
			return false
		})
		c.mustBeSilent(fmt.Sprintf("seed %d", seed))
	}
	if blind < 20 {
		t.Fatalf("%d losses show", blind)
	}
}
