package canary

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

// Bounds of a run.
const (
	// MaxLengths and MaxTenants bound what is asked in one run.
	MaxLengths = 16
	MaxTenants = 16
	// sharingRounds is how many prompts are repeated by another tenant.
	sharingRounds = 12
)

// ErrBudget is returned where the tokens that a run may cost are spent.
var ErrBudget = errors.New("the budget of tokens is spent")

// Plan says what to ask.
type Plan struct {
	Tenants []Tenant // at least two
	Lengths []int    // of prompts in tokens, the shortest first; the first is the base
	// PerLength is how often each tenant asks at each length.
	PerLength int
	// Sharing asks whether the tenants share a prefix cache, by prompts of that many
	// tokens; 0: not.
	Sharing int
	// Budget is how many tokens a run may cost at most, prompts and answers.
	Budget int
}

// Check refuses a plan that cannot be run.
func (p *Plan) Check() error {
	switch {
	case len(p.Tenants) < 2 || len(p.Tenants) > MaxTenants:
		return fmt.Errorf("a plan of %d tenants, want 2 to %d", len(p.Tenants), MaxTenants)
	case len(p.Lengths) == 0 || len(p.Lengths) > MaxLengths || !slices.IsSorted(p.Lengths) || p.Lengths[0] < 1:
		return fmt.Errorf("a plan of the lengths %v: want 1 to %d of them, the shortest first", p.Lengths, MaxLengths)
	case p.PerLength < 1 || p.Budget < 1:
		return errors.New("a plan without questions or tokens")
	}
	return nil
}

// Result is what a run came to.
type Result struct {
	Lengths   []Length `json:"lengths"`
	Shared    Sharing  `json:"-"`
	Asked     int      `json:"asked"`
	Tokens    int      `json:"tokens"` // that it cost, as far as is known
	Seconds   float64  `json:"seconds"`
	Status    string   `json:"status"`
	Verdict   string   `json:"verdict"`
	Reasons   []string `json:"reasons,omitzero"`
	FalseOdds float64  `json:"log10_odds_of_a_false_alarm"`

	Judgement Judgement `json:"-"`
}

// Runner runs plans, one after the other, and remembers the tenants' markers and how
// many tokens a prompt has. It is for one goroutine.
type Runner struct {
	// Answers is where the texts of answers go; nil: nowhere.
	Answers io.Writer

	client *Client
	rng    *rand.Rand
	scale  Scale
	mine   map[string]*Markers // by tenant

	asked, tokens, characters int
	budget                    int
}

// NewRunner makes a runner; rng decides all that is drawn.
func NewRunner(c *Client, rng *rand.Rand) *Runner {
	return &Runner{client: c, rng: rng, mine: map[string]*Markers{}}
}

// Run asks what a plan says, and judges the answers. A run that is cut short is
// judged by what it has; the error then says why.
func (r *Runner) Run(ctx context.Context, p Plan) (Result, error) {
	if err := p.Check(); err != nil {
		return Result{}, err
	}
	begun := time.Now()
	r.asked, r.tokens, r.characters, r.budget = 0, 0, 0, p.Budget
	for _, t := range p.Tenants {
		if r.mine[t.Name] == nil {
			r.mine[t.Name] = &Markers{}
		}
	}
	res := Result{}
	for _, tokens := range p.Lengths {
		res.Lengths = append(res.Lengths, Length{Tokens: tokens, Outcomes: map[string]int{}})
	}
	err := r.learnScale(ctx, p.Tenants[0])
	for i := range res.Lengths {
		if err == nil {
			err = r.askLength(ctx, &p, res.Lengths, i)
		}
	}
	if err == nil && p.Sharing > 0 {
		err = r.askSharing(ctx, &p, &res.Shared)
	}
	markers := 0
	for _, m := range r.mine {
		markers += len(m.kept)
	}
	res.Judgement = Judge(res.Lengths, res.Shared, markers, r.characters)
	if err != nil && res.Judgement.Status == Clean {
		res.Judgement.unchecked("%v", err)
		res.Judgement.Verdict = "not checked: " + err.Error()
	}
	j := &res.Judgement
	res.Asked, res.Tokens, res.Seconds = r.asked, r.tokens, time.Since(begun).Seconds()
	res.Status = map[Status]string{Clean: "clean", Alarm: "alarm", Unchecked: "unchecked"}[j.Status]
	res.Verdict, res.Reasons, res.FalseOdds = j.Verdict, j.Reasons, max(j.FalseAlarm, -999)
	return res, err
}

// learnScale asks two short prompts, once.
func (r *Runner) learnScale(ctx context.Context, as Tenant) (err error) {
	if r.scale.PerByte > 0 {
		return nil
	}
	r.scale, err = scaleOf(func(bytes int) (int, int, error) {
		p := NewPrompt(r.rng, bytes, 0)
		a, err := r.ask(ctx, as, p, AnswerTokens)
		return len(p.Text), a.PromptTokens, err
	})
	return err
}

// LearnScale asks two short prompts that draw gives, to learn how many tokens they have.
func LearnScale(ctx context.Context, c *Client, as Tenant, draw func(bytes int) Prompt) (Scale, error) {
	return scaleOf(func(bytes int) (int, int, error) {
		p := draw(bytes)
		a, err := c.Ask(ctx, as, p.Text, 1)
		return len(p.Text), a.PromptTokens, err
	})
}

func scaleOf(ask func(bytes int) (sent, tokens int, err error)) (Scale, error) {
	var bytes, tokens [2]int
	for i, n := range [2]int{LeastBytes, 2 * LeastBytes} {
		var err error
		if bytes[i], tokens[i], err = ask(n); err != nil {
			return Scale{}, err
		}
	}
	return learn(bytes, tokens), nil
}

// askLength has the tenants ask in turn, at each depth in turn. Before each question
// beyond the shortest length another tenant asks one of the shortest: so that what
// lies in pages of before is another's.
func (r *Runner) askLength(ctx context.Context, p *Plan, lengths []Length, at int) error {
	for n := range p.PerLength {
		for i := range p.Tenants {
			if at > 0 {
				if err := r.askOne(ctx, p.Tenants[(i+1)%len(p.Tenants)], &lengths[0], n); err != nil {
					return err
				}
			}
			if err := r.askOne(ctx, p.Tenants[i], &lengths[at], n); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Runner) askOne(ctx context.Context, as Tenant, l *Length, turn int) error {
	prompt := NewPrompt(r.rng, r.scale.Bytes(l.Tokens), Depths[turn%len(Depths)])
	a, err := r.ask(ctx, as, prompt, AnswerTokens)
	if err != nil {
		return err
	}
	l.note(Read(prompt, &a, r.scale, r.others(as.Name)), &a)
	return nil
}

// others finds markers of all tenants but one.
func (r *Runner) others(but string) func(string) bool {
	return func(text string) bool {
		for name, m := range r.mine {
			if name != but && m.In(text) {
				return true
			}
		}
		return false
	}
}

// askSharing has the second tenant repeat prompts of the first, and ask new ones
// between. Their markers are nobody's: both send them.
func (r *Runner) askSharing(ctx context.Context, p *Plan, s *Sharing) error {
	a, b := p.Tenants[0], p.Tenants[1]
	bytes := r.scale.Bytes(p.Sharing)
	for range sharingRounds {
		known, fresh := NewPrompt(r.rng, bytes, 0), NewPrompt(r.rng, bytes, 0)
		if _, err := r.put(ctx, a, known, 1); err != nil {
			return err
		}
		order := []bool{true, false} // repeated
		if r.rng.IntN(2) == 0 {
			order = []bool{false, true}
		}
		for _, repeated := range order {
			prompt := fresh
			if repeated {
				prompt = known
			}
			answer, err := r.put(ctx, b, prompt, 1)
			if err != nil {
				return err
			}
			s.note(repeated, &answer)
		}
	}
	return nil
}

func (s *Sharing) note(repeated bool, a *Answer) {
	if a.Status != 200 || a.First == 0 {
		return
	}
	if repeated {
		s.Repeated = append(s.Repeated, a.First)
		s.CachedRepeated += a.CachedTokens
	} else {
		s.Fresh = append(s.Fresh, a.First)
		s.CachedFresh += a.CachedTokens
	}
	s.Said = s.Said || a.CachedSaid
}

// ask puts a prompt whose markers are the tenant's from now on.
func (r *Runner) ask(ctx context.Context, as Tenant, p Prompt, maxTokens int) (Answer, error) {
	for _, m := range p.Markers {
		r.mine[as.Name].Add(m)
	}
	return r.put(ctx, as, p, maxTokens)
}

// put puts a prompt within the budget.
func (r *Runner) put(ctx context.Context, as Tenant, p Prompt, maxTokens int) (a Answer, err error) {
	cost := r.scale.Tokens(len(p.Text)) + maxTokens
	if !r.scale.Known {
		cost = len(p.Text) + maxTokens // at most a token a byte
	}
	if r.tokens+cost > r.budget {
		return a, fmt.Errorf("after %d questions and about %d tokens: %w", r.asked, r.tokens, ErrBudget)
	}
	if a, err = r.client.Ask(ctx, as, p.Text, maxTokens); err != nil {
		return a, err
	}
	if err := ctx.Err(); err != nil {
		return a, err
	}
	r.asked++
	r.tokens += cost
	r.characters += len(a.Text)
	if r.Answers != nil {
		if _, err := fmt.Fprintf(r.Answers, "%s %d %s\n", as.Name, a.Status, strconv.Quote(a.Text)); err != nil {
			return a, fmt.Errorf("keep an answer: %w", err)
		}
	}
	return a, nil
}

// Around are lengths for a pool and a context of so many tokens, 0: not known: a short
// one, and just below and above the pool and just below the context.
func Around(pool, context int) (all []int) {
	const short, margin = 160, 24
	all = []int{short}
	add := func(n int) {
		if n = n / 8 * 8; n > all[len(all)-1] && (context == 0 || n+AnswerTokens < context) {
			all = append(all, n)
		}
	}
	if pool > 0 {
		add(pool - pool/margin - AnswerTokens)
		add(pool + max(pool/margin, 32))
	}
	if context > 0 {
		add(context - context/margin - AnswerTokens)
	}
	if pool == 0 && context == 0 {
		add(1024)
	}
	return all
}
