package daemon

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/profile"
	"github.com/kvwitness/kvwitness/sidecar/evidence"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/intake"
	"github.com/kvwitness/kvwitness/sidecar/ledger"
	"github.com/kvwitness/kvwitness/sidecar/metrics"
	"github.com/kvwitness/kvwitness/sidecar/record"
	"github.com/kvwitness/kvwitness/sidecar/report"
)

const (
	// turn is how often facts are taken while there are some, and rest while
	// there are none: then only the judge's own time limits wait.
	turn = 500 * time.Microsecond
	rest = 50 * time.Millisecond
	// inOrder is how long facts are held to be put in order once more: the intake has
	// seen to that, but for those that came later than it expected. What
	// is told too late, as a drain, may accuse by its absence.
	inOrder = time.Millisecond
	// endWithin is how long what has come may take to be judged at the end.
	endWithin = time.Second
	// showEvery is how often the judge's counts are shown to others at most.
	showEvery = 20 * time.Millisecond
)

// judge owns the ledger.
type judge struct {
	in     *intake.Intake
	ledger *ledger.Ledger
	settle time.Duration // of the ledger
	log    *report.Log
	record *record.Recorder // nil: nothing is recorded
	found  func(after time.Duration, id uint64)
	shadow func() bool
	now    func() int64
	aside  *aside // nil: nothing is made of what is said
	// anothers reports whether an instance is judged on its own node: nothing is said of
	// it here.
	anothers func(instance string) bool
	// opened is told what is taken; nil: nobody is.
	opened func(f *lifecycle.Fact)

	questions chan func(*ledger.Ledger) // of pages, answered between two turns
	seen      []seen                    // in this turn

	busyUntil int64 // ns that time has to come to: until then the ledger may have to say something
	stepped   bool  // a fact was taken in this turn
	shownAt   int64
	own       metrics.Judged // of this goroutine

	mu    sync.Mutex
	shown metrics.Judged
}

// run judges until ctx ends, and then what has come until then. It owns the alarm.
func (j *judge) run(ctx context.Context, clock *alarm) {
	profile.Phase("judge")
	defer clock.close()
	for {
		pause := rest
		if j.turn() {
			pause = turn
		}
		clock.set(pause)
		asleep := j.now()
		select {
		case <-ctx.Done():
			j.end()
			return
		case <-j.in.Wake():
		case answer := <-j.questions:
			answer(j.ledger)
		case <-clock.C:
			j.in.Overslept(time.Duration(j.now()-asleep) - pause)
		}
	}
}

// end lets what has come be judged, as far as all sources have come.
func (j *judge) end() {
	for until := time.Now().Add(endWithin); j.turn() && time.Now().Before(until); {
		time.Sleep(turn)
	}
	j.show()
}

// turn takes what is due and reports whether there may soon be more.
func (j *judge) turn() (busy bool) {
	low, more := j.in.Take(j.step)
	if low > math.MinInt64 {
		j.say(j.ledger.Advance(low))
	}
	for _, v := range j.ledger.Verdicts() {
		if j.anothers(v.Inst) {
			continue
		}
		j.own.Verdicts[v.Verdict][index(!v.Synthetic)]++
		j.log.Verdict(&v)
		j.note(seen{verdict: &v})
	}
	j.handOn()
	now := j.now()
	if j.stepped { // its handoff is judged when the ledger has settled, and then its request
		j.busyUntil, j.stepped = low+(inOrder+2*j.settle).Nanoseconds(), false
	}
	busy = more || low <= j.busyUntil
	if now-j.shownAt >= showEvery.Nanoseconds() || !busy {
		j.show()
		j.shownAt = now
	}
	return busy
}

func (j *judge) step(f *lifecycle.Fact) {
	if j.record != nil {
		j.record.Fact(f)
	}
	if j.opened != nil {
		j.opened(f)
	}
	j.note(seen{Seen: evidence.Seen{Fact: f}})
	j.say(j.ledger.Step(f))
	j.stepped = true
}

// note keeps what was taken or said until the end of the turn.
func (j *judge) note(s seen) {
	if j.aside != nil {
		j.seen = append(j.seen, s)
	}
}

// handOn gives what was noted to those who make something of it.
func (j *judge) handOn() {
	if j.aside != nil {
		j.aside.put(j.seen)
		clear(j.seen)
		j.seen = j.seen[:0]
	}
}

func (j *judge) say(findings []finding.Finding) {
	for i := range findings {
		f := &findings[i]
		if j.anothers(f.Inst) {
			continue
		}
		shadow := j.shadow()
		j.own.Findings[f.Kind][index(!f.Synthetic && !shadow)]++
		if f.Kind == finding.StaleRead {
			j.own.Unwritten += uint64(lifecycle.Runs(f.Pages).Pages())
		}
		at, known := j.in.Arrived(f.Inst, f.T)
		after := time.Duration(0)
		if known {
			after = time.Duration(j.now() - at)
		} else {
			j.own.Undated++
		}
		id := j.log.Finding(f, after, shadow)
		if j.aside != nil {
			own := *f
			own.Pages, own.Exposed = slices.Clone(f.Pages), slices.Clone(f.Exposed)
			j.note(seen{Seen: evidence.Seen{Finding: &own, Shadow: shadow, Map: j.aside.mapOf(j.ledger, f)}})
		}
		if known {
			j.found(after, id)
		}
	}
}

// index is the place of what is real, or wakes somebody, before what is not.
func index(first bool) int {
	if first {
		return 0
	}
	return 1
}

// show gives others a copy of the counts.
func (j *judge) show() {
	j.own.Stats, j.own.Sizes = j.ledger.Stats(), j.ledger.Sizes()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.shown = j.own
}

func (j *judge) read() metrics.Judged {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.shown
}
