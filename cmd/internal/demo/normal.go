package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// The normal traffic: so many requests of each of so many clients.
const (
	clients     = 4
	eachAsks    = 15
	leaveAfter  = 30 * time.Millisecond
	oneInLeaves = 10
)

// normal is several tenants at once, prompts of all lengths, common beginnings, and
// clients who leave in the middle.
func normal(ctx context.Context, w *set, r *row) error {
	var mu sync.Mutex
	var wg sync.WaitGroup
	var errs []error
	var stayed int
	for i := range clients {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(rand.Uint64(), uint64(i)))
			t := w.tenants[i%len(w.tenants)]
			for range eachAsks {
				a, left, err := w.askOnce(ctx, t, rng)
				mu.Lock()
				switch {
				case left:
				case err != nil:
					errs = append(errs, err)
				default:
					stayed++
					r.take(&a, w.foreign(t, a.Text))
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := w.allJudged(ctx, r, stayed); err != nil {
		return err
	}
	err := w.quiet(ctx, r)
	want := "unwitnessed"
	if w.outside {
		want = "clean"
	}
	r.expect(200, false, want)
	r.allow()
	r.summarize()
	return err
}

// askOnce asks something of a random length; left: the client did not wait.
func (w *set) askOnce(ctx context.Context, t tenant, rng *rand.Rand) (a answer, left bool, err error) {
	prompt, err := w.tokens(ctx, strings.Repeat("a common beginning of some length; ", rng.IntN(4))+question+t.secret+"; "+question)
	if err != nil {
		return a, false, err
	}
	if rng.IntN(oneInLeaves) == 0 {
		short, cancel := context.WithTimeout(ctx, leaveAfter)
		defer cancel()
		a, err = w.ask(short, t, prompt, 1+rng.IntN(40))
		return a, err != nil && ctx.Err() == nil, err
	}
	a, err = w.ask(ctx, t, prompt, 1+rng.IntN(40))
	return a, false, err
}

// foreign reports whether a text holds another tenant's secret.
func (w *set) foreign(own tenant, text string) bool {
	for _, t := range w.tenants {
		if t.name != own.name && leaks(text, t.secret) {
			return true
		}
	}
	return false
}

// allJudged waits until each request that was answered has its verdict, and notes
// the strongest of them.
func (w *set) allJudged(ctx context.Context, r *row, answered int) error {
	rank := map[string]int{"clean": 1, "unwitnessed": 2, "violated": 3}
	return await(ctx, func() error {
		all, err := w.verdicts(ctx, 0)
		if err != nil {
			return err
		}
		if len(all) < answered {
			return fmt.Errorf("%d verdicts on %d requests", len(all), answered)
		}
		r.Verdicts = map[string]int{}
		for _, v := range all {
			r.Verdicts[v.Said.Verdict]++
			if rank[v.Said.Verdict] > rank[r.Verdict] {
				r.Verdict, r.Why = v.Said.Verdict, v.Said.Why
			}
		}
		// Some are unwitnessed though all is watched: the first proves the path, one
		// whose client left was not completed, and one may need no handoff.
		if clean := r.Verdicts["clean"]; w.outside && r.Verdicts["violated"] == 0 && clean > answered/2 {
			r.Verdict = "clean"
		}
		return nil
	})
}
