package oracle

import (
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// pool is one pool of one epoch of an instance.
type pool struct {
	inst         *instance
	name         string
	spec         *lifecycle.PoolSpec
	tokensUnsaid bool // nobody said how many tokens a page has
	inverted     bool // a finding said that it cannot hold what its own instance declares
	openedBy     lifecycle.Src
	openedAt     int64 // when that was applied
	unknown      bool  // what lies in pages that nothing was said of since (R11)
	null         spans // pages that are never handed out
	pages        map[uint32]*page
	differs      lifecycle.Opt[int64] // since when the engine's count of held pages does
	differsSaid  bool
}

// page is a page that some fact touched.
type page struct {
	pool        *pool
	no          uint32
	gen         *generation   // the present one
	earlier     []*generation // the ones before, the first one first
	refs        []*reference  // on the present generation
	cached      *reference    // the cache's, nil where it has none
	let         []release     // by whom references were given up
	robbed      []*request    // whose reference ended because the page was handed out again
	robbedCache bool          // the same of the cache's
}

// reference is what a holder has on the present generation of a page. The
// holder without a name is nil.
type reference struct {
	req      *request
	reserved bool
	domain   lifecycle.Opt[string] // of pages_shared
}

// release is a reference given up.
type release struct {
	req  *request
	gen  *generation
	step lifecycle.Opt[int64]
}

// generation is one handing out of a page.
type generation struct {
	page    *page
	holder  *request // who reserved it; nil where nobody, the cache or a nameless one did
	byCache bool
	over    bool // its last reference ended
	unknown bool // it accuses of nothing (R11)
	never   bool // the page has not been handed out yet
	claims  []claimed
	bytes   map[int]spans // observed, by region: offsets within the page
	used    bool          // it was read or filled
	before  *content      // what lay there when it began
	laid    []laid        // whose data were written into it, the last one last
	source  *content      // what was copied into it, written or not
	domain  lifecycle.Opt[string]
	copied  bool // domain is that of the source of a copy, whatever the holder's
	key     string
	targets []*transfer // that name it as a target
	sources []*transfer // that name it as a source
	brought []*transfer // whose bytes it has
	missed  bool        // it was seen that a handoff did not bring it
}

// claimed is one claim that a page was written.
type claimed struct {
	by   lifecycle.By
	step lifecycle.Opt[int64]
}

// laid is a content, and whether it is only claimed to have come by a transfer.
type laid struct {
	content
	believed bool
}

// content says whose data lie in a page.
type content struct {
	writer *request
	gen    *generation
}

func (c *content) party() finding.Party {
	return finding.Party{Inst: c.gen.page.pool.inst.name, Req: c.writer.name(), Domain: c.gen.domainOf()}
}

// domainOf is the domain of a page's content (R13).
func (g *generation) domainOf() lifecycle.Opt[string] {
	if g.copied {
		return g.domain
	}
	if g.holder != nil && g.holder.domain.Has {
		return g.holder.domain
	}
	return g.domain
}

func (p *pool) page(no uint32) *page {
	pg := p.pages[no]
	if pg == nil {
		pg = &page{pool: p, no: no}
		pg.gen = &generation{page: pg, over: true, never: true, unknown: p.unknown}
		p.pages[no] = pg
	}
	return pg
}

// forget makes every page unknown until it is handed out again.
func (p *pool) forget() {
	p.unknown = true
	for _, pg := range p.pages {
		pg.gen.unknown = true
	}
	p.differs = lifecycle.Opt[int64]{}
}

// anyUnknown reports whether some page is unknown.
func (p *pool) anyUnknown() bool {
	if p.unknown {
		return true
	}
	for _, pg := range p.pages {
		if pg.gen.unknown {
			return true
		}
	}
	return false
}

// pagesOf are the pages that a fact names, each once, in its order. Pages that
// the pool does not have, or never hands out, are none.
func (o *oracle) pagesOf(inst, name string, runs lifecycle.Runs) (pages []*page) {
	p := o.inst(inst).pools[name]
	if p == nil {
		return nil
	}
	seen := map[uint32]bool{}
	for _, no := range numbers(runs) {
		if no < p.spec.Pages && !p.null.covers(uint64(no), uint64(no)+1) && !seen[no] {
			seen[no] = true
			pages = append(pages, p.page(no))
		}
	}
	return pages
}

// numbers writes runs out, a page each.
func numbers(runs lifecycle.Runs) (pages []uint32) {
	for _, r := range runs {
		for no := r.First; no < r.End(); no++ {
			pages = append(pages, no)
		}
	}
	return pages
}

// tooMany: more pages than the oracle looks at one by one.
func tooMany(runs lifecycle.Runs) bool {
	n := uint64(0)
	for _, r := range runs {
		n += uint64(r.Count)
	}
	return n > maxPages
}

// ref is the request's reference on the present generation, nil where it has
// none.
func (pg *page) ref(r *request) *reference {
	for _, ref := range pg.refs {
		if same(ref.req, r) {
			return ref
		}
	}
	return nil
}

func (pg *page) held() bool { return len(pg.refs) > 0 || pg.cached != nil }

// handOut begins a new generation; earlier references are to the earlier one.
func (o *oracle) handOut(pg *page, holder *request, byCache bool) *generation {
	old := pg.gen
	old.over = true
	for _, ref := range pg.refs {
		pg.robbed = append(pg.robbed, ref.req)
	}
	pg.robbedCache = pg.robbedCache || pg.cached != nil
	before := old.before
	if c := o.laidIn(old); c != nil {
		before = c
	}
	pg.earlier = append(pg.earlier, old)
	pg.refs, pg.cached = nil, nil
	pg.gen = &generation{page: pg, holder: holder, byCache: byCache, before: before}
	return pg.gen
}

// give hands new generations of pages to a request (nil: to a nameless
// holder).
func (o *oracle) give(pages []*page, r *request) {
	for _, pg := range pages {
		o.handOut(pg, r, false)
		pg.refs = append(pg.refs, &reference{req: r, reserved: true})
		pg.gen.unknown = r == nil || r.id == "" && r.inst.engine // one that is known by another name, perhaps
	}
	r.gave(pages, false)
}

// gave notes the logical order of a request's pages. What it gave back before
// does not count any more.
func (r *request) gave(pages []*page, shared bool) {
	if r == nil || len(pages) == 0 {
		return
	}
	p := pages[0].pool
	anew := map[*page]bool{}
	for _, pg := range pages {
		anew[pg] = true
	}
	list := slices.DeleteFunc(slices.Clone(r.given[p]), func(g given) bool {
		pg := g.gen.page
		return anew[pg] || pg.gen != g.gen || pg.ref(r) == nil
	})
	for _, pg := range pages {
		list = append(list, given{pg.gen, shared})
	}
	r.given[p] = list
}

// drop ends a request's reference.
func (pg *page) drop(r *request, step lifecycle.Opt[int64]) {
	gone := pg.ref(r)
	pg.refs = slices.DeleteFunc(pg.refs, func(ref *reference) bool { return ref == gone })
	pg.let = append(pg.let, release{r, pg.gen, step})
	pg.gen.over = !pg.held()
}

// lies is whose data lie in a page: those of its generation where that is
// written, else what lay there before.
func (o *oracle) lies(g *generation) *content {
	if c := o.laidIn(g); c != nil && (o.written(g) || c == g.source) {
		return c
	}
	return g.before
}

// laidIn is whose data were written into a generation last. What a transfer is
// only claimed to have written lies there where the claim counts (R30).
func (o *oracle) laidIn(g *generation) *content {
	for n := len(g.laid) - 1; n >= 0; n-- {
		if !g.laid[n].believed || o.written(g) {
			return &g.laid[n].content
		}
	}
	if g.source == nil && g.holder != nil && g.sealed() {
		return &content{g.holder, g}
	}
	return g.source
}

// wasOf reports whether a request held an earlier generation of the page, or
// the present one until it was given back.
func (pg *page) wasOf(r *request) bool {
	if r == nil {
		return false
	}
	return slices.Contains(pg.robbed, r) ||
		slices.ContainsFunc(pg.let, func(l release) bool { return l.req == r }) ||
		slices.ContainsFunc(pg.earlier, func(g *generation) bool { return g.holder == r })
}
