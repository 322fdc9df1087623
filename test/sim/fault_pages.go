package sim

import (
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// readFaults breaks the rules of reading, beside what the half reads.
func (h *half) readFaults() {
	s := h.in.s
	if s.Strike == nil || !h.in.engine || !h.alive() || h.in.muted || h.r.synthetic {
		return
	}
	kv := h.in.pool("kv")
	read := func(pages ...uint32) {
		f := lifecycle.Fact{Ev: lifecycle.PagesRead, Req: h.req, Pool: kv.name, Pages: runs(pages)}
		if h.in.steps {
			f.Step = lifecycle.Some(h.in.step() - 1) // a write of this step does not excuse it
		}
		h.say(f)
		s.want(h.in, h.req, "", kv.name, pages...)
	}
	if s.arms("foreign_page/reader") {
		if id, some := h.others(kv, func(*page) bool { return true }); some && s.strikes("foreign_page/reader") {
			read(id)
		}
	}
	if s.arms("stale_read/attention") && h.in.written {
		for _, id := range h.held[kv] {
			if pg := &kv.pages[id]; !pg.written && pg.busy == 0 && !pg.unknown && s.strikes("stale_read/attention") {
				read(id)
			}
		}
	}
	if s.arms("foreign_page/writer") {
		if id, some := h.others(kv, func(pg *page) bool { return !pg.cached }); some && s.strikes("foreign_page/writer") {
			h.say(lifecycle.Fact{Ev: lifecycle.PagesWritten, Req: h.req, Pool: kv.name, Pages: runs([]uint32{id}), By: lifecycle.ByForward})
			s.want(h.in, h.req, "", kv.name, id)
		}
	}
}

// readsUnwritten reads a page a step before it is written.
func (r *request) readsUnwritten(h *half, p *pool, fresh []uint32) {
	s := r.s
	if !s.arms("stale_read/attention") || !h.in.written || !h.in.engine || len(fresh) == 0 || !h.alive() || h.in.muted {
		return
	}
	if !s.strikes("stale_read/attention") {
		return
	}
	r.spare()
	h.say(lifecycle.Fact{Ev: lifecycle.PagesRead, Req: h.req, Pool: p.name, Pages: runs(fresh)})
	s.want(h.in, h.req, "", p.name, fresh...)
	r.wait(2 * stepTime)
}

// skipsWrite is the page of a sender's prompt that is never written, though
// it is sent.
func (r *request) skipsWrite(h *half, p *pool, fresh []uint32) []uint32 {
	s := r.s
	if !s.arms("stale_read/source") || !slices.Contains(r.senders, h) || !h.in.written || r.refusing || r.looksUp || p.name != "kv" || h.in.muted {
		return fresh
	}
	if !s.strikes("stale_read/source") {
		return fresh
	}
	r.spare()
	s.want(h.in, "", r.room, p.name, fresh[0])
	return fresh[1:]
}

// releaseFaults uses pages after the half has given them back.
func (h *half) releaseFaults(p *pool, pages []uint32) {
	s := h.in.s
	if s.Strike == nil || !h.in.engine || !h.alive() || h.in.muted || s.batch != nil || p.name == "host" {
		return
	}
	known := !slices.ContainsFunc(pages, func(id uint32) bool { return p.pages[id].unknown })
	again := func() {
		h.say(lifecycle.Fact{Ev: lifecycle.PagesReleased, Req: h.req, Pool: p.name, Pages: runs(pages)})
	}
	if known && s.strikes("double_release/again") {
		s.want(h.in, h.req, "", p.name, pages...)
		again()
	}
	if known && !slices.ContainsFunc(pages, func(id uint32) bool { return p.pages[id].cached }) && s.strikes("double_release/evicted") {
		s.want(h.in, "", "", p.name, pages...)
		h.in.say(lifecycle.Fact{Ev: lifecycle.PagesEvicted, Pool: p.name, Pages: runs(pages)})
	}
	over := !slices.ContainsFunc(pages, func(id uint32) bool { return !p.pages[id].free() })
	if known && over && h.leaving && s.strikes("write_after_release/claimed") {
		s.want(h.in, h.req, "", p.name, pages...)
		for _, id := range pages {
			p.pages[id].readyAt = s.now + 3*stepTime // nobody else fills it before
		}
		s.spawn(s.now+2*stepTime, func(*proc) {
			h.say(lifecycle.Fact{Ev: lifecycle.PagesWritten, Req: h.req, Pool: p.name, Pages: runs(pages), By: lifecycle.ByForward})
		})
	}
	if known && h.leaving && s.strikes("foreign_page/freed") {
		s.want(h.in, h.req, "", p.name, pages...)
		read := func() {
			h.say(lifecycle.Fact{Ev: lifecycle.PagesRead, Req: h.req, Pool: p.name, Pages: runs(pages)})
		}
		if !h.in.steps {
			read()
			return
		}
		s.spawn(s.now+2*stepTime, func(*proc) { read() })
	}
}

// reserveFaults hands a page out while another request holds it, and takes
// it back at once.
func (h *half) reserveFaults(p *pool) {
	s := h.in.s
	if !s.arms("double_hold/reserved") || !h.in.engine || h.in.muted || s.batch != nil {
		return
	}
	if id, some := h.others(p, func(*page) bool { return true }); some && s.strikes("double_hold/reserved") {
		s.want(h.in, h.req, "", p.name, id)
		f := lifecycle.Fact{Ev: lifecycle.PagesReserved, Req: h.req, Pool: p.name, Pages: runs([]uint32{id})}
		h.say(f)
		f.Ev = lifecycle.PagesReleased
		h.say(f)
	}
}

// crosses shares the prefix of another domain.
func (h *half) crosses(e *entry) *entry {
	s := h.in.s
	if !s.arms("tenant_crossing/shared") || !h.in.engine || h.in.muted || !h.r.domain.Has {
		return e
	}
	for _, other := range h.in.cache {
		if other.host || !other.domain.Has || other.domain.V == "" || other.domain == h.r.domain || h.in.dim(other) {
			continue
		}
		if int64(len(other.pages))*s.layout.pageTokens < h.r.prompt && s.strikes("tenant_crossing/shared") {
			s.want(h.in, h.req, "", "kv", other.pages...)
			return other
		}
	}
	return e
}

// dim reports whether what is known of an entry's pages is not all there is.
func (in *instance) dim(e *entry) bool {
	p := e.pool(in)
	return slices.ContainsFunc(e.pages, func(id uint32) bool { return p.pages[id].unknown })
}

// mistakes asks for a prefix under a key that is not its own.
func (h *half) mistakes(e *entry, f *lifecycle.Fact) {
	s := h.in.s
	if e.keyed && h.in.engine && !h.in.muted && !h.in.dim(e) && s.strikes("wrong_block/key") {
		f.Key = "another"
		s.want(h.in, h.req, "", "kv", e.pages...)
	}
}
