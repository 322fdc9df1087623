package oracle

import (
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// accusations are what the rules for pages and transfers charge a fact with,
// as things stand. Nothing changes by asking.
func (o *oracle) accusations(e *entry) *charges {
	c := o.charges()
	pages := o.pagesOf(e.Inst, e.Pool, e.Pages)
	switch e.Ev {
	case lifecycle.PagesReserved:
		o.doubleHold(e, pages, c)
		o.earlyHandOut(e, pages, c)
		o.abortedReserve(e, pages, c)
	case lifecycle.PagesShared:
		o.foreignShare(e, pages, c)
		o.tenantCrossing(e.Fact, pages, c)
		o.wrongBlock(e, pages, c)
	case lifecycle.PagesWritten:
		o.claimedWrite(e, pages, c)
	case lifecycle.PagesRead:
		own := o.foreignRead(e, pages, c)
		o.staleRead(e.Fact, o.by(e.Fact), own, c)
		o.tenantCrossing(e.Fact, own, c)
	case lifecycle.PagesCached:
		o.foreignCache(e, pages, c)
	case lifecycle.PagesReleased:
		o.doubleRelease(e, pages, c)
		o.earlyRelease(e, pages, c)
	case lifecycle.PagesEvicted:
		o.doubleEvict(e, pages, c)
		o.earlyRelease(e, pages, c)
	case lifecycle.TransferStarted:
		o.foreignTransfer(e, pages, c)
		o.rejectedStart(e, pages, c)
		if e.Side == lifecycle.Sender {
			o.staleRead(e.Fact, o.by(e.Fact), o.ownPages(e, pages), c)
		} else if o.reservesOnWire(e) {
			o.earlyHandOut(e, o.notOwn(e, pages), c)
		}
	}
	return c
}

// ownPages are those that the fact's request holds.
func (o *oracle) ownPages(e *entry, pages []*page) (own []*page) {
	r := o.who(e.Fact)
	for _, pg := range pages {
		if pg.ref(r) != nil {
			own = append(own, pg)
		}
	}
	return own
}

func (o *oracle) notOwn(e *entry, pages []*page) (others []*page) {
	r := o.who(e.Fact)
	for _, pg := range pages {
		if pg.ref(r) == nil {
			others = append(others, pg)
		}
	}
	return others
}

// apply charges a fact and then lets it change what is known.
func (o *oracle) apply(e *entry) {
	if o.excessive(e.Fact) {
		o.late(e)
		return
	}
	i := o.inst(e.Inst)
	if e.Step.Has && e.Ev != lifecycle.BytesMoved {
		if i.step = max(i.step, e.Step.V); i.unsure {
			i.blindTo, i.unsure = i.step, false
		}
	}
	r := o.makeKnown(e)
	if i.pools[e.Pool] == nil && len(e.Pages) > 0 {
		r.blur("it names a pool that was never opened")
	}
	pages := o.pagesOf(e.Inst, e.Pool, e.Pages)
	c := o.accusations(e)
	o.say(c)
	switch e.Ev {
	case lifecycle.PoolOpened:
		if p := o.open(e); p != nil {
			o.opened(e, p)
		}
	case lifecycle.PoolClosed:
		if p := i.pools[e.Pool]; p != nil {
			o.endPool(e, p)
		}
	case lifecycle.RequestAdmitted:
		o.admit(e)
	case lifecycle.RequestRejected:
		o.reject(e)
	case lifecycle.RequestAborted:
		o.abort(e)
	case lifecycle.RequestFinished:
		o.finish(e, r)
	case lifecycle.PagesReserved:
		o.reserve(e, r, pages)
	case lifecycle.PagesShared:
		o.share(e, r, pages)
	case lifecycle.PagesWritten:
		o.write(e, r, o.claimedWrite(e, pages, o.charges()))
	case lifecycle.PagesCopied:
		o.copy(e)
	case lifecycle.PagesRead:
		o.read(e, r, pages)
	case lifecycle.PagesCached:
		o.cache(e, pages)
	case lifecycle.PagesReleased:
		o.release(e, r, pages)
	case lifecycle.PagesEvicted:
		o.evict(pages)
	case lifecycle.TransferStarted:
		o.start(e, c.has(finding.ForeignPage))
		if e.Side == lifecycle.Sender {
			o.send(e, pages)
		}
	case lifecycle.TransferCompleted:
		o.straysLanded(e)
		o.rejectedCompletion(e)
		o.complete(e)
	case lifecycle.TransferDrained:
		o.drain(e)
	case lifecycle.PeerGone:
		o.peerGone(e)
	case lifecycle.RegionRegistered:
		o.register(e)
	case lifecycle.RegionDeregistered:
		o.deregister(e)
	case lifecycle.BytesMoved:
		o.moved(e)
	case lifecycle.ContentDigest:
		o.contentMismatch(e)
	case lifecycle.VRAMUsage:
		o.vramUsage(e)
	case lifecycle.SourceCoverage:
		o.coverage(e)
	case lifecycle.StreamGap, lifecycle.EventsLost:
		o.lost(e)
	}
}

// makeKnown finds the request that a fact is about and notes that it, and
// whoever else is in its room, was named.
func (o *oracle) makeKnown(e *entry) (r *request) {
	if e.Inst == "" || e.Ev == lifecycle.RequestAdmitted {
		return nil // admit does it: the room may begin anew
	}
	if e.Ev == lifecycle.TransferStarted && o.startsAnew(e) {
		return nil
	}
	if e.Req != "" || e.Ev == lifecycle.PagesReserved && e.Holder == "" && e.Room != "" {
		r = o.speaker(e.Fact)
		r.named = o.now
	} else {
		r = o.who(e.Fact)
	}
	if e.Room != "" {
		room := o.room(e.Room)
		room.namedAt(e.Inst)
		for _, other := range room.at {
			other.named = o.now
		}
	}
	return r
}

func (o *oracle) admit(e *entry) {
	if room := o.rooms[e.Room]; room != nil {
		before := room.at[e.Inst]
		another := before != nil && before.id != "" && before.id != e.Req && before.ended
		if another || e.Synthetic && o.allOver(room) {
			o.newRoom(e.Room)
		}
	}
	o.retire(e)
	r := o.speaker(e.Fact)
	r.named = o.now
	if !r.admitted || r.ended {
		o.promptMismatch(e, r) // a preempted one may have grown
	}
	if !r.admitted {
		r.lost = false
	}
	r.admitted, r.ended, r.aborted, r.stopped = true, false, false, false
	if e.Domain.Has {
		r.domain = e.Domain
	}
	if e.PromptTokens.Has {
		r.prompt = e.PromptTokens
	}
	if e.PrefixTokens.Has {
		r.prefix = e.PrefixTokens
	}
	r.synthetic = r.synthetic || e.Synthetic
	if r.room == nil {
		return
	}
	delete(r.room.rejected, e.Inst)
	r.room.synthetic = r.room.synthetic || e.Synthetic
	if !slices.Contains(r.room.admitted, e.Inst) {
		r.room.admitted = append(r.room.admitted, e.Inst)
	}
}

// retire makes room for another request of an id: the one before has finished
// and gave all back (R15).
func (o *oracle) retire(e *entry) {
	r := o.inst(e.Inst).find(e.Req)
	if r == nil || !r.finished || r.holds() {
		return
	}
	r.over = true
	if r.room != nil && r.room.id == e.Room && o.rooms[e.Room] == r.room {
		o.newRoom(e.Room)
	}
}

func (o *oracle) finish(e *entry, r *request) {
	if e.Success() {
		o.rejectedSuccess(e, r)
		if r.room != nil {
			for _, h := range r.room.handoffs {
				if h.receiver == e.Inst && h.request() == r && len(h.transfers()) > 0 {
					h.success = true
					o.judge(h, e.Fact, "its request succeeded", lifecycle.Opt[int64]{})
				}
			}
		}
	}
	r.ended, r.finished = true, true
}

func (o *oracle) reserve(e *entry, r *request, pages []*page) {
	if e.Holder != "cache" {
		o.give(pages, r)
		return
	}
	for _, pg := range pages {
		o.handOut(pg, nil, true)
		pg.cached = &reference{}
	}
}

func (o *oracle) share(e *entry, r *request, pages []*page) {
	pages = slices.DeleteFunc(pages, func(pg *page) bool { return pg.ref(r) != nil })
	for _, pg := range pages {
		pg.refs = append(pg.refs, &reference{req: r, domain: e.Domain})
		pg.gen.over = false
	}
	r.gave(pages, true)
}

func (o *oracle) write(e *entry, r *request, pages []*page) {
	for _, pg := range pages {
		g := pg.gen
		g.claims = append(g.claims, claimed{e.By, e.Step})
		g.used = true
		writer := r
		if writer == nil {
			writer = g.holder
		}
		g.laid = append(g.laid, laid{content{writer, g}, e.By == lifecycle.ByTransfer})
	}
}

// copy applies pages_copied: content, domain and written state go along.
func (o *oracle) copy(e *entry) {
	from, to := o.refPages(e.Inst, e.CopyFrom), o.refPages(e.Inst, e.CopyTo)
	for n := range min(len(from), len(to)) {
		src, dst := from[n], to[n]
		if dst == nil {
			continue
		}
		g := dst.gen
		g.used = true
		g.claims, g.bytes, g.laid, g.source, g.before = nil, nil, nil, nil, nil
		switch {
		case src == nil || src.gen.unknown:
			g.unknown = true
		case o.written(src.gen):
			g.claims = []claimed{{lifecycle.ByCopy, e.Step}}
			g.copied, g.domain = true, src.gen.domainOf()
			if c := o.lies(src.gen); c != nil {
				g.laid = []laid{{*c, false}}
			}
		default:
			g.source = o.lies(src.gen)
		}
	}
}

// refPages are the pages of one side of a copy, nil where a page is not known.
func (o *oracle) refPages(inst string, ref lifecycle.PageRef) (pages []*page) {
	p := o.inst(inst).pools[ref.Pool]
	for _, no := range numbers(ref.Pages) {
		if p == nil || no >= p.spec.Pages || p.null.covers(uint64(no), uint64(no)+1) {
			pages = append(pages, nil)
		} else {
			pages = append(pages, p.page(no))
		}
	}
	return pages
}

// read applies pages_read, where it is no stranger's.
func (o *oracle) read(e *entry, r *request, pages []*page) {
	own := o.foreignRead(e, pages, o.charges())
	for _, pg := range own {
		pg.gen.used = true
		r.read = append(r.read, reading{pg.gen, e.Step, pg.gen.local()})
	}
	for _, pg := range pages {
		if pg.gen.unknown && !r.handedOver() {
			r.blur("it read a page that was not known")
		}
		r.readLate = r.readLate || o.standing(e, pg, r) == excused
	}
	h := o.handoffRead(r, own)
	if h != nil {
		h.wasRead = true
	}
	switch {
	case h != nil && o.awaits(h): // an earlier read leads to it
	case h != nil && e.Step.Has && o.mayBecome(h, e.Step):
		o.waitForWrite(e, o.by(e.Fact), own, h)
		return
	case h != nil:
		o.judge(h, e.Fact, "its pages were read", e.Step)
	}
	o.send(e, own)
}

// send is what becomes of pages that are read, or sent, before they are
// written.
func (o *oracle) send(e *entry, pages []*page) {
	own := o.ownPages(e, pages)
	if e.Step.Has {
		o.waitForWrite(e, o.by(e.Fact), own, nil)
	} else {
		o.unseenWrite(o.who(e.Fact), own)
	}
}

func (o *oracle) cache(e *entry, pages []*page) {
	for _, pg := range pages {
		pg.cached = &reference{}
		pg.gen.over = false
		pg.gen.key = e.Key
		if e.Domain.Has && !pg.gen.copied {
			pg.gen.domain = e.Domain
		}
		if h := pg.gen.holder; e.Domain.Has && h != nil && !h.domain.Has {
			h.domain = e.Domain // it tells the request's (R13)
		}
	}
}

func (o *oracle) release(e *entry, r *request, pages []*page) {
	for _, pg := range pages {
		if pg.ref(r) != nil || pg.gen.unknown { // it may have held that
			pg.drop(r, e.Step)
			o.released = append(o.released, batchRelease{pg, r, pg.gen})
		}
	}
}

func (o *oracle) evict(pages []*page) {
	for _, pg := range pages {
		if pg.cached == nil {
			pg.robbedCache = false // that was given back
		}
		pg.cached = nil
		pg.gen.over = !pg.held()
	}
}
