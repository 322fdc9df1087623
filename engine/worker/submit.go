package worker

import (
	"fmt"

	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/engine/scheduler"
)

// submission is a request on its way to the owner.
type submission struct{ answer *Answer }

// Submit hands a request in. It fails only with ErrClosed: everything else is said
// by the answer's end, rejections included.
func (w *Worker) Submit(r Request) (*Answer, error) {
	a := newAnswer(w.cfg.Model, kvcache.Req(w.req.Add(1)), &r)
	w.mu.Lock()
	closed := w.closed
	if !closed {
		w.live[a.Req] = a // so that a Close ends it, wherever it is
	}
	w.mu.Unlock()
	if closed {
		return nil, fmt.Errorf("handing a request to the engine: %w", ErrClosed)
	}
	_ = w.post(&submission{a}) // if it is closed meanwhile, the answer says so
	return a, nil
}

// Leave says that nobody reads an answer any more. It never tears a transfer.
func (w *Worker) Leave(a *Answer) { w.Post(scheduler.Disconnect{Req: a.Req}) }

// Abort ends a request from outside, unless it has ended. A running transfer runs
// to its end.
func (w *Worker) Abort(a *Answer, reason string) {
	w.Post(scheduler.Abort{Req: a.Req, Reason: reason})
}

// begin submits a request to the scheduler.
func (w *Worker) begin(s *submission) {
	a, r := s.answer, s.answer.request
	decider, err := model.NewAnswer(w.cfg.Model, max(r.MaxTokens, 1), r.Stops...)
	if err != nil {
		w.end(a.Req, scheduler.Outcome{Status: 400, Finish: scheduler.FinishError, Err: err})
		return
	}
	a.decider = decider
	prompt := make([]int32, len(r.Prompt))
	for i, t := range r.Prompt {
		prompt[i] = int32(t)
	}
	w.step(scheduler.Submit{
		Req: a.Req, Room: r.Room, Domain: r.Domain, Prompt: prompt, MaxNew: r.MaxTokens,
		Peers: r.Peers, Synthetic: r.Synthetic, Drill: r.Drill,
	})
}

// firstToken judges the first token of an answer, which prefill chose, before the
// scheduler takes it in.
func (w *Worker) firstToken(e scheduler.Completed) scheduler.Completed {
	if !e.OK {
		return e
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.live {
		if a.request.Room == e.Room {
			e.Stop = a.pushFirst(model.Token(e.First))
			break
		}
	}
	return e
}

// PromptTokens of a request that is here; 0 if it is not.
func (w *Worker) PromptTokens(req kvcache.Req) int {
	if a := w.answer(req); a != nil {
		return len(a.request.Prompt)
	}
	return 0
}
