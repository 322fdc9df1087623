package sim

import (
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// half is a request's life on one instance. What it does after its instance
// has restarted is nothing.
type half struct {
	r       *request
	in      *instance
	req     string
	epoch   uint64
	prefix  int64              // tokens that were there already
	held    map[*pool][]uint32 // in the order of its tokens
	shared  map[uint32]bool    // pages of kv that it holds by reference
	readyAt int64              // when all its pages may be filled
	aborted bool               // said by this instance
	ended   bool               // finished, aborted or rejected
	lost    map[*instance]bool // peers of which it has said that they are gone
	entered bool               // admitted, on a sender
	leaving bool               // what it gives back it will not take again
	begun   bool               // a transfer was named
	had     map[pageRef]bool   // what it ever held, where a fault is put in
	sawAll  bool               // under complete coverage from its beginning
}

func (r *request) half(in *instance, req string) *half {
	return &half{r: r, in: in, req: req, epoch: in.epoch, held: map[*pool][]uint32{}, shared: map[uint32]bool{}, had: map[pageRef]bool{}, lost: map[*instance]bool{}}
}

func (h *half) alive() bool { return h.epoch == h.in.epoch }

func (h *half) say(f lifecycle.Fact) {
	if h.alive() {
		h.in.say(f)
	}
}

func (h *half) admit() {
	f := lifecycle.Fact{Ev: lifecycle.RequestAdmitted, Req: h.req, Room: h.r.room, Domain: h.r.domain, Synthetic: h.r.synthetic}
	f.PromptTokens = lifecycle.Some(h.r.prompt)
	if h.prefix > 0 || h.in.s.chance(0.5) {
		f.PrefixTokens = lifecycle.Some(h.prefix)
	}
	h.overstates(&f)
	if !h.r.domain.Has {
		h.in.s.hard(10, "a request of unknown domain")
	}
	h.say(f)
}

// reserve takes n more pages of the pool; false where there are too few.
func (h *half) reserve(p *pool, n int) bool {
	if n == 0 || !h.alive() {
		return true
	}
	h.reserveFaults(p)
	pages := p.freePages(n)
	if pages == nil {
		return false
	}
	h.take(p, pages)
	f := lifecycle.Fact{Ev: lifecycle.PagesReserved, Pool: p.name, Pages: runs(pages), Req: h.req}
	if h.r.room != "" && h.in.s.chance(0.3) {
		f.Room = h.r.room
		if h.in.s.chance(0.3) && h.r.room != "0" {
			f.Req = ""
			if h.r.blurred { // the request that is meant may never have been named
				h.blank(p, pages)
			}
		}
	}
	h.say(f)
	return true
}

// take makes the half the holder of a new generation of each page.
func (h *half) take(p *pool, pages []uint32) {
	for _, id := range pages {
		h.readyAt = max(h.readyAt, p.pages[id].readyAt)
		p.pages[id] = page{holders: []*half{h}}
	}
	h.held[p] = append(h.held[p], pages...)
	h.noted(p, pages)
}

// blank makes the pages unknown: whoever reads them need not be clean.
func (h *half) blank(p *pool, pages []uint32) {
	for _, id := range pages {
		p.pages[id].unknown = true
	}
}

// join makes the half another holder of pages.
func (h *half) join(p *pool, pages []uint32) {
	for _, id := range pages {
		p.pages[id].holders = append(p.pages[id].holders, h)
		h.shared[id] = true
		h.readyAt = max(h.readyAt, p.pages[id].readyAt)
		if p.pages[id].unknown {
			h.r.blurred = true
		}
	}
	h.held[p] = append(h.held[p], pages...)
	h.noted(p, pages)
}

// write says that pages of the pool were written on this instance.
func (h *half) write(p *pool, pages []uint32, by lifecycle.By, tokens int64) {
	if len(pages) == 0 || !h.alive() {
		return
	}
	h.mark(p, pages, by)
	f := lifecycle.Fact{Ev: lifecycle.PagesWritten, Pool: p.name, Pages: runs(pages), By: by, Req: h.req}
	if tokens > 0 {
		f.Tokens = lifecycle.Some(tokens)
	}
	s := h.in.s
	if nulls := s.layout.nulls; nulls > 0 && by == lifecycle.ByForward && s.chance(0.2) {
		f.Pages = append(f.Pages, lifecycle.Run{First: 0, Count: 1})
		s.hard(13, "a null page written")
	}
	if s.chance(0.1) && h.r.room != "" {
		f.Room = h.r.room
	}
	if h.in.written {
		h.say(f)
	}
}

func (h *half) mark(p *pool, pages []uint32, by lifecycle.By) {
	for _, id := range pages {
		p.pages[id].written = true
		p.pages[id].local = by != lifecycle.ByTransfer
	}
}

// reading is the fact of one step's attention over all the pages of the pool
// that the half holds and that are written.
func (h *half) reading(p *pool) (lifecycle.Fact, bool) {
	var pages []uint32
	for _, id := range h.held[p] {
		if p.pages[id].written {
			pages = append(pages, id)
		}
	}
	if p.spec.Owes == lifecycle.OwesWindow {
		if keep := 1 + p.pagesOf(p.spec.Window); len(pages) > keep {
			pages = pages[len(pages)-keep:]
		}
	}
	f := lifecycle.Fact{Ev: lifecycle.PagesRead, Req: h.req, Pool: p.name, Pages: runs(pages)}
	if s := h.in.s; s.layout.nulls > 0 && s.chance(0.2) {
		f.Pages = append(f.Pages, lifecycle.Run{First: 0, Count: 1})
		s.hard(13, "a null page read")
	}
	return f, len(pages) > 0
}

// readAll is one step's attention over everything that the half holds.
func (h *half) readAll() {
	h.readFaults()
	for _, p := range h.in.pools {
		if p.name == "host" || len(h.held[p]) == 0 {
			continue
		}
		for _, id := range h.held[p] {
			if p.pages[id].unknown {
				h.r.blurred = true
			}
		}
		if f, some := h.reading(p); some {
			h.say(f)
		}
	}
}

// release ends the half's reference on the pages.
func (h *half) release(p *pool, pages []uint32) {
	if len(pages) == 0 || !h.alive() {
		return
	}
	for _, id := range pages {
		pg := &p.pages[id]
		pg.holders = without(pg.holders, h)
		delete(h.shared, id)
	}
	h.held[p] = without(h.held[p], pages...)
	h.say(lifecycle.Fact{Ev: lifecycle.PagesReleased, Req: h.req, Pool: p.name, Pages: runs(pages)})
	h.releaseFaults(p, pages)
}

// releaseAll gives back all that the half holds, but for pages that a
// transfer still names: those are for the drain to wait for.
func (h *half) releaseAll() {
	for _, p := range h.in.pools {
		h.release(p, slices.Clone(h.held[p]))
	}
}

// leave is the end of the half's work: its last read may be reported after
// the release of the same step.
func (h *half) leave() {
	s := h.in.s
	late := h.in.steps && h.in.engine && s.chance(s.Mix.LateReads) && h.alive()
	step := h.in.step()
	var reads []lifecycle.Fact
	for _, p := range h.in.pools {
		if p.name == "host" || !late {
			continue
		}
		if f, some := h.reading(p); some {
			f.Step = lifecycle.Some(step)
			reads = append(reads, f)
			for _, id := range h.held[p] {
				p.pages[id].readyAt = s.now + 2*stepTime
			}
		}
	}
	h.leaving = true
	h.releaseAll()
	if len(reads) > 0 {
		s.spawn(s.now+s.between(1, stepTime), func(*proc) {
			for _, f := range reads {
				s.hard(9, "a read reported after the release of its step")
				h.say(f)
			}
		})
	}
}

func (h *half) finish(status int64, finish lifecycle.Finish) {
	if !h.ended {
		h.ended = true
		h.say(lifecycle.Fact{Ev: lifecycle.RequestFinished, Req: h.req, Room: h.r.room, HTTPStatus: status, Finish: finish})
	}
}

func (h *half) abort(reason string) {
	if !h.ended {
		h.ended, h.aborted = true, true
		h.say(lifecycle.Fact{Ev: lifecycle.RequestAborted, Req: h.req, Room: h.r.room, Reason: reason})
		h.r.goesOnAborted(h)
	}
}

func (h *half) reject() {
	h.say(lifecycle.Fact{Ev: lifecycle.RequestRejected, Req: h.req, Room: h.r.room, HTTPStatus: 400, Reason: "longer than the pool"})
}

func without[T comparable](list []T, gone ...T) []T {
	return slices.DeleteFunc(slices.Clone(list), func(v T) bool { return slices.Contains(gone, v) })
}
