package oracle

import (
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// late applies a fact that came too late to be judged: what it names is not
// known any more, and it may take accusations away, never make one (R4).
func (o *oracle) late(e *entry) {
	if e.Seq.Has {
		s := o.stream(o.keyOf(e))
		s.seen = s.seen.with(e.Seq.V, e.Seq.V+1)
	}
	o.forgetPages(e)
	if e.Inst != "" && e.Req != "" {
		o.speaker(e.Fact).blur("a fact about it came too late")
	}
	if e.Room != "" {
		room := o.room(e.Room)
		room.blur("a fact about it came too late")
		room.namedAt(e.Inst)
	}
	switch e.Ev {
	case lifecycle.PoolOpened:
		o.openLate(e)
	case lifecycle.StreamGap, lifecycle.EventsLost:
		o.lost(e) // it accuses nobody
	case lifecycle.SourceCoverage:
		if !e.Complete {
			o.inst(e.Inst).uncover(e.Of, e.Peer)
		}
	case lifecycle.RequestAdmitted:
		r := o.speaker(e.Fact)
		r.lost = true
		r.aborted, r.ended = false, false
		if r.room != nil {
			delete(r.room.rejected, e.Inst)
		}
	case lifecycle.TransferCompleted, lifecycle.TransferDrained:
		if t := o.ends(e); t != nil && e.Outcome != lifecycle.Failed {
			t.drainUnknown = true
		}
	case lifecycle.PeerGone:
		for _, t := range o.transfers {
			if t.receiver == e.Inst && t.sender == e.Peer || t.receiver == e.Peer && t.sender == e.Inst {
				t.drainUnknown = true
				t.handoff().blur("a fact about it came too late")
			}
		}
	}
	if r := o.inst(e.Inst).find(e.Req); r != nil {
		r.named = max(r.named, e.a)
	}
}

// openLate: a pool that was never seen is one whose pages are unknown.
func (o *oracle) openLate(e *entry) {
	i := o.inst(e.Inst)
	if e.Spec == nil || e.Epoch.Has && i.over[e.Epoch.V] {
		return
	}
	attached := *e.Spec
	attached.Since = lifecycle.SinceAttach
	f := *e.Fact
	f.Spec = &attached
	o.noteSpeaker(e)
	o.open(&entry{Fact: &f, a: e.a, n: e.n})
}

// forgetPages makes the pages that a fact names unknown.
func (o *oracle) forgetPages(e *entry) {
	i := o.inst(e.Inst)
	if o.excessive(e.Fact) {
		for _, p := range i.pools {
			p.forget()
			for _, pg := range p.pages {
				o.forgetPage(pg)
			}
		}
		return
	}
	pages := o.pagesOf(e.Inst, e.Pool, e.Pages)
	for _, ref := range []lifecycle.PageRef{e.CopyFrom, e.CopyTo} {
		pages = append(pages, o.pagesOf(e.Inst, ref.Pool, ref.Pages)...)
	}
	if e.Ev == lifecycle.BytesMoved {
		o.forgetBytes(e, &pages)
	}
	for _, pg := range pages {
		o.forgetPage(pg)
	}
}

// forgetBytes: which pages a late write was for, and which transfers may have
// made it.
func (o *oracle) forgetBytes(e *entry, pages *[]*page) {
	for _, p := range o.pieces(e.Inst, e.Addr, e.Bytes) {
		if p.page != nil {
			*pages = append(*pages, p.page)
			continue
		}
		for _, t := range o.between(e.Inst, e.From) {
			t.handoff().blur("a write came too late")
		}
	}
	for _, t := range byXfer(e.Fact, o.between(e.Inst, e.From)) {
		t.handoff().blur("a write came too late")
	}
}

func (o *oracle) forgetPage(pg *page) {
	pg.gen.unknown = true
	for _, t := range slices.Concat(pg.gen.targets, pg.gen.sources, pg.gen.brought) {
		t.handoff().blur("a page of the transfer is not known any more")
	}
	for _, ref := range pg.refs {
		ref.req.blur("a page of it is not known any more")
	}
}

// excessive: the fact names more pages than the oracle looks at one by one.
func (o *oracle) excessive(f *lifecycle.Fact) bool {
	if tooMany(f.Pages) || tooMany(f.CopyFrom.Pages) || tooMany(f.CopyTo.Pages) {
		return true
	}
	if f.Ev != lifecycle.BytesMoved {
		return false
	}
	return o.spread(f.Inst, f.Addr, f.Bytes) > maxPages ||
		f.FromAddr.Has && f.Bytes <= ^uint64(0)-f.FromAddr.V && o.spread(f.From, f.FromAddr.V, f.Bytes) > maxPages
}

// spread is how many pages some bytes touch.
func (o *oracle) spread(inst string, addr, bytes uint64) (pages uint64) {
	for _, p := range o.inst(inst).pools {
		for _, r := range p.spec.Regions {
			if first, last, any := pagesAt(p, r, addr, bytes); any && !staging(r) {
				pages += last - first + 1
			}
		}
	}
	return pages
}
