package scheduler

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/kvcache"
)

var errTest = errors.New("made by the test")

// alone is one scheduler without a world around it: the test plays everybody else.
type alone struct {
	t       testing.TB
	s       *Scheduler
	kv, aux *kvcache.Pool
	now     int64
}

func newAlone(t testing.TB, role Role, change ...func(*Config, *kvcache.Config)) *alone {
	t.Helper()
	cfg, kvc := simConfig(role)
	cfg.Protections[HandoffDigest] = false
	for _, c := range change {
		c(&cfg, &kvc)
	}
	kv, err := kvcache.New(kvc)
	if err != nil {
		t.Fatal(err)
	}
	aux, err := kvcache.New(kvcache.Config{Name: "aux", Pages: 9, PageTokens: 1, DrainTimeout: kvc.DrainTimeout, Verify: true})
	if err != nil {
		t.Fatal(err)
	}
	cache, err := kvcache.NewCache(kv, kvcache.Secret{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(cfg, kv, aux, cache)
	if err != nil {
		t.Fatal(err)
	}
	return &alone{t: t, s: s, kv: kv, aux: aux}
}

func (a *alone) step(ev Event) []Action { return slices.Clone(a.s.Step(a.now, ev)) }

func (a *alone) after(d time.Duration) []Action {
	a.now += int64(d)
	return a.step(Tick{})
}

// only is the one action of its type; the test fails if there is another number.
func only[T Action](t testing.TB, actions []Action) (found T) {
	t.Helper()
	all := each[T](actions)
	if len(all) != 1 {
		t.Fatalf("%d actions of type %T in %+v, want one", len(all), found, actions)
	}
	return all[0]
}

func each[T Action](actions []Action) (all []T) {
	for _, a := range actions {
		if x, ok := a.(T); ok {
			all = append(all, x)
		}
	}
	return all
}

func submit(req kvcache.Req, prompt, maxNew int) Submit {
	return Submit{Req: req, Room: Room(req), Prompt: tokens(int(req)*1000, prompt), MaxNew: maxNew, Peers: []Peer{"x"}}
}

// done answers a launch with token for every item.
func done(l Launch, token int32) ForwardDone {
	return ForwardDone{Step: l.Step, Results: slices.Repeat([]Result{{Token: token}}, len(l.Items))}
}

// finish plays the model until nothing is launched any more.
func (a *alone) finish(actions []Action) (all []Action) {
	a.t.Helper()
	for range 1000 {
		all = append(all, actions...)
		l := each[Launch](actions)
		if len(l) == 0 {
			return all
		}
		actions = a.step(done(l[0], 7))
	}
	a.t.Fatal("the engine does not come to rest")
	return nil
}

func TestRefusalsNameTheReasonAndHoldNothing(t *testing.T) {
	long := submit(1, 60, 1)
	domain := submit(1, 3, 1)
	domain.Domain = kvcache.Domain(strings.Repeat("d", MaxDomainBytes+1))
	roomless, twice := submit(1, 3, 1), submit(1, 3, 1)
	roomless.Room = 0
	twice.Peers = []Peer{"x", "x"}
	for _, c := range []struct {
		name   string
		role   Role
		first  []Event
		ev     Submit
		status int
		err    error
	}{
		{"over-long", Unified, nil, long, 400, ErrOverLong},
		{"no prompt", Unified, nil, submit(1, 0, 1), 400, ErrMalformed},
		{"nothing to make", Unified, nil, submit(1, 3, 0), 400, ErrMalformed},
		{"no handle", Unified, nil, submit(0, 3, 1), 409, ErrDuplicate},
		{"long domain", Unified, nil, domain, 400, ErrMalformed},
		{"no room", Decode, nil, roomless, 400, ErrMalformed},
		{"a peer twice", Prefill, nil, twice, 400, ErrMalformed},
		{"known already", Prefill, []Event{submit(1, 3, 1)}, submit(1, 3, 1), 409, ErrDuplicate},
		{"stopping", Unified, []Event{Stop{}}, submit(1, 3, 1), 503, ErrStopping},
		{"queue full", Prefill, []Event{submit(11, 3, 1), submit(12, 3, 1), submit(13, 3, 1), submit(14, 3, 1), submit(15, 3, 1), submit(16, 3, 1)}, submit(1, 3, 1), 429, ErrQueueFull},
		{"refused peer", Decode, []Event{PeerUp{Peer: "x", Layout: Layout{PageTokens: 99}}}, submit(1, 3, 1), 502, ErrPeer},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAlone(t, c.role)
			for _, ev := range c.first {
				a.step(ev)
			}
			held := a.kv.Audit().Held
			r := only[Reject](t, a.step(c.ev))
			if r.Status != c.status || !errors.Is(r.Err, c.err) {
				t.Fatalf("rejected with %d, %v; want %d, %v", r.Status, r.Err, c.status, c.err)
			}
			if got := a.kv.Audit().Held; got != held {
				t.Fatalf("%d pages held after the refusal, %d before", got, held)
			}
		})
	}
	err := only[Reject](t, newAlone(t, Unified).step(long)).Err.Error()
	if !strings.Contains(err, "60 tokens") || !strings.Contains(err, "context of 60") {
		t.Fatalf("the refusal %q does not name both lengths", err)
	}
}

func TestContextThatThePoolCannotHoldDoesNotStart(t *testing.T) {
	cfg, kvc := simConfig(Unified)
	kv, err := kvcache.New(kvc)
	if err != nil {
		t.Fatal(err)
	}
	cfg.ContextTokens = kv.Capacity() + 1
	if _, err := New(cfg, kv, nil, nil); !errors.Is(err, ErrContextExceedsPool) {
		t.Fatalf("started with %v, want ErrContextExceedsPool", err)
	}
	cfg.LowerContext = true
	s, err := New(cfg, kv, nil, nil)
	if err != nil || s.Limit() != kv.Capacity() {
		t.Fatalf("limit %v, %v; want the pool's %d", s, err, kv.Capacity())
	}
}

func TestConfigThatCannotWorkIsRefused(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"no queue":          func(c *Config) { c.MaxQueued = 0 },
		"no context":        func(c *Config) { c.ContextTokens = 0 },
		"no batch":          func(c *Config) { c.BatchTokens = 0 },
		"no such role":      func(c *Config) { c.Role = 9 },
		"no such drill":     func(c *Config) { c.Drill = numDrills },
		"prefill, no slots": func(c *Config) { c.Role = Prefill },
	} {
		cfg, kvc := simConfig(Unified)
		kv, err := kvcache.New(kvc)
		if err != nil {
			t.Fatal(err)
		}
		change(&cfg)
		if _, err := New(cfg, kv, nil, nil); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestBatchMustDrainWithinTheReleaseTimeout(t *testing.T) {
	cfg, kvc := simConfig(Prefill)
	kvc.BatchPages, kvc.DrainTimeout = 4, 100*time.Millisecond
	kv, err := kvcache.New(kvc)
	if err != nil {
		t.Fatal(err)
	}
	cfg.SlowestPagesPerSecond = 39
	if _, err := New(cfg, kv, kv, nil); !errors.Is(err, ErrBatchCannotDrain) {
		t.Fatalf("3.9 pages in the time-out, 4 a batch: %v, want ErrBatchCannotDrain", err)
	}
	cfg.SlowestPagesPerSecond = 40
	if _, err := New(cfg, kv, kv, nil); err != nil {
		t.Fatal(err)
	}
}

func TestLongPromptIsComputedInChunksBesideAnswers(t *testing.T) {
	a := newAlone(t, Unified)
	l := only[Launch](t, a.step(submit(1, 3, 10)))
	a.step(submit(2, 20, 1))
	var chunks []int
	for range 3 {
		l = only[Launch](t, a.step(done(l, 7)))
		if l.Items[0].Req != 1 || len(l.Items[0].Tokens) != 1 || !l.Items[0].Sample {
			t.Fatalf("step %d begins with %+v, want one token of the running answer", l.Step, l.Items[0])
		}
		chunks = append(chunks, len(l.Items[1].Tokens))
		if last := len(chunks) == 3; l.Items[1].Sample != last {
			t.Fatalf("chunk %d samples: %v", len(chunks), l.Items[1].Sample)
		}
	}
	if want := []int{9, 9, 2}; !slices.Equal(chunks, want) {
		t.Fatalf("chunks of %v tokens, want %v", chunks, want)
	}
}

func TestWholePrefixInTheCacheComputesOneTokenOnACopy(t *testing.T) {
	a := newAlone(t, Unified)
	first := submit(1, 8, 1)
	l := only[Launch](t, a.step(first))
	for i, pg := range l.Items[0].Pages {
		a.kv.Tags().Stamp(pg, l.Items[0].Gens[i])
	}
	a.step(done(l, 7))
	again := first
	again.Req, again.MaxNew = 2, 4
	l = only[Launch](t, a.step(again))
	if it := l.Items[0]; it.Start != 7 || len(it.Tokens) != 1 || len(l.Copies) != 1 || l.Copies[0].To != it.Pages[1] {
		t.Fatalf("launched %+v after copies %+v, want the last token on a copied page", it, l.Copies)
	}
	if got := a.kv.Audit(); got.Held != 3 {
		t.Fatalf("%+v while the copy is made, want its source held", got)
	}
	acts := a.step(done(l, 7))
	if got := a.kv.Audit(); got.Cached != 1 {
		t.Fatalf("%+v after the copy, want its source back in the cache", got)
	}
	a.finish(acts)
}

func TestPreemptedRequestReentersAndAnswersOnce(t *testing.T) {
	a := newAlone(t, Unified, func(c *Config, k *kvcache.Config) { c.ContextTokens, k.Pages = 20, 6 })
	actions := a.step(submit(1, 7, 13))
	actions = append(actions, a.step(submit(2, 7, 8))...)
	all := a.finish(actions)
	if n := len(each[Retracted](all)); n == 0 {
		t.Fatal("nobody was preempted: the pool is too large for the test")
	}
	if got := only[Retracted](t, each1(all)).Req; got != 2 {
		t.Fatalf("request %d was preempted, want the younger", got)
	}
	counts := map[kvcache.Req]int{}
	for _, tok := range each[Token](all) {
		counts[tok.Req]++
	}
	if counts[1] != 13 || counts[2] != 8 || len(each[Answer](all)) != 2 {
		t.Fatalf("tokens %v in %d answers, want 13 and 8 in two", counts, len(each[Answer](all)))
	}
}

// each1 keeps the first retraction.
func each1(all []Action) []Action {
	i := slices.IndexFunc(all, func(x Action) bool { _, ok := x.(Retracted); return ok })
	return all[i : i+1]
}

func TestAbortDuringAPassWaitsForItAndKeepsItsPages(t *testing.T) {
	a := newAlone(t, Unified)
	l := only[Launch](t, a.step(submit(1, 8, 4)))
	if acts := a.step(Abort{Req: 1, Reason: "asked to"}); len(acts) != 0 {
		t.Fatalf("actions %+v while the pass runs, want none", acts)
	}
	if got := a.kv.Audit().Held; got != 2 {
		t.Fatalf("%d pages held while the pass runs, want 2", got)
	}
	ans := only[Answer](t, a.step(done(l, 7)))
	if ans.Outcome.Status != 499 || !errors.Is(ans.Outcome.Err, ErrAborted) || a.kv.Audit().Held != 0 {
		t.Fatalf("answered %+v with %+v, want 499 and nothing held", ans.Outcome, a.kv.Audit())
	}
}

func TestFaultyPageFailsTheRequestBeforeATokenLeaves(t *testing.T) {
	a := newAlone(t, Unified)
	l := only[Launch](t, a.step(submit(1, 8, 4)))
	acts := a.step(ForwardDone{Step: l.Step, Results: []Result{{Token: 7, Fault: &kvcache.TagFault{Page: 1}}}})
	if ans := only[Answer](t, acts); ans.Outcome.Status != 500 || !errors.Is(ans.Outcome.Err, ErrPageTag) || len(each[Token](acts)) != 0 {
		t.Fatalf("%+v, want 500, ErrPageTag, and no token", acts)
	}
	if a.s.Stats().Stopped[PageTags] != 1 {
		t.Fatal("the page tags do not show that they stopped it")
	}
}

func TestStoppingFinishesWhatIsHere(t *testing.T) {
	a := newAlone(t, Unified)
	acts := a.step(submit(1, 8, 4))
	a.step(Stop{})
	if ans := only[Answer](t, a.finish(acts)); ans.Outcome.Status != 200 || !a.s.Idle() {
		t.Fatalf("%+v, idle %v; want a good answer, and rest", ans, a.s.Idle())
	}
}

func TestDeadlinesAreMet(t *testing.T) {
	for _, c := range []struct {
		name string
		role Role
		prep []Event
	}{
		{"bootstrap", Prefill, []Event{submit(1, 4, 1)}},
		{"early targets", Prefill, []Event{Targets{Room: 9, Peer: "x"}}},
		{"transfer", Decode, []Event{submit(1, 4, 1)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAlone(t, c.role)
			if at, ok := a.s.NextDeadline(); ok {
				t.Fatalf("an idle engine has a deadline at %d", at)
			}
			for _, ev := range c.prep {
				a.step(ev)
			}
			at, ok := a.s.NextDeadline()
			if !ok {
				t.Fatal("there is no deadline")
			}
			a.now = at - 1
			if acts := a.step(Tick{}); len(acts) != 0 {
				t.Fatalf("actions %+v before the deadline", acts)
			}
			a.now = at
			if acts := a.step(Tick{}); len(acts) == 0 {
				t.Fatal("nothing happens at the deadline")
			}
		})
	}
}

func TestOneRequestCanBeDrilledAlone(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		a := newAlone(t, Prefill, func(c *Config, k *kvcache.Config) {
			c.AllowRequestDrill = allowed
			c.Protections[PoolGate] = false
			k.Pages = 4
		})
		drilled, other := submit(1, 30, 1), submit(2, 30, 1)
		drilled.Drill = RejectedHandoff
		if got := len(each[Reject](a.step(drilled))); (got == 0) != allowed {
			t.Errorf("allowed %v: the drilled request was rejected %d times", allowed, got)
		}
		if r := only[Reject](t, a.step(other)); !errors.Is(r.Err, ErrPoolTooSmall) {
			t.Errorf("allowed %v: the other was rejected with %v, want ErrPoolTooSmall", allowed, r.Err)
		}
	}
}

func TestEngineWithoutAPrefixCacheServes(t *testing.T) {
	cfg, kvc := simConfig(Unified)
	kv, err := kvcache.New(kvc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(cfg, kv, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := &alone{t: t, s: s, kv: kv}
	if ans := only[Answer](t, a.finish(a.step(submit(1, 8, 4)))); ans.Outcome.Status != 200 || kv.Audit().Free != 19 {
		t.Fatalf("%+v with %+v, want a good answer and all pages free", ans.Outcome, kv.Audit())
	}
}

func TestAnswerEndsWhereTheModelSaysSo(t *testing.T) {
	a := newAlone(t, Unified)
	l := only[Launch](t, a.step(submit(1, 8, 4)))
	acts := a.step(ForwardDone{Step: l.Step, Results: []Result{{Token: 7, Stop: true}}})
	if ans := only[Answer](t, acts); ans.Outcome.Finish != FinishStop || len(each[Token](acts)) != 1 {
		t.Fatalf("%+v, want one token and stop", acts)
	}
}

// Without the question at the door a rejected request is still ended, with its
// reason, when its turn comes: only the drill makes an incident of it.
func TestDoorLeftOpenIsNoIncidentByItself(t *testing.T) {
	for _, role := range []Role{Unified, Prefill, Decode} {
		a := newAlone(t, role, func(c *Config, k *kvcache.Config) {
			c.Protections = c.Protections.Without(AdmissionReject, PoolGate)
			k.Pages = 4
		})
		acts := a.step(submit(1, 30, 1))
		if role == Prefill {
			acts = a.step(aim(1, 30))
		}
		if ans := only[Answer](t, acts); ans.Outcome.Status != 400 || !errors.Is(ans.Outcome.Err, ErrPoolTooSmall) {
			t.Errorf("%s: %+v, want 400 and ErrPoolTooSmall", role, ans.Outcome)
		}
	}
}

func TestCheckNoticesEachKindOfCorruption(t *testing.T) {
	for name, corrupt := range map[string]func(*Scheduler, *request){
		"queue count":           func(s *Scheduler, _ *request) { s.queued[stRunning]++ },
		"lost from the index":   func(s *Scheduler, r *request) { delete(s.reqs, r.info.Req) },
		"answered but here":     func(_ *Scheduler, r *request) { r.finished = &Outcome{} },
		"running without pages": func(_ *Scheduler, r *request) { r.kv = nil },
		"more than its pages":   func(_ *Scheduler, r *request) { r.computed = 99 },
		"rejected and admitted": func(_ *Scheduler, r *request) { r.toFinish = &Outcome{rejected: true} },
		"not in the step":       func(_ *Scheduler, r *request) { r.inForward = false },
		"twice in the step":     func(s *Scheduler, _ *request) { s.launched = append(s.launched, s.launched[0]) },
		"gone from the step":    func(s *Scheduler, _ *request) { s.launched[0].r = &request{} },
		"transfer not open":     func(_ *Scheduler, r *request) { r.links = []*link{{xfer: 5}} },
		"transfer of nobody":    func(s *Scheduler, _ *request) { s.open[5] = &openXfer{} },
	} {
		a := newAlone(t, Unified)
		a.step(submit(1, 8, 4))
		if err := a.s.Check(); err != nil {
			t.Fatal(err)
		}
		corrupt(a.s, a.s.live[0])
		var broken *kvcache.InvariantError
		if err := a.s.Check(); !errors.As(err, &broken) {
			t.Errorf("%s: check says %v, want an *InvariantError", name, err)
		}
	}
}

func BenchmarkStepOfARunningBatch(b *testing.B) {
	a := newAlone(b, Unified, func(c *Config, k *kvcache.Config) {
		c.ContextTokens, c.MaxQueued, c.MaxRunning, c.BatchTokens, c.ChunkTokens, c.Verify = 1<<20, 100, 64, 1<<16, 1<<16, false
		k.Pages, k.PageTokens, k.Verify, k.Tagged = 1<<17, 16, false, false
	})
	var l Launch
	for i := range 64 {
		if ls := each[Launch](a.step(submit(kvcache.Req(i+1), 1000, 1<<19))); len(ls) > 0 {
			l = ls[0]
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		l = only[Launch](b, a.step(done(l, 7)))
	}
}
