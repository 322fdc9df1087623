package publish

import (
	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// Pool is the [kvcache.Events] of one pool.
type Pool struct {
	t     *Teller
	name  string
	index int
	spec  lifecycle.PoolSpec
}

// Name of the pool in facts.
func (p *Pool) Name() string { return p.name }

// Reserved implements kvcache.Events, as do the methods up to Evicted.
func (p *Pool) Reserved(at kvcache.At, req kvcache.Req, pages []kvcache.Run) {
	p.t.q.put(&event{kind: pagesReserved, at: at, pool: p, req: req}, pages, nil, nil)
}

func (p *Pool) Shared(at kvcache.At, req kvcache.Req, domain kvcache.Domain, pages []kvcache.Run, keys []kvcache.Key) {
	e := event{kind: pagesShared, at: at, pool: p, req: req}
	e.name, e.has = p.t.hashed(domain)
	p.t.q.put(&e, pages, nil, keys)
}

func (p *Pool) Written(at kvcache.At, req kvcache.Req, by kvcache.Writer, pages []kvcache.Run, tokens int) {
	p.t.q.put(&event{kind: pagesWritten, at: at, pool: p, req: req, by: by, n: [5]int64{int64(tokens)}}, pages, nil, nil)
}

func (p *Pool) Read(at kvcache.At, req kvcache.Req, pages []kvcache.Run) {
	p.t.q.put(&event{kind: pagesRead, at: at, pool: p, req: req}, pages, nil, nil)
}

func (p *Pool) Copied(at kvcache.At, req kvcache.Req, from, to []kvcache.Run) {
	p.t.q.put(&event{kind: pagesCopied, at: at, pool: p, req: req}, from, to, nil)
}

func (p *Pool) Cached(at kvcache.At, req kvcache.Req, domain kvcache.Domain, pages []kvcache.Run, keys []kvcache.Key) {
	e := event{kind: pagesCached, at: at, pool: p, req: req}
	e.name, e.has = p.t.hashed(domain)
	p.t.q.put(&e, pages, nil, keys)
}

func (p *Pool) Released(at kvcache.At, req kvcache.Req, pages []kvcache.Run) {
	p.t.q.put(&event{kind: pagesReleased, at: at, pool: p, req: req}, pages, nil, nil)
}

func (p *Pool) Evicted(at kvcache.At, pages []kvcache.Run) {
	p.t.q.put(&event{kind: pagesEvicted, at: at, pool: p}, pages, nil, nil)
}

// Audited tells the pool's own count.
func (p *Pool) Audited(at kvcache.At, a kvcache.Audit) {
	p.t.q.put(&event{kind: poolAudit, at: at, pool: p, n: [5]int64{int64(a.Free), int64(a.Cached), int64(a.Held), int64(a.PendingDrain)}}, nil, nil, nil)
}
