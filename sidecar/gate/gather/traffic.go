package gather

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/canary"
	"github.com/kvwitness/kvwitness/sidecar/gate"
)

const (
	// maxPreempt bounds the requests that are sent at once.
	maxPreempt = 128
	// short is how long an ordinary prompt is, in tokens.
	short = 160
	// handoffs is how many ordinary requests each tenant sends; as many are repeated
	// side by side, and as many are hung up on.
	handoffs = 6
	// hangUpAfter is when a client hangs up, counted in turns.
	hangUpAfter = 3 * time.Millisecond
)

// sender sends a gate's traffic.
type sender struct {
	*looker
	client  *canary.Client
	scale   canary.Scale
	context int // tokens, 0: not known
	pool    int // of the smallest, 0: not known

	hungUp int // clients that left before their answer

	mu    sync.Mutex
	spent int
	draw  sync.Mutex // of the random numbers
}

// traffic plays the trials, one after the other.
func (l *looker) traffic(ctx context.Context, target string, side *sidecar) error {
	d := &l.cfg.Deployment
	api := canary.Completions
	if d.API == "chat" {
		api = canary.Chat
	}
	client, err := canary.NewClient(canary.Endpoint{URL: target, CA: d.CAFile, API: api, Model: d.Model, Timeout: l.cfg.Timeout})
	if err != nil {
		return err
	}
	s := &sender{looker: l, client: client}
	var longest, least lifecycle.Opt[int64]
	for i := range l.picture.Engines {
		info := &l.picture.Engines[i].Info
		if n := info.Longest(); n.Has && (!longest.Has || n.V > longest.V) {
			longest = n
		}
		if n := info.Pool; n.Has && (!least.Has || n.V < least.V) {
			least = n
		}
	}
	s.context, s.pool = int(longest.V), int(least.V)
	if side != nil {
		side.begin(ctx)
	}
	if s.scale, err = canary.LearnScale(ctx, client, l.tenants[0], s.prompt); err != nil {
		return err
	}
	s.warm(ctx)
	if side != nil {
		side.warmed(ctx)
	}
	for _, play := range []func(context.Context) error{s.valid, s.together, s.hangUp, s.holding, s.preempted, s.over} {
		if err := play(ctx); err != nil && !errors.Is(err, canary.ErrBudget) {
			return err
		}
	}
	s.rest(ctx)
	if side != nil {
		side.hungUp = s.hungUp
	}
	return nil
}

// prompt draws a prompt of so many bytes.
func (s *sender) prompt(bytes int) canary.Prompt {
	s.draw.Lock()
	defer s.draw.Unlock()
	return canary.NewPrompt(s.cfg.Rand, bytes, canary.Depths[s.cfg.Rand.IntN(len(canary.Depths))])
}

// length is a prompt's of so many tokens, which leaves room for an answer.
func (s *sender) length(tokens int) int {
	for _, most := range []int{s.context, s.pool} {
		if most > 0 {
			tokens = min(tokens, most-canary.AnswerTokens-16)
		}
	}
	return s.scale.Bytes(tokens)
}

// put asks, within the budget.
func (s *sender) put(ctx context.Context, as canary.Tenant, p canary.Prompt, answer int) (canary.Answer, error) {
	cost := s.scale.Tokens(len(p.Text)) + answer
	s.mu.Lock()
	over := s.spent+cost > s.cfg.Budget
	if !over {
		s.spent += cost
	}
	s.mu.Unlock()
	if over {
		return canary.Answer{}, fmt.Errorf("the gate's traffic: %w", canary.ErrBudget)
	}
	return s.client.Ask(ctx, as, p.Text, answer)
}

// note adds an answer to what came of a trial.
func (s *sender) note(t gate.Trial, want canary.Outcome, p canary.Prompt, a *canary.Answer) {
	got := canary.Read(p, a, s.scale, func(string) bool { return false })
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.picture.Trials[t]
	o.Want = want
	o.Got[got]++
	if got == canary.Refused || got == canary.Failed {
		o.Reason = a.Reason
	}
	s.picture.Trials[t] = o
}

// try asks as a trial, and notes what comes of it.
func (s *sender) try(ctx context.Context, t gate.Trial, want canary.Outcome, as canary.Tenant, p canary.Prompt) error {
	a, err := s.put(ctx, as, p, canary.AnswerTokens)
	if err == nil {
		s.note(t, want, p, &a)
	}
	return err
}

// warm sends what proves the paths between the engines to who watches them.
func (s *sender) warm(ctx context.Context) {
	for range 2 * max(1, len(s.picture.Engines)) {
		_, _ = s.put(ctx, s.tenants[0], s.prompt(s.length(short)), 1) // what comes of it is nothing to the gate
	}
}

// valid: ordinary requests, the tenants in turn, and the same ones again by the other
// tenant: what they share shows.
func (s *sender) valid(ctx context.Context) error {
	for range handoffs {
		p := s.prompt(s.length(short))
		for _, t := range s.tenants[:2] {
			if err := s.try(ctx, gate.Valid, canary.Recalled, t, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// together: the same prompt twice at once, so that the second meets what the first
// has not written yet.
func (s *sender) together(ctx context.Context) error {
	for range handoffs {
		p := s.prompt(s.length(4 * short))
		var wg sync.WaitGroup
		errs := make([]error, 2)
		for i := range errs {
			wg.Go(func() { errs[i] = s.try(ctx, gate.Valid, canary.Recalled, s.tenants[0], p) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}

// hangUp hangs up in the middle, sooner and later, and asks again.
func (s *sender) hangUp(ctx context.Context) error {
	for i := range handoffs {
		p := s.prompt(s.length(4 * short))
		leave, cancel := context.WithTimeout(ctx, time.Duration(i+1)*hangUpAfter)
		a, err := s.put(leave, s.tenants[1], p, canary.AnswerTokens)
		cancel()
		if err == nil && (a.Status == 0 || a.Broken) {
			s.hungUp++
		}
		if err == nil {
			err = s.try(ctx, gate.Reentering, canary.Recalled, s.tenants[1], p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// holding: one is answered while others are refused.
func (s *sender) holding(ctx context.Context) error {
	if s.context == 0 {
		s.picture.Trials[gate.Holding] = gate.Outcome{Why: "the context is not known, and so not what is refused"}
		return nil
	}
	ended := make(chan error, 1)
	go func() { ended <- s.try(ctx, gate.Holding, canary.Recalled, s.tenants[0], s.prompt(s.length(2*short))) }()
	var errs []error
	for range 3 {
		_, err := s.put(ctx, s.tenants[1], s.beyond(), 1)
		errs = append(errs, err)
	}
	return errors.Join(append(errs, <-ended)...)
}

// beyond is a prompt longer than the context.
func (s *sender) beyond() canary.Prompt {
	return s.prompt(s.scale.Bytes(s.context + s.context/8 + short))
}

// preempted: more at once than the smallest pool holds.
func (s *sender) preempted(ctx context.Context) error {
	n := s.cfg.Preempt
	if n == 0 && s.pool > 0 {
		n = s.pool*3/2/(short+canary.AnswerTokens) + 2
	}
	if n = min(n, maxPreempt); n == 0 {
		s.picture.Trials[gate.Preempted] = gate.Outcome{Why: "the pool is not known, and so not how many it takes"}
		return nil
	}
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			errs[i] = s.try(ctx, gate.Preempted, canary.Recalled, s.tenants[i%2], s.prompt(s.length(short)))
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// over: what must be refused.
func (s *sender) over(ctx context.Context) error {
	if s.context == 0 {
		for _, t := range []gate.Trial{gate.OverContext, gate.OverPool} {
			s.picture.Trials[t] = gate.Outcome{Why: "the context is not known"}
		}
		return nil
	}
	for _, t := range s.tenants[:2] {
		if err := s.try(ctx, gate.OverContext, canary.Refused, t, s.beyond()); err != nil {
			return err
		}
	}
	if s.pool == 0 || s.pool >= s.context {
		s.picture.Trials[gate.OverPool] = gate.Outcome{NoneSuch: s.pool > 0, Why: "no pool is known"}
		return nil
	}
	between := s.pool + (s.context-s.pool)*3/4
	for _, t := range slices.Concat(s.tenants[:2], s.tenants[:2]) {
		if err := s.try(ctx, gate.OverPool, canary.Refused, t, s.prompt(s.scale.Bytes(between-canary.AnswerTokens/2))); err != nil {
			return err
		}
	}
	return nil
}

// rest waits until nothing is held any more, for a while.
func (s *sender) rest(ctx context.Context) {
	for end := time.Now().Add(s.cfg.Patience); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
		s.ask(ctx)
		held := int64(0)
		for i := range s.picture.Engines {
			held += s.picture.Engines[i].Held.Or(0)
		}
		if held == 0 {
			return
		}
	}
}
