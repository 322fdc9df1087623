package kvcache

import (
	"errors"
	"slices"
	"testing"
)

func newCached(t testing.TB, change ...func(*Config)) (*Pool, *Cache) {
	t.Helper()
	p := newPool(t, change...)
	c, err := NewCache(p, Secret{7})
	must(t, err)
	return p, c
}

func seq(from, n int) []int32 {
	s := make([]int32, n)
	for i := range s {
		s[i] = int32(from + i)
	}
	return s
}

// store writes tokens as request req in domain, caches and releases them.
func store(t testing.TB, p *Pool, c *Cache, req Req, domain Domain, tokens []int32) []PageID {
	t.Helper()
	tab, err := p.Open(req, domain, 0)
	must(t, err)
	must(t, p.Reserve(tab, p.PagesFor(len(tokens))))
	must(t, p.CommitWrite(tab, 0, len(tokens)))
	for i, pg := range tab.Pages() {
		p.Tags().Stamp(pg, tab.Gens()[i])
	}
	c.Insert(tab, domain, tokens)
	pages := slices.Clone(tab.Pages())
	must(t, p.Release(tab))
	return pages
}

func TestPrefixIsFoundPageByPage(t *testing.T) {
	p, c := newCached(t)
	pages := store(t, p, c, 1, "a", seq(0, 10))
	for _, want := range []struct {
		tokens []int32
		limit  int
		pages  int
	}{
		{seq(0, 10), 9, 2},
		{seq(0, 8), 9, 2},
		{seq(0, 7), 9, 1},
		{seq(0, 3), 9, 0},
		{seq(1, 8), 9, 0},
		{append(seq(0, 4), seq(20, 8)...), 9, 1},
		{seq(0, 10), 1, 1},
	} {
		m := c.Match("a", want.tokens, want.limit, 0)
		if !slices.Equal(m.Pages, pages[:want.pages]) || len(m.Keys) != want.pages {
			t.Errorf("%v, at most %d: pages %v, want %v", want.tokens, want.limit, m.Pages, pages[:want.pages])
		}
	}
	if a := p.Audit(); a.Cached != 2 || a.Free != 6 {
		t.Fatalf("audit %+v, want 2 cached (the partial page is free again)", a)
	}
}

func TestDomainsShareNothing(t *testing.T) {
	p, c := newCached(t)
	store(t, p, c, 1, "a", seq(0, 8))
	for _, d := range []Domain{"", "b", "a "} {
		if m := c.Match(d, seq(0, 8), 9, 0); len(m.Pages) != 0 {
			t.Errorf("domain %q was given pages of domain %q", d, "a")
		}
	}
}

func TestUnwrittenPagesNeitherEnterNorHit(t *testing.T) {
	p, c := newCached(t, func(c *Config) { c.Tagged = true })
	tab := open(t, p, 1, 3)
	tokens := seq(0, 12)
	if n := c.Insert(tab, "", tokens); n != 0 {
		t.Fatalf("%d pages cached before anything was written", n)
	}
	must(t, p.CommitWrite(tab, 0, 7))
	if n := c.Insert(tab, "", tokens); n != 0 {
		t.Fatalf("%d pages cached that carry no stamp of their writer", n)
	}
	for i, pg := range tab.Pages() {
		p.Tags().Stamp(pg, tab.Gens()[i])
	}
	if n := c.Insert(tab, "", tokens); n != 1 {
		t.Fatalf("%d pages cached of one full and one partial, want 1", n)
	}
	p.Tags().Stamp(tab.Pages()[0], 0)
	if m := c.Match("", tokens, 9, 0); len(m.Pages) != 0 {
		t.Fatal("a page that another writer has stamped is still hit")
	}
}

func TestUnwrittenCacheDrillLetsUnwrittenPagesBeHit(t *testing.T) {
	p, c := newCached(t)
	tab := open(t, p, 1, 2, BypassWritten)
	if n := c.Insert(tab, "", seq(0, 8)); n != 2 {
		t.Fatalf("%d pages cached, want 2: the drill has no effect", n)
	}
	if m := c.Match("", seq(0, 8), 9, 0); len(m.Pages) != 0 {
		t.Fatal("a request that is not drilled hits unwritten pages")
	}
	if m := c.Match("", seq(0, 8), 9, BypassWritten); len(m.Pages) != 2 {
		t.Fatal("the drilled request hits nothing")
	}
	must(t, p.Check())
}

func TestHeldPagesAndParentsAreNotEvicted(t *testing.T) {
	p, c := newCached(t)
	held := store(t, p, c, 1, "", seq(0, 8))
	store(t, p, c, 2, "", seq(50, 8))
	tab, err := p.Open(3, "", 0)
	must(t, err)
	must(t, c.Share(tab, c.Match("", seq(0, 8), 9, 0)))
	if got := open(t, p, 4, 6).Len(); got != 6 {
		t.Fatalf("reserved %d pages, want 6", got)
	}
	if m := c.Match("", seq(0, 8), 9, 0); !slices.Equal(m.Pages, held) {
		t.Fatalf("matched %v, want the held pages %v", m.Pages, held)
	}
	if err := p.Reserve(tab, 1); !errors.Is(err, ErrNoPages) {
		t.Fatalf("beyond what may be evicted: %v, want ErrNoPages", err)
	}
}

func TestLeastRecentlyUsedGoesFirst(t *testing.T) {
	p, c := newCached(t)
	store(t, p, c, 1, "", seq(0, 8))
	store(t, p, c, 2, "", seq(50, 8))
	tab, err := p.Open(3, "", 0)
	must(t, err)
	must(t, c.Share(tab, c.Match("", seq(0, 8), 9, 0)))
	must(t, p.Release(tab))
	must(t, p.Release(open(t, p, 4, 6)))
	for _, want := range []struct {
		tokens []int32
		pages  int
	}{{seq(0, 8), 2}, {seq(50, 8), 0}} {
		if m := c.Match("", want.tokens, 9, 0); len(m.Pages) != want.pages {
			t.Errorf("prefix from %d: %d pages left, want %d", want.tokens[0], len(m.Pages), want.pages)
		}
	}
}

func TestEvictedPageThatIsStillReadWaitsForItsDrain(t *testing.T) {
	p, c := newCached(t)
	tab := open(t, p, 1, 2)
	must(t, p.CommitWrite(tab, 0, 8))
	c.Insert(tab, "", seq(0, 8))
	must(t, p.OpenTransfer(1, tab, 0, 2))
	must(t, p.Release(tab))
	c.Flush()
	if a := p.Audit(); a.PendingDrain != 2 || a.Cached != 0 {
		t.Fatalf("audit %+v, want 2 pending drain", a)
	}
	p.Drained(1)
	if a := p.Audit(); a.Free != 8 {
		t.Fatalf("audit %+v, want all free", a)
	}
}

func TestSamePrefixWrittenTwiceIsCachedOnce(t *testing.T) {
	p, c := newCached(t)
	a, b := open(t, p, 1, 2), open(t, p, 2, 2)
	for _, tab := range []*Table{a, b} {
		must(t, p.CommitWrite(tab, 0, 8))
	}
	if n, m := c.Insert(a, "", seq(0, 4)), c.Insert(b, "", seq(0, 8)); n != 1 || m != 1 {
		t.Fatalf("cached %d and %d pages, want 1 and 1", n, m)
	}
	must(t, p.Release(b))
	must(t, p.Release(a))
	if got := p.Audit(); got.Cached != 2 || got.Free != 6 {
		t.Fatalf("audit %+v, want 2 cached and 6 free", got)
	}
}

func TestHashCollisionIsAMiss(t *testing.T) {
	p, c := newCached(t)
	pages := store(t, p, c, 1, "", seq(0, 4))
	c.nodes[pages[0]].tokens[3] = 99
	if m := c.Match("", seq(0, 4), 9, 0); len(m.Pages) != 0 {
		t.Fatal("another content under the same key was hit")
	}
	tab := open(t, p, 2, 1)
	must(t, p.CommitWrite(tab, 0, 4))
	if n := c.Insert(tab, "", seq(0, 4)); n != 0 {
		t.Fatal("a page took the place of another content under the same key")
	}
	must(t, p.Check())
}

func TestCopyOnWriteLeavesTheSharedPageAlone(t *testing.T) {
	p, c := newCached(t)
	pages := store(t, p, c, 1, "", seq(0, 8))
	tab, err := p.Open(2, "", 0)
	must(t, err)
	must(t, c.Share(tab, c.Match("", seq(0, 8), 9, 0)))
	if err := p.CommitWrite(tab, 7, 8); err == nil {
		t.Fatal("a shared page may be written")
	}
	cp, err := p.CopyLast(tab)
	must(t, err)
	if cp.From != pages[1] || tab.Pages()[1] != cp.To || tab.Gens()[1] != cp.ToGen || tab.Shared() != 1 {
		t.Fatalf("copy %+v, table %v of which %d shared", cp, tab.Pages(), tab.Shared())
	}
	if got := open(t, p, 3, 5).Len(); got != 5 || slices.Contains(p.cache.order.pages, cp.From) {
		t.Fatal("the page that is being copied may be evicted")
	}
	must(t, p.CommitWrite(tab, 7, 8))
	p.FinishCopy(tab)
	if got := p.Filled(tab, 1); got != 4 {
		t.Fatalf("%d tokens in the copy, want the 4 of the original", got)
	}
	must(t, p.Release(tab))
	if a := p.Audit(); a.Cached != 2 || a.Held != 5 || a.Free != 1 {
		t.Fatalf("audit %+v, want 2 cached, 5 held, 1 free", a)
	}
}

func TestPoolHasOneCache(t *testing.T) {
	p, _ := newCached(t)
	if _, err := NewCache(p, Secret{}); !errors.Is(err, ErrCacheAttached) {
		t.Fatalf("second cache: %v, want ErrCacheAttached", err)
	}
}
