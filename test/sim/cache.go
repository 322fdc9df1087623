package sim

import (
	"fmt"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// entry is one prefix in an instance's cache: pages of kv, or of host memory
// after an offload.
type entry struct {
	key    string
	domain lifecycle.Opt[string]
	pages  []uint32
	host   bool
	keyed  bool // its pages' key has been said
}

func (e *entry) pool(in *instance) *pool {
	if e.host {
		return in.pool("host")
	}
	return in.pool("kv")
}

func prefixKey(topic int, domain lifecycle.Opt[string]) string {
	return fmt.Sprintf("k%d.%s", topic, domain.V)
}

// lookUp finds a prefix that the request may share: of its own domain, or of
// the empty one; it is brought back from the host where it lies there.
func (in *instance) lookUp(r *request) *entry {
	for _, e := range in.cache {
		own := e.key == prefixKey(r.topic, r.domain) && e.domain == r.domain
		common := e.key == prefixKey(r.topic, lifecycle.Some("")) && e.domain == lifecycle.Some("")
		if (own || common) && int64(len(e.pages))*in.s.layout.pageTokens < r.prompt {
			if e.host && !in.reload(e) {
				return nil
			}
			if !own {
				in.s.hard(13, "a page of the empty domain shared")
			}
			return e
		}
	}
	return nil
}

// share gives the half a reference on a cached prefix.
func (h *half) share(e *entry) {
	p := e.pool(h.in)
	h.join(p, e.pages)
	f := lifecycle.Fact{Ev: lifecycle.PagesShared, Req: h.req, Pool: p.name, Pages: runs(e.pages)}
	if h.in.s.chance(0.8) {
		f.Key = e.key
	}
	if h.r.domain.Has && h.in.s.chance(0.5) {
		f.Domain = h.r.domain
	}
	h.mistakes(e, &f)
	h.say(f)
}

// keep leaves the half's prefix in the cache.
func (h *half) keep() {
	s, p := h.in.s, h.in.pool("kv")
	full := int(h.r.prompt / p.spec.PageTokens)
	if !h.alive() || !h.r.looksUp || len(h.shared) > 0 || full == 0 || len(h.held[p]) < full {
		return
	}
	key := prefixKey(h.r.topic, h.r.domain)
	for _, e := range h.in.cache {
		if e.key == key {
			return
		}
	}
	n := 1 + s.upTo(full-1)
	e := &entry{key: key, domain: h.r.domain, pages: append([]uint32(nil), h.held[p][:n]...)}
	for _, id := range e.pages {
		if !p.pages[id].written || p.pages[id].cached { // as another prefix
			return
		}
	}
	if s.chance(s.Mix.Offload) { // before the room is needed
		h.in.offloadOne()
	}
	for _, id := range e.pages {
		p.pages[id].cached = true
	}
	e.keyed = true
	h.in.cache = append(h.in.cache, e)
	f := lifecycle.Fact{Ev: lifecycle.PagesCached, Pool: p.name, Pages: runs(e.pages), Req: h.req, Key: key}
	if h.r.domain.Has && s.chance(0.5) {
		f.Domain = h.r.domain
	}
	s.hard(13, "a cached page that no request holds")
	h.say(f)
}

// offloadOne moves the oldest prefix that no transfer names to host memory.
func (in *instance) offloadOne() {
	for _, e := range in.cache {
		if !e.host && !in.busy(e) {
			in.offload(e)
			return
		}
	}
}

// evict gives up the oldest prefix that no transfer names, or offloads it.
func (in *instance) evict() bool {
	for i, e := range in.cache {
		if e.host || in.busy(e) {
			continue
		}
		if in.s.chance(in.s.Mix.Offload) && in.offload(e) {
			return true
		}
		in.cache = append(in.cache[:i:i], in.cache[i+1:]...)
		in.drop(e)
		return true
	}
	return false
}

func (in *instance) busy(e *entry) bool {
	p := e.pool(in)
	for _, id := range e.pages {
		if p.pages[id].busy > 0 {
			return true
		}
	}
	return false
}

// drop ends the cache's reference.
func (in *instance) drop(e *entry) {
	p := e.pool(in)
	for _, id := range e.pages {
		p.pages[id].cached = false
	}
	in.say(lifecycle.Fact{Ev: lifecycle.PagesEvicted, Pool: p.name, Pages: runs(e.pages)})
}

// offload moves a prefix to host memory.
func (in *instance) offload(e *entry) bool {
	from, to := in.pool("kv"), in.pool("host")
	if to == nil {
		return false
	}
	free := to.freeNow(len(e.pages))
	if free == nil {
		return false
	}
	in.reserveForCache(to, free)
	in.copy(from, e.pages, to, free)
	in.drop(e)
	e.pages, e.host = free, true
	in.s.hard(1, "pages offloaded by copy")
	return true
}

// reload brings a prefix back, by a reload that no request holds.
func (in *instance) reload(e *entry) bool {
	from, to := in.pool("host"), in.pool("kv")
	free := to.freeNow(len(e.pages))
	if free == nil {
		return false
	}
	in.reserveForCache(to, free)
	if e.keyed = in.s.chance(0.8); !e.keyed {
		in.copy(from, e.pages, to, free)
	} else {
		for _, id := range free {
			to.pages[id].written, to.pages[id].local = true, true
		}
		if in.written {
			in.say(lifecycle.Fact{Ev: lifecycle.PagesWritten, Pool: to.name, Pages: runs(free), By: lifecycle.ByReload})
		}
		in.say(lifecycle.Fact{Ev: lifecycle.PagesCached, Pool: to.name, Pages: runs(free), Domain: e.domain, Key: e.key})
		in.s.hard(1, "pages reloaded with holder cache")
	}
	in.drop(e)
	e.pages, e.host = free, false
	return true
}

// freeNow finds pages that may be filled at once, without eviction.
func (p *pool) freeNow(n int) []uint32 {
	var free []uint32
	for i := range p.pages {
		if len(free) < n && p.pages[i].free() && p.pages[i].readyAt <= p.in.s.now {
			free = append(free, uint32(i))
		}
	}
	if len(free) < n {
		return nil
	}
	return free
}

func (in *instance) reserveForCache(p *pool, pages []uint32) {
	for _, id := range pages {
		p.pages[id] = page{cached: true}
	}
	in.say(lifecycle.Fact{Ev: lifecycle.PagesReserved, Pool: p.name, Pages: runs(pages), Holder: "cache"})
}

// copy says that pages were copied one by one.
func (in *instance) copy(from *pool, src []uint32, to *pool, dst []uint32) {
	for i, id := range dst {
		to.pages[id].written, to.pages[id].local = from.pages[src[i]].written, true
		to.pages[id].unknown = from.pages[src[i]].unknown
	}
	f := lifecycle.Fact{Ev: lifecycle.PagesCopied, Pool: to.name}
	f.CopyFrom = lifecycle.PageRef{Pool: from.name, Pages: runs(src)}
	f.CopyTo = lifecycle.PageRef{Pool: to.name, Pages: runs(dst)}
	in.say(f)
}
