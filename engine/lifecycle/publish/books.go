package publish

import (
	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// books are what the facts said so far: for each page who holds it and what was
// put there, for each request what was said of it. A snapshot is made of them. They
// are as large as the engine's own, and one goroutine keeps them.
//
// After a loss they begin anew: what was said before may not be so any more, so it
// is unknown, until a page is handed out again.
type books struct {
	tick   uint64 // counts hand-outs and transfers
	lostAt uint64 // pages handed out at or before this tick are unknown
	pools  []*poolBook
	reqs   map[kvcache.Req]*reqBook
	xfers  map[kvcache.Xfer]*xferBook
	spare  []*reqBook
}

// marks are what is known of a page's present generation.
type marks uint8

const (
	ownerHolds    marks = 1 << iota // the request it was handed to
	inCache                         // the prefix cache
	filledHere                      // by forward or copy
	filledByPeer                    // by transfer
	releaseWaits                    // its last holder let go, a transfer is not drained
	evictionWaits                   // the cache let go, a transfer is not drained
)

type pageBook struct {
	born  uint64 // tick of the hand-out; 0: never
	owner *party // to whom
	key   kvcache.Key
	refs  uint16 // requests that hold it
	busy  uint16 // transfers that name it and are not drained
	marks marks
}

// party is a request as far as pages point to it. It never changes.
type party struct {
	id     kvcache.Req
	name   string
	domain lifecycle.Opt[string]
}

type poolBook struct {
	pool  *Pool
	pages []pageBook
	given bool // a page was handed out
	// What waits for a drain, by page: whose release. Their number is part of
	// what an audit calls held, that of waiting evictions of what it calls cached.
	waiting   map[uint32]*party
	evictions int
}

type reqBook struct {
	*party
	roomName       string // empty: none
	prompt, prefix int64
	synthetic      bool
	admitted       bool
	ended          bool
	in             []heldIn // by pool
	held           int      // references
	xfers          int      // open
}

// heldIn are a request's references in one pool, in the order of its tokens:
// those that it shares, then its own. An own page counts while the page's owner
// and tick say so.
type heldIn struct {
	shares []lifecycle.Run
	own    []ownRun
	held   int
}

type ownRun struct {
	lifecycle.Run
	born uint64
}

type xferBook struct {
	of    event // transferStarted
	req   *reqBook
	pages []lifecycle.Run
	tick  uint64
}

func newBooks() *books {
	return &books{reqs: map[kvcache.Req]*reqBook{}, xfers: map[kvcache.Xfer]*xferBook{}}
}

func (b *books) open(p *Pool) {
	b.pools = append(b.pools, &poolBook{pool: p, pages: make([]pageBook, p.spec.Pages), waiting: map[uint32]*party{}})
}

// fits reports whether runs are pages that the pool was opened with. An engine
// that says others must not bring the goroutine down that keeps the books.
func (pb *poolBook) fits(runs []lifecycle.Run) bool {
	for _, r := range runs {
		if uint64(r.First)+uint64(r.Count) > uint64(len(pb.pages)) {
			return false
		}
	}
	return true
}

// known reports whether the page's generation was handed out since the last loss.
func (b *books) known(p *pageBook) bool { return p.born > b.lostAt }

// request finds or begins the book of a request.
func (b *books) request(id kvcache.Req) *reqBook {
	r := b.reqs[id]
	if r != nil {
		return r
	}
	if n := len(b.spare); n > 0 {
		r, b.spare = b.spare[n-1], b.spare[:n-1]
	} else {
		r = &reqBook{}
	}
	in := r.in
	for i := range in {
		in[i] = heldIn{shares: in[i].shares[:0], own: in[i].own[:0]}
	}
	for len(in) < len(b.pools) {
		in = append(in, heldIn{})
	}
	*r = reqBook{party: &party{id: id, name: decimal(uint64(id))}, in: in}
	b.reqs[id] = r
	return r
}

// settle forgets a request that has ended and holds nothing.
func (b *books) settle(r *reqBook) {
	if r.held == 0 && r.xfers == 0 && (r.ended || !r.admitted) && b.reqs[r.id] == r {
		delete(b.reqs, r.id)
		b.spare = append(b.spare, r)
	}
}

// reserve begins a generation of each page, held by r.
func (b *books) reserve(pb *poolBook, r *reqBook, runs []lifecycle.Run) {
	b.tick++
	pb.given = true
	h := &r.in[pb.pool.index]
	for _, run := range runs {
		for at := run.First; at < run.End(); at++ {
			pb.pages[at] = pageBook{born: b.tick, owner: r.party, refs: 1, marks: ownerHolds}
		}
		h.own = append(h.own, ownRun{run, b.tick})
		h.held += int(run.Count)
		r.held += int(run.Count)
	}
}

// share gives r a reference on each page.
func (b *books) share(pb *poolBook, r *reqBook, runs []lifecycle.Run) {
	h := &r.in[pb.pool.index]
	for _, run := range runs {
		for at := run.First; at < run.End(); at++ {
			if p := &pb.pages[at]; p.refs < ^uint16(0) {
				p.refs++
			}
		}
		h.shares = append(h.shares, run)
		h.held += int(run.Count)
		r.held += int(run.Count)
	}
}

// release takes r's reference on a page, and reports whether the page's reference
// may not end yet because a transfer on it is not drained.
func (b *books) release(pb *poolBook, r *reqBook, at uint32) (waits bool) {
	p, h := &pb.pages[at], &r.in[pb.pool.index]
	switch {
	case p.owner != nil && p.owner.id == r.id && p.marks&ownerHolds != 0 && b.known(p):
		p.marks &^= ownerHolds
	case !h.unshare(at):
		return false
	}
	h.held--
	r.held--
	if h.held == 0 {
		h.own, h.shares = h.own[:0], h.shares[:0]
	}
	if p.refs > 0 && p.refs < ^uint16(0) {
		p.refs--
	}
	if p.refs > 0 || p.busy == 0 || p.marks&inCache != 0 || !b.known(p) {
		return false
	}
	p.marks |= releaseWaits
	pb.waiting[at] = r.party
	return true
}

// unshare takes one page out of the shared ones. They are given back in order,
// as a rule, so the first is looked at first.
func (h *heldIn) unshare(at uint32) bool {
	for i := range h.shares {
		run := &h.shares[i]
		if at < run.First || at >= run.End() {
			continue
		}
		before, after := lifecycle.Run{First: run.First, Count: at - run.First}, lifecycle.Run{First: at + 1, Count: run.End() - at - 1}
		switch {
		case before.Count > 0 && after.Count > 0:
			h.shares[i] = before
			h.shares = append(h.shares, lifecycle.Run{})
			copy(h.shares[i+2:], h.shares[i+1:])
			h.shares[i+1] = after
		case before.Count > 0:
			h.shares[i] = before
		case after.Count > 0:
			h.shares[i] = after
		default:
			h.shares = append(h.shares[:i], h.shares[i+1:]...)
		}
		return true
	}
	return false
}

// fill notes that bytes were put into pages.
func (b *books) fill(pb *poolBook, runs []lifecycle.Run, by kvcache.Writer) {
	mark := filledHere
	if by == kvcache.ByTransfer {
		mark = filledByPeer
	}
	for _, run := range runs {
		for at := run.First; at < run.End(); at++ {
			pb.pages[at].marks |= mark
		}
	}
}

// copied carries the written state along.
func (b *books) copied(pb *poolBook, from, to []lifecycle.Run) {
	i, j := pageAfterPage(from), pageAfterPage(to)
	for src, ok := i(); ok; src, ok = i() {
		dst, more := j()
		if !more {
			return
		}
		if pb.pages[src].marks&(filledHere|filledByPeer) != 0 {
			pb.pages[dst].marks |= filledHere
		}
	}
}

// pageAfterPage walks runs page by page.
func pageAfterPage(runs []lifecycle.Run) func() (uint32, bool) {
	var i int
	var n uint32
	return func() (uint32, bool) {
		for i < len(runs) && n == runs[i].Count {
			i, n = i+1, 0
		}
		if i == len(runs) {
			return 0, false
		}
		n++
		return runs[i].First + n - 1, true
	}
}

// cache gives the prefix cache a reference on a page of a domain.
func (b *books) cache(p *pageBook, key kvcache.Key, domain lifecycle.Opt[string]) {
	p.marks |= inCache
	p.key = key
	if domain.Has && p.owner != nil && !p.owner.domain.Has {
		p.owner = &party{p.owner.id, p.owner.name, domain}
	}
}

// evict takes it back, and reports whether it must wait for a drain.
func (b *books) evict(pb *poolBook, p *pageBook) (waits bool) {
	if p.marks&inCache == 0 || !b.known(p) || p.refs > 0 || p.busy == 0 {
		p.marks &^= inCache
		return false
	}
	p.marks = p.marks&^inCache | evictionWaits
	pb.evictions++
	return true
}

// start notes a transfer on pages.
func (b *books) start(pb *poolBook, r *reqBook, ev *event, runs []lifecycle.Run) {
	b.tick++
	for _, run := range runs {
		for at := run.First; at < run.End(); at++ {
			pb.pages[at].busy++
		}
	}
	r.xfers++
	b.xfers[ev.xfer] = &xferBook{of: *ev, req: r, pages: append([]lifecycle.Run(nil), runs...), tick: b.tick}
}

// drained ends a transfer; free is called for each page whose present generation
// no transfer names any more.
func (b *books) drained(pb *poolBook, x kvcache.Xfer, free func(at uint32, p *pageBook)) {
	tr := b.xfers[x]
	if tr == nil {
		return
	}
	delete(b.xfers, x)
	for _, run := range tr.pages {
		for at := run.First; at < run.End(); at++ {
			p := &pb.pages[at]
			if p.born > tr.tick || p.busy == 0 {
				continue // another generation
			}
			if p.busy--; p.busy == 0 {
				free(at, p)
			}
		}
	}
	tr.req.xfers--
	b.settle(tr.req)
}

// forget begins the books anew after a loss.
func (b *books) forget() {
	b.tick++
	b.lostAt = b.tick
	clear(b.reqs)
	clear(b.xfers)
	for _, pb := range b.pools {
		clear(pb.waiting)
		pb.evictions = 0
	}
}
