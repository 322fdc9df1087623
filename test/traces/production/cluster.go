package production

import (
	"fmt"
	"sort"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// The cluster: two prefill, two decode and two unified engines. Pool sizes are
// those of the incident: 681,280 tokens on prefill, 2.04 million elsewhere.
const (
	pageTokens   = 64
	prefillPages = 10_645
	otherPages   = 31_875
	pairs        = 2 // of each role
	tenants      = 24
	prefixPages  = 16 // of each tenant's prefix that the unified engines cache

	microsecond = 1_000
	millisecond = 1_000_000
	second      = 1_000_000_000
	meanArrival = 10 * millisecond
)

type engine struct {
	name, node string
	seq        uint64
	pool       pool
	prefix     []lifecycle.Runs // by tenant, of a unified engine
}

type cluster struct{ prefill, decode, unified []*engine }

func newCluster() (c cluster) {
	for i := range pairs {
		add := func(role string, pages uint32) *engine {
			name := fmt.Sprintf("%s-%d", role, i)
			return &engine{name: name, node: "node-" + name, pool: newPool(pages)}
		}
		c.prefill = append(c.prefill, add("prefill", prefillPages))
		c.decode = append(c.decode, add("decode", otherPages))
		c.unified = append(c.unified, add("engine", otherPages))
	}
	return c
}

// open opens the pools and fills the prefix caches of the unified engines.
func (g *Generator) open() {
	for i := range pairs {
		for _, e := range []*engine{g.engines.prefill[i], g.engines.decode[i], g.engines.unified[i]} {
			spec := &lifecycle.PoolSpec{Pages: e.pool.pages, PageTokens: pageTokens, DType: "bfloat16"}
			g.say(e, lifecycle.PoolOpened, lifecycle.Fact{Pool: kv, Spec: spec})
		}
		e := g.engines.unified[i]
		for tenant := range tenants {
			pages, _ := e.pool.take(prefixPages)
			e.prefix = append(e.prefix, pages)
			g.say(e, lifecycle.PagesReserved, lifecycle.Fact{Pool: kv, Pages: pages, Holder: "cache"})
			g.say(e, lifecycle.PagesWritten, lifecycle.Fact{Pool: kv, Pages: pages, By: lifecycle.ByReload})
			g.say(e, lifecycle.PagesCached, lifecycle.Fact{Pool: kv, Pages: pages, Key: prefixKey(tenant), Domain: lifecycle.Some(domain(tenant))})
		}
	}
}

const kv = "kv"

func domain(tenant int) string    { return fmt.Sprintf("%012x", uint64(tenant+1)*0x9e3779b97f4b) }
func prefixKey(tenant int) string { return fmt.Sprintf("prefix-%02d", tenant) }

// pool hands out pages, going round, so that every page is used again and again
// by different requests.
type pool struct {
	pages uint32
	free  []lifecycle.Run // sorted, not touching
	left  int
	from  uint32 // where to look first
}

func newPool(pages uint32) pool {
	return pool{pages: pages, free: []lifecycle.Run{{First: 0, Count: pages}}, left: int(pages)}
}

// take hands out n pages, false if there are not as many.
func (p *pool) take(n int) (runs lifecycle.Runs, ok bool) {
	if n > p.left {
		return nil, false
	}
	p.left -= n
	for i := p.at(p.from); n > 0; {
		if i == len(p.free) {
			i = 0
		}
		run := &p.free[i]
		got := lifecycle.Run{First: run.First, Count: min(run.Count, uint32(n))}
		runs = append(runs, got)
		n -= int(got.Count)
		p.from = got.End()
		if run.First, run.Count = got.End(), run.Count-got.Count; run.Count == 0 {
			p.free = append(p.free[:i], p.free[i+1:]...)
		}
	}
	return runs, true
}

// at is the first free run at or after a page.
func (p *pool) at(page uint32) int {
	return sort.Search(len(p.free), func(i int) bool { return p.free[i].First >= page })
}

// give takes pages back.
func (p *pool) give(runs lifecycle.Runs) {
	for _, run := range runs {
		p.left += int(run.Count)
		i := p.at(run.First)
		p.free = append(p.free, lifecycle.Run{})
		copy(p.free[i+1:], p.free[i:])
		p.free[i] = run
		if i+1 < len(p.free) && run.End() == p.free[i+1].First {
			p.free[i].Count += p.free[i+1].Count
			p.free = append(p.free[:i+1], p.free[i+2:]...)
		}
		if i > 0 && p.free[i-1].End() == run.First {
			p.free[i-1].Count += p.free[i].Count
			p.free = append(p.free[:i], p.free[i+1:]...)
		}
	}
}
