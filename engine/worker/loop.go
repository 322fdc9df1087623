package worker

import (
	"context"
	"runtime"
	"time"

	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/profile"
	"github.com/kvwitness/kvwitness/engine/scheduler"
)

const drainPoll = 5 * time.Millisecond

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(drainPoll):
		return nil
	}
}

// own runs the scheduler until the worker is closed.
func (w *Worker) own() {
	profile.Phase("schedule")
	defer w.done.Done()
	defer close(w.launches)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	audits := time.NewTicker(auditInterval)
	defer audits.Stop()
	w.tellProtections()
	for {
		w.flush()
		timer.Reset(w.untilDeadline())
		select {
		case <-w.stop:
			return
		case <-timer.C:
			w.step(scheduler.Tick{})
		case <-audits.C:
			w.audit()
		case what := <-w.inbox:
			w.take(what)
		}
	}
}

// flush has what happened told before the owner waits, and a pass keeps the
// processors: who judges should learn of a step before its end.
func (w *Worker) flush() {
	if w.cfg.Witness != nil && len(w.inbox) == 0 {
		w.cfg.Witness.Flush()
		// Owner and pass wake each other, and so would keep the processor from whoever
		// tells, step after step.
		runtime.Gosched()
	}
}

func (w *Worker) untilDeadline() time.Duration {
	at, ok := w.sched.NextDeadline()
	if !ok {
		return time.Hour
	}
	return max(time.Duration(at-Now()), time.Millisecond)
}

func (w *Worker) take(what any) {
	switch e := what.(type) {
	case func():
		e()
	case *submission:
		w.begin(e)
	case scheduler.Completed:
		w.step(w.firstToken(e))
	case scheduler.Event:
		w.step(e)
	}
}

// step feeds one event to the scheduler and has carried out what follows.
func (w *Worker) step(ev scheduler.Event) {
	for _, action := range w.sched.Step(Now(), ev) {
		switch a := action.(type) {
		case scheduler.Launch:
			w.launches <- a // one at a time: the scheduler waits for ForwardDone
		case scheduler.Token:
			w.answer(a.Req).emit()
		case scheduler.Answer:
			w.end(a.Req, a.Outcome)
			w.tellLink(a)
		case scheduler.Reject:
			w.end(a.Req, scheduler.Outcome{Status: a.Status, Finish: scheduler.FinishError, Err: a.Err})
		case scheduler.Retracted:
			w.cfg.Log.Debug("request retracted", "req", uint64(a.Req))
		case scheduler.SendTargets:
			if w.scrub(a.Pages) {
				w.tellLink(a)
			}
		default:
			w.tellLink(a)
		}
	}
}

func (w *Worker) tellLink(a scheduler.Action) {
	if w.link != nil {
		w.link.Do(a)
	}
}

// scrub zeroes pages before they are named to a peer, where that is asked for. Pages
// that are not zeroed must not be named: their request times out.
func (w *Worker) scrub(pages []kvcache.PageID) bool {
	if !w.cfg.Scrub {
		return true
	}
	err := w.memory.Scrub(pages)
	if err != nil {
		w.cfg.Log.Error("pages are not scrubbed, and not named to a peer", "pages", len(pages), "err", err.Error())
	}
	return err == nil
}

func (w *Worker) answer(req kvcache.Req) *Answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.live[req]
}

func (w *Worker) end(req kvcache.Req, o scheduler.Outcome) {
	w.mu.Lock()
	a := w.live[req]
	delete(w.live, req)
	w.mu.Unlock()
	if a == nil {
		return
	}
	if o.Err != nil {
		w.cfg.Log.Info("request failed", "req", uint64(req), "room", a.request.Room, "status", o.Status, "finish", o.Finish.String(), "reason", o.Err.Error())
	}
	a.finish(o)
}

// abandon ends every answer of a worker that is closed.
func (w *Worker) abandon() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, a := range w.live {
		a.finish(scheduler.Outcome{Status: 503, Finish: scheduler.FinishError, Err: ErrClosed})
	}
	clear(w.live)
}
