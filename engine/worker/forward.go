package worker

import (
	"fmt"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/engine/profile"
	"github.com/kvwitness/kvwitness/engine/scheduler"
)

// compute carries out the launched passes.
func (w *Worker) compute() {
	profile.Phase("forward")
	defer w.done.Done()
	var results []backend.Result
	for l := range w.launches {
		if len(results) < len(l.Items) {
			results = append(results, make([]backend.Result, len(l.Items)-len(results))...)
		}
		w.Post(w.forward(l, results[:len(l.Items)]))
	}
}

// forward is one pass: the copies, then all items side by side.
func (w *Worker) forward(l scheduler.Launch, results []backend.Result) scheduler.ForwardDone {
	done := scheduler.ForwardDone{Step: l.Step}
	batch := make([]backend.Sequence, len(l.Items))
	for i := range l.Items {
		batch[i] = sequence(&l.Items[i])
	}
	w.memory.Lock()
	for _, c := range l.Copies {
		w.memory.Copy(c.Copy)
	}
	err := w.be.Forward(batch, results)
	w.memory.Unlock()
	if err != nil {
		done.Err = err
		return done
	}
	for i := range l.Items {
		r, err := w.result(&l.Items[i], &results[i])
		if err != nil {
			done.Err = err
			return done
		}
		done.Results = append(done.Results, r)
	}
	return done
}

func sequence(it *scheduler.Item) backend.Sequence {
	s := backend.Sequence{
		Tokens: make([]model.Token, len(it.Tokens)), Start: it.Start,
		Table: make([]backend.Block, len(it.Pages)), Logits: it.ReadAll, Unchecked: !it.CheckTags,
	}
	for i, t := range it.Tokens {
		s.Tokens[i] = model.Token(t)
	}
	for i, p := range it.Pages {
		s.Table[i] = backend.Block{Page: int32(p), Tag: backend.Tag(it.Gens[i])}
	}
	return s
}

// result turns what the backend says of a sequence into what the scheduler asks
// for: a fault, or a token if one was to be chosen.
func (w *Worker) result(it *scheduler.Item, r *backend.Result) (scheduler.Result, error) {
	if f, bad := r.Fault(); bad {
		w.faults.Add(uint64(r.Skipped()))
		_, err := r.Logits() // says all that is known: layer, head and moment too
		w.cfg.Log.Warn("a page was left out of attention", "req", uint64(it.Req), "fault", err.Error())
		return scheduler.Result{Fault: &kvcache.TagFault{
			Page: kvcache.PageID(f.Page), Index: f.Block, Want: kvcache.Gen(f.Expected),
			HandedOut: w.kv.Tags().HandedOut(kvcache.PageID(f.Page)), Written: kvcache.Gen(f.Seen), Faults: r.Skipped(),
		}}, nil
	}
	if !it.Sample {
		return scheduler.Result{}, nil
	}
	a := w.answer(it.Req)
	if a == nil {
		return scheduler.Result{}, nil // it ended meanwhile
	}
	token, err := r.Sample(a.sampler)
	if err != nil {
		return scheduler.Result{}, fmt.Errorf("choosing a token for request %d: %w", it.Req, err)
	}
	if w.cfg.Role == scheduler.Prefill {
		return scheduler.Result{Token: int32(token)}, nil
	}
	return scheduler.Result{Token: int32(token), Stop: a.push(token)}, nil
}
