package publish

import (
	"cmp"
	"maps"
	"runtime"
	"slices"

	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/scheduler"
)

// snapshot is a copy of the books, from which facts are made for one who comes
// late, while the books go on.
//
// All its facts have one time and no seq, in this order:
//
//  1. a watermark, whose seq is that of the last fact said before;
//  2. requests that are under way, and for each open transfer a transfer_started
//     that names no page: what a listener knows to have begun before the pools
//     came into its sight is not taken for whole. It never accuses for what of it
//     happened unseen;
//  3. pool_opened, since attach unless no page was ever handed out, and the
//     protections;
//  4. for each page that is held, in its present generation: its hand-out, what was
//     written, and the cache's reference with domain and key. A page that only the
//     cache holds is handed out to the cache;
//  5. references on shared pages;
//  6. open transfers with their pages. Pages that one targets, or that wait for a
//     drain, are handed out to nobody: what they hold is unknown until they are
//     handed out again, because a part of it may have come unseen.
//
// Of pages that are free, and of pages in an unknown state after a loss, nothing
// is said: since attach, they are unknown.
type snapshot struct {
	id    Identity
	t     int64
	step  int64
	seq   lifecycle.Opt[uint64] // of the last fact
	batch uint64                // the last batch published
	pools []poolCopy
	reqs  []*reqCopy
	xfers []xferCopy
	said  map[string]lifecycle.State
}

type poolCopy struct {
	pool   *Pool
	pages  []pageBook
	given  bool
	lostAt uint64
	// target marks pages whose content may be on its way.
	target []bool
}

type reqCopy struct {
	*party
	room           string
	prompt, prefix int64
	synthetic      bool
	admitted       bool
	in             []heldIn
}

type xferCopy struct {
	of    event
	name  string // of its request
	pages []lifecycle.Run
	tick  uint64
}

// take copies the books into s, whose memory is used again. batch is the last one
// published; until asOf all has been said.
func (e *encoder) take(s *snapshot, batch uint64, asOf int64) {
	e.t = max(e.t+1, asOf) // after all that was said, before all that will be
	s.id, s.t, s.step, s.batch = e.id, e.t, int64(e.at.Step), batch
	s.seq = lifecycle.Opt[uint64]{}
	if e.seq > 0 {
		s.seq = lifecycle.Some(e.seq - 1)
	}
	s.said = maps.Clone(e.said)
	s.pools = slices.Grow(s.pools[:0], len(e.b.pools))[:len(e.b.pools)]
	for i, pb := range e.b.pools {
		c := &s.pools[i]
		c.pool, c.given, c.lostAt = pb.pool, pb.given, e.b.lostAt
		c.pages = copyPages(c.pages, pb.pages)
	}
	s.reqs = s.reqs[:0]
	for _, r := range e.b.reqs {
		s.reqs = append(s.reqs, r.copy())
	}
	slices.SortFunc(s.reqs, func(a, b *reqCopy) int { return cmp.Compare(a.id, b.id) })
	s.xfers = s.xfers[:0]
	for _, x := range e.b.xfers {
		// Its pages never change, so they need no copy.
		s.xfers = append(s.xfers, xferCopy{of: x.of, name: x.req.name, pages: x.pages, tick: x.tick})
	}
	slices.SortFunc(s.xfers, func(a, b xferCopy) int { return cmp.Compare(a.of.xfer, b.of.xfer) })
}

// copySlice is how many pages are copied in one go. A copy is one piece of work that
// the runtime cannot interrupt, and on a machine without a processor to spare, or
// where the collector asks everybody to stop, the engine waits for it: so each is
// short, and the engine has its turn after it.
const copySlice = 4096

// copyPages copies src into the memory of dst.
func copyPages(dst, src []pageBook) []pageBook {
	dst = slices.Grow(dst[:0], len(src))
	for part := range slices.Chunk(src, copySlice) {
		dst = append(dst, part...)
		runtime.Gosched()
	}
	return dst
}

func (r *reqBook) copy() *reqCopy {
	c := &reqCopy{party: r.party, room: r.roomName, prompt: r.prompt, prefix: r.prefix, synthetic: r.synthetic, admitted: r.admitted && !r.ended}
	c.in = make([]heldIn, len(r.in))
	for i, h := range r.in {
		c.in[i] = heldIn{shares: slices.Clone(h.shares), own: slices.Clone(h.own), held: h.held}
	}
	return c
}

// speaker makes the facts of a snapshot.
type speaker struct {
	s   *snapshot
	f   lifecycle.Fact
	out func(*lifecycle.Fact) error
	err error
}

// facts calls out with each fact, until it fails. The fact is gone after the
// call.
func (s *snapshot) facts(out func(*lifecycle.Fact) error) error {
	sp := &speaker{s: s, out: out}
	s.markTargets()
	f := sp.begin(lifecycle.Watermark)
	f.Of, f.Seq = lifecycle.Engine, s.seq
	sp.say()
	sp.beginnings()
	for i := range s.pools {
		sp.pool(&s.pools[i])
	}
	for _, name := range slices.Sorted(maps.Keys(s.said)) {
		f := sp.begin(lifecycle.Protection)
		f.Protection, f.State = name, s.said[name]
		sp.say()
	}
	for i := range s.pools {
		sp.cached(&s.pools[i])
		for _, r := range s.reqs {
			sp.owned(&s.pools[i], r)
		}
		sp.nobodys(&s.pools[i])
		for _, r := range s.reqs {
			sp.shared(&s.pools[i], r)
		}
	}
	sp.transfers()
	return sp.err
}

func (sp *speaker) begin(ev lifecycle.Ev) *lifecycle.Fact {
	sp.f = lifecycle.Fact{
		Ev: ev, T: sp.s.t, Inst: sp.s.id.Instance, Src: lifecycle.Engine,
		Epoch: lifecycle.Some(sp.s.id.Epoch), Step: lifecycle.Some(sp.s.step),
	}
	return &sp.f
}

func (sp *speaker) say() {
	if sp.err == nil {
		sp.err = sp.out(&sp.f)
	}
}

// sayPages says the fact in hand about pages, unless there are none.
func (sp *speaker) sayPages(runs lifecycle.Runs) {
	for n := min(len(runs), lifecycle.MaxRuns); n > 0; n = min(len(runs), lifecycle.MaxRuns) {
		sp.f.Pages = runs[:n]
		sp.say()
		runs = runs[n:]
	}
}

// markTargets finds the pages whose content may be on its way.
func (s *snapshot) markTargets() {
	for i := range s.pools {
		c := &s.pools[i]
		c.target = slices.Grow(c.target[:0], len(c.pages))[:len(c.pages)]
		clear(c.target)
		if c.pool.name != s.id.TransferPool {
			continue
		}
		for _, x := range s.xfers {
			if x.of.side != scheduler.Receiver {
				continue
			}
			for _, run := range x.pages {
				for at := run.First; at < run.End(); at++ {
					c.target[at] = c.target[at] || c.pages[at].born <= x.tick
				}
			}
		}
	}
}

// beginnings says what began before now.
func (sp *speaker) beginnings() {
	for _, r := range sp.s.reqs {
		if !r.admitted {
			continue
		}
		f := sp.begin(lifecycle.RequestAdmitted)
		f.Req, f.Room, f.Domain, f.Synthetic = r.name, r.room, r.domain, r.synthetic
		f.PromptTokens, f.PrefixTokens = lifecycle.Some(r.prompt), lifecycle.Some(r.prefix)
		sp.say()
	}
	for i := range sp.s.xfers {
		sp.transfer(&sp.s.xfers[i])
		sp.say()
	}
}

func (sp *speaker) transfer(x *xferCopy) {
	f := sp.begin(lifecycle.TransferStarted)
	started(f, x.name, &x.of, sp.s.id.TransferPool)
	f.Pages = lifecycle.Runs{}
}

func (sp *speaker) pool(c *poolCopy) {
	spec := c.pool.spec
	if c.given || c.lostAt > 0 {
		spec.Since = lifecycle.SinceAttach
	}
	f := sp.begin(lifecycle.PoolOpened)
	f.Pool, f.Spec = c.pool.name, &spec
	sp.say()
}

// class is how a page stands in a snapshot.
type class uint8

const (
	unsaid class = iota
	ofCache
	ofOwner
	ofNobody
)

func (c *poolCopy) class(at uint32) class {
	p := &c.pages[at]
	switch {
	case p.born <= c.lostAt:
		return unsaid
	case p.marks&(releaseWaits|evictionWaits) != 0 || c.target[at] && p.marks&(ownerHolds|inCache) != 0:
		return ofNobody
	case p.marks&ownerHolds != 0:
		return ofOwner
	case p.marks&inCache != 0:
		return ofCache
	case p.refs > 0: // shared, but by whom it was brought is gone
		return ofNobody
	}
	return unsaid
}

// cached says the pages that the cache alone answers for, domain by domain.
func (sp *speaker) cached(c *poolCopy) {
	byDomain := map[lifecycle.Opt[string]]lifecycle.Runs{}
	for at := range uint32(len(c.pages)) {
		if c.class(at) == ofCache {
			d := c.pages[at].owner.domain
			byDomain[d] = byDomain[d].Append(at)
		}
	}
	domains := slices.SortedFunc(maps.Keys(byDomain), func(a, b lifecycle.Opt[string]) int { return cmp.Compare(a.V, b.V) })
	for _, d := range domains {
		runs := byDomain[d]
		f := sp.begin(lifecycle.PagesReserved)
		f.Pool, f.Holder = c.pool.name, "cache"
		sp.sayPages(runs)
		sp.written(c, "", "", runs)
		sp.inCache(c, "", d, runs)
	}
}

// owned says the pages that a request was handed and still holds.
func (sp *speaker) owned(c *poolCopy, r *reqCopy) {
	var runs lifecycle.Runs
	for _, own := range r.in[c.pool.index].own {
		for at := own.First; at < own.End(); at++ {
			p := &c.pages[at]
			if p.born == own.born && p.owner.id == r.id && c.class(at) == ofOwner {
				runs = runs.Append(at)
			}
		}
	}
	if len(runs) == 0 {
		return
	}
	f := sp.begin(lifecycle.PagesReserved)
	f.Pool, f.Req, f.Room = c.pool.name, r.name, r.room
	sp.sayPages(runs)
	sp.written(c, r.name, r.room, runs)
	sp.inCache(c, r.name, r.domain, runs)
}

// nobodys hands out to nobody the pages of which no more is known.
func (sp *speaker) nobodys(c *poolCopy) {
	var runs lifecycle.Runs
	for at := range uint32(len(c.pages)) {
		if c.class(at) == ofNobody {
			runs = runs.Append(at)
		}
	}
	f := sp.begin(lifecycle.PagesReserved)
	f.Pool = c.pool.name
	sp.sayPages(runs)
}

// written says which pages are, and by what.
func (sp *speaker) written(c *poolCopy, req, room string, runs lifecycle.Runs) {
	for _, by := range [...]struct {
		how  lifecycle.By
		mark marks
	}{{lifecycle.ByForward, filledHere}, {lifecycle.ByTransfer, filledByPeer}} {
		var these lifecycle.Runs
		for _, run := range runs {
			for at := run.First; at < run.End(); at++ {
				if c.pages[at].marks&by.mark != 0 {
					these = these.Append(at)
				}
			}
		}
		f := sp.begin(lifecycle.PagesWritten)
		f.Pool, f.Req, f.Room, f.By = c.pool.name, req, room, by.how
		sp.sayPages(these)
	}
}

// inCache says the cache's references among runs, key by key.
func (sp *speaker) inCache(c *poolCopy, req string, domain lifecycle.Opt[string], runs lifecycle.Runs) {
	f := sp.begin(lifecycle.PagesCached)
	f.Pool, f.Req, f.Domain = c.pool.name, req, domain
	sp.keyed(c, runs, func(p *pageBook) bool { return p.marks&inCache != 0 })
}

// shared says a request's references on the cache's pages.
func (sp *speaker) shared(c *poolCopy, r *reqCopy) {
	f := sp.begin(lifecycle.PagesShared)
	f.Pool, f.Req, f.Domain = c.pool.name, r.name, r.domain
	sp.keyed(c, r.in[c.pool.index].shares, func(p *pageBook) bool { return p.born > c.lostAt })
}

// keyed says the fact in hand once for each key of the pages that are meant.
func (sp *speaker) keyed(c *poolCopy, runs lifecycle.Runs, meant func(*pageBook) bool) {
	var these lifecycle.Runs
	var last kvcache.Key
	for _, run := range runs {
		for at := run.First; at < run.End(); at++ {
			p := &c.pages[at]
			if !meant(p) {
				continue
			}
			if p.key != last {
				sp.f.Key = keyName(last)
				sp.sayPages(these)
				these = these[:0]
			}
			these, last = these.Append(at), p.key
		}
	}
	sp.f.Key = keyName(last)
	sp.sayPages(these)
}

// transfers says the pages of open transfers, as far as they can be named: those of
// the generation that was meant, if its request still holds them. Of what its
// request gave up, while others or the cache hold it, nothing can be said that a
// judge would not take for a stranger's transfer.
func (sp *speaker) transfers() {
	if len(sp.s.xfers) == 0 {
		return
	}
	c := sp.s.main()
	for i := range sp.s.xfers {
		x := &sp.s.xfers[i]
		shared := sp.s.sharedBy(x.of.req, c)
		var runs lifecycle.Runs
		for _, run := range x.pages {
			for at := run.First; at < run.End(); at++ {
				p := &c.pages[at]
				_, shares := shared[at]
				own := p.marks&ownerHolds != 0 && p.owner.id == x.of.req
				if p.born <= x.tick && (own || shares || c.class(at) == ofNobody) {
					runs = runs.Append(at)
				}
			}
		}
		sp.transfer(x)
		sp.sayPages(runs)
	}
}

// sharedBy is the pages that a request shares.
func (s *snapshot) sharedBy(req kvcache.Req, c *poolCopy) map[uint32]struct{} {
	pages := map[uint32]struct{}{}
	for _, r := range s.reqs {
		if r.id != req {
			continue
		}
		for _, run := range r.in[c.pool.index].shares {
			for at := run.First; at < run.End(); at++ {
				pages[at] = struct{}{}
			}
		}
	}
	return pages
}

// main is the pool that transfers are about; there is one if there are transfers.
func (s *snapshot) main() *poolCopy {
	i := slices.IndexFunc(s.pools, func(c poolCopy) bool { return c.pool.name == s.id.TransferPool })
	return &s.pools[i]
}
