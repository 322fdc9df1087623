package publish

import (
	"strconv"

	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// tellPages makes the facts of a pool's event.
func (e *encoder) tellPages(ev *event) {
	pb, runs := e.b.pools[ev.pool.index], e.list(ev.runs)
	f := e.begin(lifecycle.PagesReserved)
	f.Pool = ev.pool.name
	if ev.kind == poolAudit {
		e.tellAudit(pb, ev)
		return
	}
	if !pb.fits(runs) || !pb.fits(e.list(ev.to)) {
		e.lose(1)
		return
	}
	if ev.kind == pagesEvicted {
		e.tellEvicted(pb, runs)
		return
	}
	r := e.b.request(ev.req)
	f.Req = r.name
	switch ev.kind {
	case pagesReserved:
		e.tellReserved(pb, r, runs)
	case pagesShared:
		e.b.share(pb, r, runs)
		f.Ev, f.Domain = lifecycle.PagesShared, lifecycle.Opt[string]{V: ev.name, Has: ev.has}
		e.tellKeyed(runs, e.keys(ev), func(uint32, kvcache.Key) {})
	case pagesWritten:
		e.b.fill(pb, runs, ev.by)
		f.Ev, f.By, f.Room, f.Tokens = lifecycle.PagesWritten, byOf(ev.by), r.roomName, lifecycle.Some(ev.n[0])
		e.eachChunk(runs, func(part lifecycle.Runs) { f.Pages = part })
	case pagesRead:
		f.Ev = lifecycle.PagesRead
		e.eachChunk(runs, func(part lifecycle.Runs) { f.Pages = part })
	case pagesCopied:
		to := e.list(ev.to)
		e.b.copied(pb, runs, to)
		f.Ev, f.Req = lifecycle.PagesCopied, ""
		f.CopyFrom, f.CopyTo = lifecycle.PageRef{Pool: f.Pool, Pages: runs}, lifecycle.PageRef{Pool: f.Pool, Pages: to}
		e.say()
	case pagesCached:
		domain := lifecycle.Opt[string]{V: ev.name, Has: ev.has}
		f.Ev, f.Domain = lifecycle.PagesCached, domain
		e.tellKeyed(runs, e.keys(ev), func(at uint32, key kvcache.Key) { e.b.cache(&pb.pages[at], key, domain) })
	case pagesReleased:
		e.tellReleased(pb, r, runs)
	}
	e.b.settle(r)
}

func (e *encoder) keys(ev *event) []kvcache.Key {
	return e.half.keys[ev.keys.at : ev.keys.at+ev.keys.n]
}

// tellReserved says a hand-out. What still waited for a drain is handed out too
// early, so that its release is said first.
func (e *encoder) tellReserved(pb *poolBook, r *reqBook, runs []lifecycle.Run) {
	if len(pb.waiting)+pb.evictions > 0 {
		kept := e.f
		for _, run := range runs {
			for at := run.First; at < run.End(); at++ {
				if pb.pages[at].marks&(releaseWaits|evictionWaits) != 0 {
					e.waits = append(e.waits, lifecycle.Run{First: at, Count: 1})
				}
			}
		}
		e.letGoPages(pb)
		e.f = kept
	}
	e.b.reserve(pb, r, runs)
	e.f.Room = r.roomName
	e.eachChunk(runs, func(part lifecycle.Runs) { e.f.Pages = part })
}

// tellKeyed says the fact in hand once for each stretch of pages with one key.
func (e *encoder) tellKeyed(runs []lifecycle.Run, keys []kvcache.Key, each func(at uint32, key kvcache.Key)) {
	next := pageAfterPage(runs)
	e.runs = e.runs[:0]
	var last kvcache.Key
	flush := func() {
		if len(e.runs) > 0 {
			e.f.Pages, e.f.Key = e.runs, keyName(last)
			e.say()
			e.runs = e.runs[:0]
		}
	}
	for i := 0; ; i++ {
		at, more := next()
		if !more {
			break
		}
		var key kvcache.Key
		if i < len(keys) {
			key = keys[i]
		}
		if key != last || len(e.runs) >= lifecycle.MaxRuns {
			flush()
		}
		each(at, key)
		e.runs, last = lifecycle.Runs(e.runs).Append(at), key
	}
	flush()
}

// tellReleased says the end of references, but for pages that a transfer still
// names: those wait until the scheduler has said whether the pool waits too.
func (e *encoder) tellReleased(pb *poolBook, r *reqBook, runs []lifecycle.Run) {
	e.runs = e.runs[:0]
	var waits []lifecycle.Run
	for _, run := range runs {
		for at := run.First; at < run.End(); at++ {
			if e.b.release(pb, r, at) {
				waits = lifecycle.Runs(waits).Append(at)
			} else {
				e.runs = lifecycle.Runs(e.runs).Append(at)
			}
		}
	}
	if len(waits) > 0 {
		e.undecided = append(e.undecided, undecided{pb, r.party, waits})
	}
	if len(e.runs) > 0 {
		e.f.Ev = lifecycle.PagesReleased
		e.eachChunk(e.runs, func(part lifecycle.Runs) { e.f.Pages = part })
	}
}

func (e *encoder) tellEvicted(pb *poolBook, runs []lifecycle.Run) {
	e.runs = e.runs[:0]
	for _, run := range runs {
		for at := run.First; at < run.End(); at++ {
			if !e.b.evict(pb, &pb.pages[at]) {
				e.runs = lifecycle.Runs(e.runs).Append(at)
			}
		}
	}
	if len(e.runs) > 0 {
		e.f.Ev = lifecycle.PagesEvicted
		e.eachChunk(e.runs, func(part lifecycle.Runs) { e.f.Pages = part })
	}
}

// tellAudit says the pool's count in the terms of the facts: what waits for a
// drain is still held, or cached, as long as its release is not said.
func (e *encoder) tellAudit(pb *poolBook, ev *event) {
	held, evicted := int64(len(pb.waiting)), int64(pb.evictions)
	e.audit = lifecycle.Audit{
		Free: ev.n[0], Cached: ev.n[1] + evicted, Held: ev.n[2] + held, PendingDrain: max(ev.n[3]-held-evicted, 0),
	}
	e.f.Ev, e.f.Audit = lifecycle.PoolAudit, &e.audit
	e.say()
}

// decideNow says the releases of the event before: the pool did not wait.
func (e *encoder) decideNow() {
	list := e.undecided
	e.undecided = e.undecided[:0]
	for _, u := range list {
		e.waits = append(e.waits[:0], u.pages...)
		e.letGoPages(u.pb)
	}
}

// letGoAll says the end of every reference that waits.
func (e *encoder) letGoAll(pb *poolBook) {
	if len(pb.waiting)+pb.evictions == 0 {
		return
	}
	for at := range pb.pages {
		if pb.pages[at].marks&(releaseWaits|evictionWaits) != 0 {
			e.waits = lifecycle.Runs(e.waits).Append(uint32(at))
		}
	}
	e.letGoPages(pb)
}

// letGoPages ends the references that wait on the pages of e.waits: one fact for
// each stretch of one request's, and one for the cache's.
func (e *encoder) letGoPages(pb *poolBook) {
	var evicted lifecycle.Runs
	var who *party
	e.runs = e.runs[:0]
	flush := func() {
		if len(e.runs) > 0 {
			f := e.begin(lifecycle.PagesReleased)
			f.Pool, f.Req = pb.pool.name, who.name
			e.eachChunk(e.runs, func(part lifecycle.Runs) { f.Pages = part })
			e.runs = e.runs[:0]
		}
	}
	for _, run := range e.waits {
		for at := run.First; at < run.End(); at++ {
			p := &pb.pages[at]
			if p.marks&evictionWaits != 0 {
				p.marks &^= evictionWaits
				pb.evictions--
				evicted = evicted.Append(at)
			}
			if p.marks&releaseWaits != 0 {
				p.marks &^= releaseWaits
				if by := pb.waiting[at]; by != who {
					flush()
					who = by
				}
				delete(pb.waiting, at)
				e.runs = lifecycle.Runs(e.runs).Append(at)
			}
		}
	}
	e.waits = e.waits[:0]
	flush()
	if len(evicted) > 0 {
		f := e.begin(lifecycle.PagesEvicted)
		f.Pool = pb.pool.name
		e.eachChunk(evicted, func(part lifecycle.Runs) { f.Pages = part })
	}
}

func byOf(w kvcache.Writer) lifecycle.By {
	if w == kvcache.ByTransfer {
		return lifecycle.ByTransfer
	}
	return lifecycle.ByForward
}

// keyName is how a key stands in facts; the zero key is none.
func keyName(k kvcache.Key) string {
	if k == 0 {
		return ""
	}
	const width = 16
	text := strconv.FormatUint(uint64(k), 16)
	return "0000000000000000"[:width-len(text)] + text
}
