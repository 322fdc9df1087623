package kvcache

import (
	"errors"
	"fmt"
	"time"
)

// MaxPages bounds a pool: what a page id on the wire (int32) can name.
const MaxPages = 1<<31 - 1

var (
	// ErrNoPages: not enough free or evictable pages. Nothing was taken.
	ErrNoPages = errors.New("no free pages: wait for a release, or preempt")
	// ErrReleased: the reference had already ended.
	ErrReleased = errors.New("the block table was already released")
	// ErrHeld: the request has a table in this pool.
	ErrHeld = errors.New("the request already holds a block table in this pool")
)

// TimeoutPolicy says what becomes of pages whose transfer does not drain in time.
type TimeoutPolicy uint8

const (
	// KeepPending leaves them pending until the writer has drained or is gone; the
	// owner of the pool is told once, so that it can cut the writer off.
	KeepPending TimeoutPolicy = iota
	// Reclaim hands them out although the writer may still write. It is what some
	// engines do after a time-out; it trades memory for the promise.
	Reclaim
)

// Config describes a pool.
type Config struct {
	// Name of the pool in errors: "kv", "aux".
	Name string
	// Pages in all, the null page included.
	Pages int
	// PageTokens of one page.
	PageTokens int
	// DrainTimeout: how long a released page may wait for its writers.
	DrainTimeout time.Duration
	// OnTimeout is the policy after it.
	OnTimeout TimeoutPolicy
	// BatchPages bounds the pages of one transfer, so that what is in flight when
	// its pages are released can drain within DrainTimeout. 0: the pool's size.
	BatchPages int
	// MaxTransfers bounds the transfers that are open at once. 0: one a page.
	MaxTransfers int
	// Tagged: writers stamp Tags, and the cache asks for the stamp.
	Tagged bool
	// TagStripes: how many writers stamp their part of a page. 0: one.
	TagStripes int
	// TagWords is memory for the written tags, TagStripes a page; nil: the pool's own.
	TagWords []uint64
	// Events receives the transitions; nil: nobody.
	Events Events
	// Verify checks all invariants after each transition and panics with an
	// *InvariantError when one is broken. See VerifyFromEnv.
	Verify bool
}

// Pool is a paged pool. It is not safe for concurrent use.
type Pool struct {
	cfg    Config
	ev     Events
	at     At
	tags   *Tags
	refs   []int32 // tables that hold the page
	cached []bool  // the prefix cache holds it
	filled []int32 // tokens written from the front in this generation
	drains []int32 // open transfers that target or read it
	state  []pageState
	domain []Domain
	counts [stateCount]int
	free   []PageID // a stack: the page freed last is handed out first
	tables map[Req]*Table
	xfers  map[Xfer]*transfer
	cache  *Cache
	// damaged: a drill broke the books, so they can no longer be verified.
	damaged bool
	runs    []Run
	runsTo  []Run
	overdue []Xfer
}

// New makes a pool with all pages free.
func New(cfg Config) (*Pool, error) {
	if cfg.Pages < 2 || cfg.Pages > MaxPages {
		return nil, fmt.Errorf("making pool %q: %d pages, want 2 to %d (page 0 is the null page)", cfg.Name, cfg.Pages, MaxPages)
	}
	if cfg.PageTokens < 1 {
		return nil, fmt.Errorf("making pool %q: %d tokens a page, want at least 1", cfg.Name, cfg.PageTokens)
	}
	tags, err := newTags(cfg.Pages, cfg.TagStripes, cfg.TagWords)
	if err != nil {
		return nil, fmt.Errorf("making pool %q: %w", cfg.Name, err)
	}
	if cfg.BatchPages <= 0 {
		cfg.BatchPages = cfg.Pages
	}
	if cfg.MaxTransfers <= 0 {
		cfg.MaxTransfers = cfg.Pages
	}
	if cfg.Events == nil {
		cfg.Events = silent{}
	}
	p := &Pool{
		cfg: cfg, ev: cfg.Events, tags: tags,
		refs: make([]int32, cfg.Pages), cached: make([]bool, cfg.Pages),
		filled: make([]int32, cfg.Pages), drains: make([]int32, cfg.Pages),
		state: make([]pageState, cfg.Pages), domain: make([]Domain, cfg.Pages),
		free:   make([]PageID, 0, cfg.Pages),
		tables: map[Req]*Table{}, xfers: map[Xfer]*transfer{},
	}
	p.counts[stateNull] = cfg.Pages
	for pg := cfg.Pages - 1; pg > int(NullPage); pg-- { // so that page 1 goes first
		p.free = append(p.free, PageID(pg))
		p.move(PageID(pg), stateFree)
	}
	return p, nil
}

// Config as completed by New.
func (p *Pool) Config() Config { return p.cfg }

// Tags of the pool's pages.
func (p *Pool) Tags() *Tags { return p.tags }

// Capacity is how many tokens the pool can hold at most: every page but the null
// page.
func (p *Pool) Capacity() int { return (p.cfg.Pages - 1) * p.cfg.PageTokens }

// PagesFor is how many pages hold tokens.
func (p *Pool) PagesFor(tokens int) int {
	return (tokens + p.cfg.PageTokens - 1) / p.cfg.PageTokens
}

// Available is how many pages a Reserve could count on at most: free and cached.
func (p *Pool) Available() int { return len(p.free) + p.counts[stateCached] }

// Advance tells the pool the time and the step that date what follows.
func (p *Pool) Advance(now int64, step uint64) { p.at = At{Now: now, Step: step} }

// Open begins an empty block table for req. A request has one table a pool.
func (p *Pool) Open(req Req, domain Domain, bypass Bypass) (*Table, error) {
	if _, ok := p.tables[req]; ok {
		return nil, fmt.Errorf("opening a block table for request %d in pool %q: %w", req, p.cfg.Name, ErrHeld)
	}
	t := &Table{req: req, domain: domain, bypass: bypass}
	p.tables[req] = t
	return t, nil
}

// Reserve hands n pages to t, all or none, evicting from the prefix cache what is
// needed. It fails with ErrNoPages or ErrReleased.
func (p *Pool) Reserve(t *Table, n int) error {
	if t.released {
		return ErrReleased
	}
	if short := n - len(p.free); short > 0 && p.cache != nil && n <= p.Available() {
		p.cache.evict(short)
	}
	if n > len(p.free) {
		return ErrNoPages
	}
	if n <= 0 {
		return nil
	}
	first := len(t.pages)
	for range n {
		t.add(p.take(t.domain))
	}
	p.runs = appendRuns(p.runs[:0], t.pages[first:])
	p.ev.Reserved(p.at, t.req, p.runs)
	p.verify()
	return nil
}

// take pops a free page and begins its next generation with one holder.
func (p *Pool) take(domain Domain) (PageID, Gen) {
	pg := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	p.counts[stateFree]--
	p.counts[stateHeld]++
	p.state[pg] = stateHeld
	p.refs[pg], p.filled[pg], p.domain[pg] = 1, 0, domain
	return pg, p.tags.handOut(pg)
}

// Release ends t's references. Pages that nobody else holds become free, or
// pending drain while a transfer on them is open. A second call is ErrReleased.
func (p *Pool) Release(t *Table) error {
	again := t.released
	if again && t.bypass&BypassSingle == 0 {
		return ErrReleased
	}
	p.FinishCopy(t)
	if len(t.pages) > 0 {
		p.runs = appendRuns(p.runs[:0], t.pages)
		p.ev.Released(p.at, t.req, p.runs)
	}
	// From the back, so that the front is on top of the stack, and a parent in the
	// cache is let go after its children.
	for i := len(t.pages) - 1; i >= 0; i-- {
		p.unref(t.pages[i], t.bypass, again)
	}
	t.released = true
	if again {
		return nil
	}
	p.orphan(t)
	delete(p.tables, t.req)
	if t.bypass&BypassSingle == 0 {
		t.pages, t.gens = nil, nil
	}
	p.verify()
	return nil
}

// unref ends one reference on pg. Only a drill ends one that is not there: then
// the page enters the free list a second time, as in an engine that trusts itself.
func (p *Pool) unref(pg PageID, bypass Bypass, again bool) {
	if again {
		p.damaged = true
	}
	if p.refs[pg] <= 0 {
		if again {
			p.counts[stateFree]++
			p.free = append(p.free, pg)
		}
		return
	}
	p.refs[pg]--
	p.settle(pg, bypass&BypassDrain != 0)
}

// settle moves pg to the state that its holders, the cache and its transfers
// leave it in. undrained skips the wait for transfers.
func (p *Pool) settle(pg PageID, undrained bool) {
	switch {
	case p.refs[pg] > 0:
		p.move(pg, stateHeld)
	case p.cached[pg]:
		p.move(pg, stateCached)
	case p.state[pg] == stateFree:
		return
	case p.drains[pg] > 0 && !undrained:
		p.move(pg, statePending)
	default:
		p.damaged = p.damaged || p.drains[pg] > 0
		p.move(pg, stateFree)
		p.free = append(p.free, pg)
	}
	if p.cache != nil {
		p.cache.rank(pg)
	}
}

func (p *Pool) move(pg PageID, to pageState) {
	p.counts[p.state[pg]]--
	p.counts[to]++
	p.state[pg] = to
}
