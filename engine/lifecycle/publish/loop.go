package publish

import (
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

const (
	// linger is how long events may wait to be told unless they are flushed: they are
	// taken out in turns, so that the engine does not wake anybody for each.
	linger = time.Millisecond
	// restless is how many turns without an event pass before the next one has to
	// wake the goroutine.
	restless = 100
	// Heartbeat is how long a stream says nothing at most: by its number the next
	// batch shows a loss, also where nothing happens.
	Heartbeat = time.Second
)

// loop empties the queue until it is closed.
type loop struct {
	q     *queue
	e     *encoder
	flush func() // sends what was told
	beat  func() // says that there is nothing to say; nil: never
	beats time.Time
	asked chan func() // done between two turns
	job   func()      // what was asked, until the turn is over
	asOf  int64       // node's clock: what happened until then is told
	ended chan struct{}
}

func newLoop(q *queue, e *encoder, flush, beat func()) *loop {
	return &loop{q: q, e: e, flush: flush, beat: beat, asked: make(chan func()), ended: make(chan struct{})}
}

// run returns once the queue is closed and empty.
func (l *loop) run() {
	defer close(l.ended)
	timer := time.NewTimer(linger)
	defer timer.Stop()
	var half events
	idle := 0
	for {
		asOf := l.e.id.Now()
		half = l.q.swap(half)
		if len(half.list) > 0 || half.lost > 0 {
			l.e.tellAll(&half)
			l.flush()
			l.beats, idle = time.Now(), 0
		} else if idle++; l.over() {
			l.e.decideNow()
			l.flush()
			return
		}
		l.asOf = asOf
		if l.job != nil {
			l.job()
			l.job = nil
		}
		if l.beat != nil && time.Since(l.beats) >= Heartbeat {
			l.beat()
			l.flush()
			l.beats = time.Now()
		}
		l.wait(timer, idle)
	}
}

func (l *loop) over() bool {
	l.q.mu.Lock()
	defer l.q.mu.Unlock()
	return l.q.closed && len(l.q.in.list) == 0 && l.q.in.lost == 0
}

// wait lets a turn pass, or sleeps until there is something to do.
func (l *loop) wait(timer *time.Timer, idle int) {
	pause := linger
	if idle >= restless && l.q.sleep() {
		pause = Heartbeat
	}
	timer.Reset(pause)
	select {
	case <-timer.C:
	case <-l.q.wake:
	case l.job = <-l.asked:
	}
}

// ask has do called after the next turn, when all that was told is sent; false:
// the loop has ended, or stop was closed.
func (l *loop) ask(do func(), stop <-chan struct{}) bool {
	done := make(chan struct{})
	select {
	case l.asked <- func() { do(); close(done) }:
	case <-l.ended:
		return false
	case <-stop:
		return false
	}
	select {
	case <-done:
		return true
	case <-l.ended: // between the two
		return false
	}
}

// watermark says that everything until asOf has been said. It has no seq: it is
// for the stream alone.
func (e *encoder) watermark(asOf int64, out output) {
	e.t = max(e.t, asOf)
	out.say(&lifecycle.Fact{
		T: e.t, Inst: e.id.Instance, Src: lifecycle.Engine, Ev: lifecycle.Watermark,
		Epoch: lifecycle.Some(e.id.Epoch), Of: lifecycle.Engine,
	})
}
