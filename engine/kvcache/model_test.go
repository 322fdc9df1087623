package kvcache

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// naive is the prefix cache as one would write it without caring for speed: a list
// of whole prefixes. The real one must agree with it in every answer.
type naive struct {
	entries []*naiveEntry
	tick    uint64
}

type naiveEntry struct {
	prefix string // domain and tokens
	page   PageID
	used   uint64
}

func prefixOf(domain Domain, tokens []int32) string { return fmt.Sprintf("%s|%v,", domain, tokens) }

// continues says whether prefix b goes on from prefix a by one page.
func continues(a, b string) bool {
	trimmed := strings.TrimSuffix(a, "],")
	return a != b && strings.HasPrefix(b, trimmed) && len(b) > len(trimmed) && b[len(trimmed)] == ' '
}

func (n *naive) find(prefix string) *naiveEntry {
	for _, e := range n.entries {
		if e.prefix == prefix {
			return e
		}
	}
	return nil
}

func (n *naive) match(p *Pool, domain Domain, tokens []int32) (pages []PageID) {
	size := p.cfg.PageTokens
	for end := size; end <= len(tokens); end += size {
		e := n.find(prefixOf(domain, tokens[:end]))
		if e == nil {
			break
		}
		pages = append(pages, e.page)
	}
	return pages
}

func (n *naive) touch(domain Domain, tokens []int32, size int) {
	for end := size; end <= len(tokens); end += size {
		n.find(prefixOf(domain, tokens[:end])).used = n.tick
	}
}

// insert mirrors Cache.Insert; written is how many tokens of tab are written.
func (n *naive) insert(p *Pool, tab *Table, tokens []int32, written int) {
	n.tick++
	size := p.cfg.PageTokens
	for i := 0; i < len(tab.pages) && (i+1)*size <= len(tokens); i++ {
		prefix := prefixOf(tab.domain, tokens[:(i+1)*size])
		e := n.find(prefix)
		if e == nil {
			if (i+1)*size > written {
				return
			}
			e = &naiveEntry{prefix: prefix, page: tab.pages[i]}
			n.entries = append(n.entries, e)
		}
		e.used = n.tick
	}
}

func (n *naive) held(p *Pool, page PageID) bool {
	for _, t := range p.tables {
		if slices.Contains(t.pages, page) {
			return true
		}
	}
	return false
}

// evict removes one entry: unheld, continued by none, least recently used, lowest.
func (n *naive) evict(p *Pool) bool {
	best := -1
	for i, e := range n.entries {
		parent := slices.ContainsFunc(n.entries, func(o *naiveEntry) bool { return continues(e.prefix, o.prefix) })
		if parent || n.held(p, e.page) {
			continue
		}
		if best < 0 || e.used < n.entries[best].used || e.used == n.entries[best].used && e.page < n.entries[best].page {
			best = i
		}
	}
	if best >= 0 {
		n.entries = slices.Delete(n.entries, best, best+1)
	}
	return best >= 0
}

func (n *naive) pages() (pages []PageID) {
	for _, e := range n.entries {
		pages = append(pages, e.page)
	}
	slices.Sort(pages)
	return pages
}

// live is a request of the model run.
type live struct {
	tab     *Table
	tokens  []int32
	written int
}

// modelRun drives pool, cache and naive model by the bytes of ops.
type modelRun struct {
	t    testing.TB
	p    *Pool
	c    *Cache
	n    naive
	live []*live
	next Req
}

func runModel(t testing.TB, ops []byte) {
	p, c := newCached(t, func(c *Config) { c.Pages, c.PageTokens = 13, 2 })
	r := &modelRun{t: t, p: p, c: c}
	for len(ops) >= 3 {
		r.op(ops[0], ops[1], ops[2])
		r.compare()
		ops = ops[3:]
	}
	for len(r.live) > 0 {
		r.release(0)
	}
	c.Flush()
	if a := p.Audit(); a.Free != a.Pages-1 {
		t.Fatalf("at the end %+v, want all pages free", a)
	}
}

func (r *modelRun) op(kind, a, b byte) {
	if kind%4 == 0 || len(r.live) == 0 {
		r.start(Domain(string('x'+rune(a%2))), a, b)
		return
	}
	i := int(a) % len(r.live)
	l := r.live[i]
	switch kind % 4 {
	case 1:
		if to := min(l.written+1+int(b)%4, len(l.tokens)); to > l.written {
			must(r.t, r.p.CommitWrite(l.tab, l.written, to))
			l.written = to
		}
	case 2:
		r.c.Insert(l.tab, l.tab.domain, l.tokens)
		r.n.insert(r.p, l.tab, l.tokens, l.written)
	case 3:
		r.release(i)
	}
}

// start begins a request with one of few prompts, so that prefixes meet.
func (r *modelRun) start(domain Domain, a, b byte) {
	rng := rand.New(rand.NewPCG(uint64(a%3), 1))
	tokens := make([]int32, 1+int(b)%9)
	for i := range tokens {
		tokens[i] = rng.Int32N(2)
	}
	m := r.c.Match(domain, tokens, len(tokens), 0)
	if want := r.n.match(r.p, domain, tokens); !slices.Equal(m.Pages, want) {
		r.t.Fatalf("domain %q, %v: matched %v, want %v", domain, tokens, m.Pages, want)
	}
	r.next++
	tab, err := r.p.Open(r.next, domain, 0)
	must(r.t, err)
	must(r.t, r.c.Share(tab, m))
	shared := tab.shared * r.p.cfg.PageTokens
	if shared > 0 {
		r.n.tick++
		r.n.touch(domain, tokens[:shared], r.p.cfg.PageTokens)
	}
	r.live = append(r.live, &live{tab: tab, tokens: tokens, written: shared})
	r.reserve(tab, r.p.PagesFor(len(tokens))-tab.shared)
}

// reserve takes n pages, after the model has evicted what the pool must evict.
func (r *modelRun) reserve(tab *Table, n int) {
	free, fits := len(r.p.free), n <= r.p.Available()
	for ; fits && free < n && r.n.evict(r.p); free++ {
	}
	err := r.p.Reserve(tab, n)
	if got, want := err == nil, free >= n; got != want {
		r.t.Fatalf("reserving %d: %v, the model has %d pages", n, err, free)
	}
	if err != nil {
		r.release(len(r.live) - 1)
	}
}

func (r *modelRun) release(i int) {
	must(r.t, r.p.Release(r.live[i].tab))
	r.live = slices.Delete(r.live, i, i+1)
}

func (r *modelRun) compare() {
	var got []PageID
	for pg, in := range r.p.cached {
		if in {
			got = append(got, PageID(pg))
		}
	}
	if want := r.n.pages(); !slices.Equal(got, want) {
		r.t.Fatalf("cached pages %v, want %v", got, want)
	}
}

func FuzzCacheAgrees(f *testing.F) {
	f.Add([]byte{0, 0, 8, 1, 0, 3, 1, 0, 3, 2, 0, 0, 3, 0, 0, 0, 0, 8, 0, 1, 8, 0, 1, 8})
	f.Add([]byte{0, 0, 8, 0, 0, 8, 1, 0, 3, 1, 1, 3, 2, 0, 0, 2, 1, 0, 3, 0, 0, 3, 0, 0})
	f.Fuzz(func(t *testing.T, ops []byte) { runModel(t, ops[:min(len(ops), 600)]) })
}

func TestCacheAgreesWithNaiveModel(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 2))
		ops := make([]byte, 600)
		for i := range ops {
			ops[i] = byte(rng.Uint32())
		}
		if !t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { runModel(t, ops) }) {
			return
		}
	}
}
