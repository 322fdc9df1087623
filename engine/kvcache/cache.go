package kvcache

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Cache is the prefix cache: for each domain a radix tree whose symbols are whole
// pages of tokens. A page is the node of its own content, so the tree lives in
// arrays indexed by page and costs no allocation once warm.
//
// The unheld page without children that was used least recently is evicted first;
// of equals, the lowest page.
type Cache struct {
	pool   *Pool
	secret Secret
	index  map[Key]PageID
	nodes  []node
	tick   uint64
	order  evictHeap
	pages  []PageID
	keys   []Key
	runs   []Run
}

// node is the place in the tree of a cached page.
type node struct {
	parent   PageID // NullPage: the root
	key      Key
	gen      Gen
	tokens   []int32
	children int32
	used     uint64
}

// ErrCacheAttached: a pool has one prefix cache.
var ErrCacheAttached = errors.New("the pool already has a prefix cache")

// NewCache gives pool a prefix cache; Reserve then evicts from it at need.
func NewCache(pool *Pool, secret Secret) (*Cache, error) {
	if pool.cache != nil {
		return nil, fmt.Errorf("making the prefix cache of pool %q: %w", pool.cfg.Name, ErrCacheAttached)
	}
	c := &Cache{pool: pool, secret: secret, index: map[Key]PageID{}, nodes: make([]node, pool.cfg.Pages)}
	c.order = newEvictHeap(c.nodes)
	pool.cache = c
	return c, nil
}

// Match is a prefix that was found: physical pages in token order and the key of
// each. It is valid until the cache changes.
type Match struct {
	Pages []PageID
	Keys  []Key
}

// Match finds the longest cached prefix of tokens in domain, at most limit pages,
// and takes no reference. It stops before a page that is not fully written, unless
// bypass says otherwise.
func (c *Cache) Match(domain Domain, tokens []int32, limit int, bypass Bypass) Match {
	c.pages, c.keys = c.pages[:0], c.keys[:0]
	size := c.pool.cfg.PageTokens
	key, parent := c.secret.rootKey(domain), NullPage
	for len(tokens) >= size && len(c.pages) < limit {
		key = c.secret.pageKey(key, tokens[:size])
		pg, ok := c.find(key, parent, tokens[:size])
		if !ok || !c.complete(pg, bypass) {
			break
		}
		c.pages, c.keys = append(c.pages, pg), append(c.keys, key)
		parent, tokens = pg, tokens[size:]
	}
	return Match{Pages: c.pages, Keys: c.keys}
}

// find is the cached page of key, if it truly continues parent with tokens: a
// hash that collides is a miss.
func (c *Cache) find(key Key, parent PageID, tokens []int32) (PageID, bool) {
	pg, ok := c.index[key]
	if !ok || c.nodes[pg].parent != parent || !slices.Equal(c.nodes[pg].tokens, tokens) {
		return NullPage, false
	}
	return pg, true
}

// complete says whether pg is written to its last token in this generation.
func (c *Cache) complete(pg PageID, bypass Bypass) bool {
	if bypass&BypassWritten != 0 {
		return true
	}
	p := c.pool
	if int(p.filled[pg]) != p.cfg.PageTokens {
		return false
	}
	return !p.cfg.Tagged || bypass&BypassTags != 0 || p.tags.Written(pg) == p.tags.HandedOut(pg)
}

// Spare is how many pages a Reserve could count on at most if m were shared first.
func (c *Cache) Spare(m Match) int {
	n := c.pool.Available()
	for _, pg := range m.Pages {
		if c.pool.state[pg] == stateCached {
			n--
		}
	}
	return n
}

// Share gives the empty table t references on m, the last result of Match.
func (c *Cache) Share(t *Table, m Match) error {
	if t.released || len(t.pages) > 0 {
		return fmt.Errorf("sharing %d pages with request %d: its table has %d pages already", len(m.Pages), t.req, len(t.pages))
	}
	if len(m.Pages) == 0 {
		return nil
	}
	p := c.pool
	c.tick++
	for _, pg := range m.Pages {
		p.refs[pg]++
		c.nodes[pg].used = c.tick
		p.settle(pg, false)
		t.add(pg, c.nodes[pg].gen)
	}
	t.shared = len(m.Pages)
	c.runs = appendRuns(c.runs[:0], m.Pages)
	p.ev.Shared(p.at, t.req, t.domain, c.runs, m.Keys)
	p.verify()
	return nil
}

// Insert offers the pages of t that hold tokens, from the front, to the cache, and
// returns how many it took. A page whose place is taken by another with the same
// content stays t's alone; the walk ends at the first page that is not fully
// written. domain keys the pages: the table's own, unless a drill drops it.
func (c *Cache) Insert(t *Table, domain Domain, tokens []int32) int {
	p, size := c.pool, c.pool.cfg.PageTokens
	c.pages, c.keys = c.pages[:0], c.keys[:0]
	key, parent := c.secret.rootKey(domain), NullPage
	c.tick++
	for i := 0; i < len(t.pages) && len(tokens) >= size; i++ {
		key = c.secret.pageKey(key, tokens[:size])
		pg, ok := c.find(key, parent, tokens[:size])
		if !ok {
			if pg = t.pages[i]; !c.mayTake(t, i, key) {
				break
			}
			c.attach(pg, parent, key, tokens[:size])
			c.pages, c.keys = append(c.pages, pg), append(c.keys, key)
		}
		c.nodes[pg].used = c.tick
		c.rank(pg)
		parent, tokens = pg, tokens[size:]
	}
	if len(c.pages) > 0 {
		c.runs = appendRuns(c.runs[:0], c.pages)
		p.ev.Cached(p.at, t.req, t.domain, c.runs, c.keys)
		p.verify()
	}
	return len(c.pages)
}

// mayTake says whether entry i of t may become the node of key.
func (c *Cache) mayTake(t *Table, i int, key Key) bool {
	pg := t.pages[i]
	_, collides := c.index[key]
	current := c.pool.tags.HandedOut(pg) == t.gens[i]
	return !collides && current && !c.pool.cached[pg] && c.complete(pg, t.bypass)
}

func (c *Cache) attach(pg, parent PageID, key Key, tokens []int32) {
	n := &c.nodes[pg]
	n.parent, n.key, n.children = parent, key, 0
	n.gen = c.pool.tags.HandedOut(pg)
	n.tokens = append(n.tokens[:0], tokens...)
	c.index[key] = pg
	c.pool.cached[pg] = true
	if parent != NullPage {
		c.nodes[parent].children++
		c.rank(parent)
	}
}

// rank puts pg where it belongs in the order of eviction, or takes it out.
func (c *Cache) rank(pg PageID) {
	evictable := c.pool.cached[pg] && c.pool.refs[pg] == 0 && c.nodes[pg].children == 0
	c.order.place(pg, evictable)
}

// evict frees at least n pages, or as many as it can. Pages that a transfer still
// reads leave the cache but wait for their drain.
func (c *Cache) evict(n int) {
	p := c.pool
	c.pages = c.pages[:0]
	for want := len(p.free) + n; len(p.free) < want; {
		pg, ok := c.order.first()
		if !ok {
			break
		}
		c.detach(pg)
		c.pages = append(c.pages, pg)
	}
	if len(c.pages) > 0 {
		c.runs = appendRuns(c.runs[:0], c.pages)
		p.ev.Evicted(p.at, c.runs)
		p.verify()
	}
}

func (c *Cache) detach(pg PageID) {
	n := &c.nodes[pg]
	delete(c.index, n.key)
	c.pool.cached[pg] = false
	if n.parent != NullPage {
		c.nodes[n.parent].children--
		c.rank(n.parent)
	}
	c.pool.settle(pg, false)
	c.rank(pg)
}

// Flush evicts everything that nobody holds.
func (c *Cache) Flush() { c.evict(c.pool.cfg.Pages) }

// Len is how many pages the cache holds.
func (c *Cache) Len() int { return len(c.index) }

// holders lists what the cache holds, one Holder a domain.
func (c *Cache) holders(s *Snapshot) {
	byDomain := map[Domain][]PageID{}
	for pg := range c.nodes {
		if c.pool.cached[pg] {
			d := c.pool.domain[pg]
			byDomain[d] = append(byDomain[d], PageID(pg))
		}
	}
	for _, d := range slices.Sorted(maps.Keys(byDomain)) {
		s.Holders = append(s.Holders, Holder{Domain: d, Pages: s.keep(byDomain[d])})
	}
}
