package sim

import (
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// told reports whether what happens to the half can be told from its engine's
// stream.
func (h *half) told() bool {
	return h.in.engine && !h.in.unnamed && h.alive() && !h.in.muted && !h.r.synthetic && !h.r.blurred
}

// namesForeign appends a page of somebody else to what a side names.
func (t *transfer) namesForeign(h *half, fault string, f *lifecycle.Fact) {
	s := t.r.s
	if !s.arms(fault) || !h.told() || t.dummy || t.r.refusing {
		return
	}
	if id, some := h.others(h.in.pool(t.pool), func(pg *page) bool { return pg.busy == 0 }); some && s.strikes(fault) {
		f.Pages = slices.Clone(f.Pages).Append(id)
		s.want(h.in, "", t.r.room, t.pool, id)
	}
}

// namesFewer leaves a page out of what the sender names.
func (t *transfer) namesFewer(f *lifecycle.Fact) {
	r := t.r
	if !r.s.arms("claim_mismatch/pages") || !t.rcv.told() || !t.snd.told() || r.calm || r.refusing || t.retry || len(t.src) < 2 || t.pool != "kv" {
		return
	}
	if r.s.strikes("claim_mismatch/pages") {
		r.spare()
		r.s.want(t.rcv.in, "", r.room, "")
		r.s.Strike.Want.Inst = ""
		t.struck = true
		f.Pages = runs(t.src[:len(t.src)-1])
	}
}

// dropsClaim leaves the first page of a transfer unwritten, in an engine's own
// words. A handoff that was aborted owes nothing any more, though its transfers may
// run to their end.
func (t *transfer) dropsClaim() bool {
	h, s := t.rcv, t.r.s
	if !s.arms("short_handoff/pages") || t.r.calm || !h.told() || !h.in.written || h.in.observed || t.umbrella || t.chunk || t.dummy || len(t.r.senders) > 1 {
		return false
	}
	if t.pool == "aux" || len(t.dst) < 2 || !s.strikes("short_handoff/pages") {
		return false
	}
	t.r.spare()
	t.struck = true
	h.write(h.in.pool(t.pool), t.dst[1:], lifecycle.ByTransfer, 0)
	s.want(h.in, "", t.r.room, t.pool, t.dst[0])
	return true
}

// dropsBytes leaves out one write of a transfer that is seen in full.
func (t *transfer) dropsBytes(list []extent) []extent {
	h, s := t.rcv, t.r.s
	if t.dummy || t.retry || h.in.unnamed || !h.covering() || !t.r.watched(h) || len(list) == 0 || h.in.muted || t.r.blurred || t.r.synthetic || t.pool == "aux" || len(t.dst) < 2 {
		return list
	}
	if t.r.calm || h.in.pool(t.pool).staging > 0 && t.r.prompt%s.layout.pageTokens != 0 {
		return list // a staged page that decode fills up is owed no bytes
	}
	claim := s.arms("claim_mismatch/unseen") && h.in.written && h.in.engine && h.in.pool(t.pool).staging == 0 && s.strikes("claim_mismatch/unseen")
	if !claim && !s.strikes("short_handoff/bytes") {
		return list
	}
	t.r.spare()
	t.struck = true
	e := list[0]
	for _, o := range list { // not of the last page, which decode may fill in the step that reads it
		if slices.Contains(t.pagesAt(o), t.dst[0]) {
			e = o
			break
		}
	}
	pages := t.pagesAt(e)
	s.want(h.in, "", t.r.room, t.pool, pages[:min(1, len(pages))]...)
	return slices.DeleteFunc(list, func(o extent) bool { return o == e })
}

// watched reports whether everything of the handoff so far, if it has begun,
// was under complete coverage.
func (r *request) watched(h *half) bool { return !h.begun || h.sawAll }

// pagesAt are the pages that a write touches; none in staging memory.
func (t *transfer) pagesAt(e extent) (pages []uint32) {
	for _, region := range t.rcv.in.pool(t.pool).spec.Regions {
		if region.Part == "staging" {
			continue
		}
		for _, id := range t.dst {
			at := region.Base + uint64(id)*region.Stride
			if e.to < at+region.Bytes && at < e.to+e.bytes {
				pages = append(pages, id)
			}
		}
	}
	return pages
}

// saysFewer makes the last completion say fewer tokens than were owed.
func (t *transfer) saysFewer(f *lifecycle.Fact) {
	h, s := t.rcv, t.r.s
	owed := t.r.prompt - h.prefix
	if t.last && !t.r.calm && h.told() && !t.dummy && owed > 0 && s.strikes("short_handoff/tokens") {
		t.r.spare()
		f.Tokens = lifecycle.Some(owed - 1)
		s.want(h.in, "", t.r.room, "")
	}
}

// incident is what happened on 27 August: one page is sent for many, and the
// transfer completes.
func (t *transfer) incident() {
	h, s := t.rcv, t.r.s
	if t.retry || t.pool != "kv" || t.umbrella || t.chunk || t.dummy || len(t.dst) < 3 || len(t.r.senders) > 1 || !h.told() {
		return
	}
	seen := h.covering() && t.r.watched(h)
	if !(seen || h.in.written && !h.in.observed) || h.in.staged || !s.strikes("short_handoff/incident") {
		return
	}
	t.r.spare()
	t.struck = true
	s.want(h.in, "", t.r.room, t.pool, t.dst[1:len(t.dst)-1]...) // the last page may be filled by decode in the step that reads it
	t.lost = len(t.dst) - 1
}

// reuses names a page on the wire that an earlier transfer, not yet drained,
// still writes.
func (t *transfer) reuses() {
	h, s := t.rcv, t.r.s
	if !s.arms("early_release/reused") || h.in.engine || h.in.muted || !h.alive() || t.r.synthetic || t.pool != "kv" || t.dummy {
		return
	}
	p := h.in.pool("kv")
	for id := range p.pages {
		pg := &p.pages[id]
		if pg.busy == 0 || len(pg.holders) != 1 || pg.holders[0].r == t.r || pg.unknown || pg.holders[0].r.blurred || pg.holders[0].r.failing() || !s.strikes("early_release/reused") {
			continue
		}
		s.want(h.in, "", "", p.name, uint32(id))
		s.Strike.of = append(s.Strike.of, pg.holders[0].r.id)
		f := lifecycle.Fact{
			Ev: lifecycle.TransferStarted, Xfer: t.xfer + "+", Room: t.r.room, Side: lifecycle.Receiver, Pool: p.name,
			Pages: runs([]uint32{uint32(id)}), Peer: t.snd.in.name, Op: t.op,
		}
		// By the clock that tells when that transfer ends: two are a little apart.
		h.in.tell(lifecycle.Wire, pg.holders[0].r.writer(uint32(id), t).snd.in.node, f)
		return
	}
}

// writer is an open transfer of the request that named the page, else another.
func (r *request) writer(id uint32, other *transfer) *transfer {
	for _, t := range r.transfers {
		if !t.over && t.named && slices.Contains(t.dst, id) {
			return t
		}
	}
	return other
}

// failing reports whether a transfer of the request has been said to fail: a
// judge that sees all its writes may take it as drained.
func (r *request) failing() bool {
	return slices.ContainsFunc(r.transfers, func(t *transfer) bool { return t.failing })
}

// late makes a write land after the receiver has given its pages back.
func (r *request) late(h *half) {
	s := r.s
	if !h.told() || !h.in.observed || h.in.staged {
		return
	}
	for _, t := range r.transfers {
		if t.rcv != h || !t.ok || t.dummy || t.pool != "kv" || t.umbrella || t.chunk {
			continue
		}
		p := h.in.pool("kv")
		region, id := p.spec.Regions[0], t.dst[0]
		e := extent{to: region.Base + uint64(id)*region.Stride, bytes: min(region.Bytes, 64)}
		if p.pages[id].unknown || !p.pages[id].free() {
			continue
		}
		t.fromAddr, t.noFrom = false, false
		if s.strikes("write_after_release/free") {
			room := r.room
			if h.in.targeted[pageRef{p, id}] > 1 && !t.xferOnByte {
				room = "" // it looks like one of the last transfer that named the page
			}
			s.want(h.in, "", room, p.name, id)
			p.pages[id].readyAt = max(p.pages[id].readyAt, s.now+ms)
			s.spawn(s.now+2*hop, func(*proc) { t.see(e, lifecycle.OK) })
			return
		}
		if s.xferUnique && s.arms("write_after_release/reassigned") {
			r.lateOnto(t, e, p, id)
			return
		}
	}
}

// lateOnto waits until the page has a new holder.
func (r *request) lateOnto(t *transfer, e extent, p *pool, id uint32) {
	s := r.s
	t.xferOnByte = true
	ref := pageRef{p, id}
	since := t.rcv.in.targeted[ref]
	s.spawn(s.now+ms, func(q *proc) {
		for range 60 {
			if t.rcv.in.targeted[ref] > since+1 {
				return // a judge remembers but the last few transfers of a page
			}
			if len(p.pages[id].holders) == 1 && t.rcv.alive() && s.strikes("write_after_release/reassigned") {
				t.see(e, lifecycle.OK)
				s.want(t.rcv.in, "", r.room, p.name, id)
				return
			}
			q.sleep(ms)
		}
	})
}

// strays writes bytes where no transfer of that peer ever wrote.
func (t *transfer) strays() {
	h, s := t.rcv, t.r.s
	if !s.arms("foreign_page/bytes") || !h.told() || h.in.staged || !s.Mix.oneShot() {
		return
	}
	p := h.in.pool("kv")
	for id := range p.pages {
		pg := &p.pages[id]
		if len(pg.holders) == 1 && pg.holders[0].r != t.r && !pg.unknown && h.in.targeted[pageRef{p, uint32(id)}] == 0 && s.strikes("foreign_page/bytes") {
			region := p.spec.Regions[0]
			x := *t
			x.xferOnByte, x.fromAddr, x.noFrom = false, false, false
			x.see(extent{to: region.Base + uint64(id)*region.Stride, bytes: region.Bytes}, lifecycle.OK)
			s.want(h.in, "", "", p.name, uint32(id))
			return
		}
	}
}

func (m Mix) oneShot() bool { return m.Restarts == 0 }

// hurries gives pages back while a transfer still names them.
func (r *request) hurries() {
	s := r.s
	for _, t := range r.transfers {
		if t.over || t.dummy || t.umbrella || t.chunk || r.synthetic || r.blurred {
			continue
		}
		for _, side := range []struct {
			h     *half
			fault string
			named bool
			pages []uint32
		}{{t.rcv, "early_release/target", t.named, t.dst}, {t.snd, "early_release/source", t.sent, t.src}} {
			p := side.h.in.pool(t.pool)
			if !side.named || !side.h.told() || !r.otherTold(t, side.h) || len(side.pages) == 0 || !side.h.aloneOn(p, side.pages) || !s.strikes(side.fault) {
				continue
			}
			s.want(side.h.in, "", r.room, t.pool, side.pages...)
			side.h.releaseAll()
			r.hurried = true
			r.p.sleep(2 * hop)
			return
		}
	}
}

// otherTold reports whether the transfer's other side can still be heard.
func (r *request) otherTold(t *transfer, h *half) bool {
	return t.rcv.alive() && t.snd.alive()
}

func (h *half) aloneOn(p *pool, pages []uint32) bool {
	return !slices.ContainsFunc(pages, func(id uint32) bool {
		pg := &p.pages[id]
		return len(pg.holders) != 1 || pg.cached || pg.unknown
	})
}

// overstates makes the two halves of a room say different prompts.
func (h *half) overstates(f *lifecycle.Fact) {
	r := h.r
	if !r.s.arms("claim_mismatch/prompt") || r.refusing || r.blurred || !slices.Contains(r.senders, h) || !h.told() || !r.receivers[0].told() {
		return
	}
	if r.s.strikes("claim_mismatch/prompt") {
		r.spare()
		f.PromptTokens = lifecycle.Some(r.prompt + 1)
		r.s.want(h.in, "", r.room, "")
		r.s.Strike.Want.Inst = ""
	}
}
