package scheduler

import (
	"errors"
	"slices"

	"github.com/kvwitness/kvwitness/engine/kvcache"
)

// schedule launches the next forward pass, if none is in flight and somebody has
// something to compute. Requests that need one token go first, so that long prompts
// do not stop answers; then chunks of running prompts; then whoever waits.
func (s *Scheduler) schedule() {
	if len(s.launched) > 0 {
		return
	}
	s.copies = s.copies[:0]
	budget := s.cfg.BatchTokens
	for _, r := range s.in(stRunning) {
		if r.state == stRunning && r.left() > 0 {
			s.grow(r)
		}
	}
	running := s.in(stRunning)
	for _, decoding := range []bool{true, false} {
		for _, r := range running {
			if r.left() > 0 && (r.left() == 1) == decoding {
				budget -= s.take(r, budget)
			}
		}
	}
	for _, r := range s.in(stWaiting) {
		if budget <= 0 || s.queued[stRunning] >= s.cfg.MaxRunning || !s.start(r) {
			break
		}
		if r.state == stRunning {
			budget -= s.take(r, budget)
		}
	}
	s.launch()
}

// take puts a chunk of r into the next pass and returns its tokens; none if its
// pages do not reach.
func (s *Scheduler) take(r *request, budget int) int {
	n := min(r.left(), budget, s.cfg.ChunkTokens)
	if n <= 0 || r.kv.Len() < s.kv.PagesFor(r.computed+n) {
		return 0
	}
	s.launched = append(s.launched, &launched{r: r, start: r.computed, n: n})
	return n
}

// grow reserves the pages that r's tokens need. When there are none, the youngest
// other gives its own up, or r does if it is the youngest; one alone waits for
// pages that are draining.
func (s *Scheduler) grow(r *request) {
	for {
		need := s.kv.PagesFor(len(r.tokens)) - r.kv.Len()
		if need <= 0 || s.kv.Reserve(r.kv, need) == nil {
			return
		}
		victim := s.youngest()
		if victim == nil || victim == r && s.queued[stRunning] == 1 {
			return
		}
		s.preempt(victim)
		if victim == r {
			return
		}
	}
}

// youngest is the running request that came last. On prefill none is preempted:
// each has all the pages it needs, and a peer waits for them.
func (s *Scheduler) youngest() *request {
	if s.cfg.Role == Prefill {
		return nil
	}
	for _, r := range slices.Backward(s.live) {
		if r.state == stRunning {
			return r
		}
	}
	return nil
}

// preempt takes a running request's pages; it will re-enter by the waiting queue
// and compute its tokens again, or find them in the cache.
func (s *Scheduler) preempt(r *request) {
	s.stats.Preempted++
	s.keep(r)
	s.giveBack(r)
	r.computed = 0
	s.enter(r, stWaiting)
	s.do(Retracted{Req: r.info.Req})
}

// start moves r from waiting to running: the door once more, the prefix that is
// cached, pages for all its tokens, and on prefill a metadata slot. False: not now.
func (s *Scheduler) start(r *request) bool {
	if s.kv.PagesFor(len(r.tokens)) > s.kv.Config().Pages-1 {
		s.retire(r, s.tooLong(r))
		return true
	}
	m, whole := s.match(r, len(r.tokens))
	extra := 0
	if whole {
		extra = 1 // for the copy of the last page
	}
	need := s.kv.PagesFor(len(r.tokens)) - len(m.Pages)
	if s.spare(m) < need+extra+s.headroom() || s.slots() > 0 && s.aux.Available() < s.slots() {
		return false
	}
	if o := s.refused(r); o != nil {
		s.stopped(AdmissionReject)
		s.retire(r, o)
		return true
	}
	if err := s.reserve(r, m, need, s.slots()); err != nil {
		s.giveBack(r)
		return false
	}
	r.computed = len(m.Pages) * s.kv.Config().PageTokens
	if whole {
		if !s.copyLast(r) {
			return false
		}
	}
	s.enter(r, stRunning)
	s.drillAtStart(r)
	return true
}

func (s *Scheduler) tooLong(r *request) *Outcome {
	if r.toFinish != nil {
		return r.toFinish
	}
	return failed(400, ErrPoolTooSmall, "%d tokens, a pool of %d", len(r.tokens), s.kv.Capacity())
}

func (s *Scheduler) slots() int {
	if s.cfg.Role == Prefill {
		return 1
	}
	return 0
}

// match finds r's prefix in the cache, at most limit pages. whole: all its tokens
// are there, so that only the last has to be computed again, on a page of its own.
func (s *Scheduler) match(r *request, limit int) (m kvcache.Match, whole bool) {
	if s.cache == nil {
		return m, false
	}
	m = s.cache.Match(r.keyDomain(), r.tokens, limit, r.bypass())
	return m, len(m.Pages) > 0 && len(m.Pages)*s.kv.Config().PageTokens == len(r.tokens)
}

func (s *Scheduler) spare(m kvcache.Match) int {
	if s.cache == nil {
		return s.kv.Available()
	}
	return s.cache.Spare(m)
}

// reserve opens r's tables, shares m and reserves need pages more and the slots.
// On an error the caller gives back what was taken.
func (s *Scheduler) reserve(r *request, m kvcache.Match, need, slots int) error {
	s.admit(r, len(m.Pages)*s.kv.Config().PageTokens)
	if err := s.openTables(r, slots); err != nil {
		return err
	}
	if s.cache != nil {
		if r.prot[DomainInKey] {
			s.ran(DomainInKey)
		}
		if err := s.cache.Share(r.kv, m); err != nil {
			return err
		}
	}
	return s.kv.Reserve(r.kv, need)
}

// headroom is one page for each running request that may need it next: who comes in
// on the last pages would only be preempted again.
func (s *Scheduler) headroom() int {
	if s.cfg.Role == Prefill {
		return 0
	}
	return s.queued[stRunning]
}

// copyLast gives r its own copy of the last page that it shares. False: no page.
func (s *Scheduler) copyLast(r *request) bool {
	c, err := s.kv.CopyLast(r.kv)
	if err != nil {
		s.giveBack(r)
		r.computed = 0
		return false
	}
	r.computed = len(r.tokens) - 1
	s.copies = append(s.copies, Copy{Req: r.info.Req, Copy: c})
	return true
}

// drillAtStart commits the faults that belong to a request whose pages have just
// been reserved, or counts that a protection stood in the way.
func (s *Scheduler) drillAtStart(r *request) {
	switch {
	case r.fault == UnwrittenCache && s.cache != nil:
		if s.cache.Insert(r.kv, r.keyDomain(), r.tokens) == 0 && r.prot[WrittenFirst] {
			s.stopped(WrittenFirst)
		}
	case r.fault == StalePull && r.prot[WrittenFirst]:
		s.stopped(WrittenFirst)
	case r.fault == SaltDrop && r.prot[DomainInKey]:
		s.stopped(DomainInKey)
	}
}

// launch dates the step, claims its writes and reads, and asks for it.
func (s *Scheduler) launch() {
	if len(s.launched) == 0 {
		return
	}
	s.step++
	s.advance()
	l := Launch{Step: s.step, Copies: slices.Clone(s.copies), Items: make([]Item, 0, len(s.launched))}
	for _, it := range s.launched {
		it.r.inForward = true
		l.Items = append(l.Items, s.item(it))
	}
	for _, it := range s.launched {
		s.must(s.kv.LaunchWrite(it.r.kv, it.start, it.start+it.n))
	}
	for _, it := range s.launched {
		s.must(s.kv.Read(it.r.kv, it.start+it.n))
	}
	s.do(l)
}

func (s *Scheduler) item(it *launched) Item {
	r, end := it.r, it.start+it.n
	pages := s.kv.PagesFor(end)
	if r.prot[PageTags] {
		s.ran(PageTags)
	}
	return Item{
		Req: r.info.Req, Start: it.start, Tokens: r.tokens[it.start:end:end],
		Pages: r.kv.Pages()[:pages:pages], Gens: r.kv.Gens()[:pages:pages],
		Sample: end == len(r.tokens) && !r.ends(), ReadAll: end == len(r.tokens), CheckTags: r.prot[PageTags],
	}
}

// must turns a broken promise between scheduler and pool into a stop: to go on
// would be to hand somebody's pages to somebody else.
func (s *Scheduler) must(err error) {
	if err == nil {
		return
	}
	var broken *kvcache.InvariantError
	if !errors.As(err, &broken) {
		err = &kvcache.InvariantError{Pool: s.kv.Config().Name, Rule: err.Error()}
	}
	panic(err)
}
