package sim

import (
	"fmt"
	"math"
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// request is one request with its halves on the instances that serve it.
type request struct {
	s         *Sim
	p         *proc
	id        string
	room      string
	domain    lifecycle.Opt[string]
	topic     int
	looksUp   bool
	prompt    int64
	answer    int // tokens
	synthetic bool
	senders   []*half
	receivers []*half
	transfers []*transfer
	doom      int64 // when it is aborted, 0: never
	calm      bool  // it cannot be interrupted any more
	blurred   bool  // something about it was not seen
	pairs     []pair
	left      map[*half]int // completions that a receiver still waits for
	noLast    bool
	stood     bool // it has waited long once: twice would be a stall
	prepared  bool
	delivered bool // every receiver has read
	fake      bool // a warm-up whose transfers carry nothing
	refusing  bool // one side rejects it
	hurried   bool // it gave pages back too early, by a fault
	settled   bool // it was rejected, and is over
}

// maxPages is the longest prompt, in pages.
const maxPages = 10

// warmUpRest lies between two warm-ups: a server warms itself up once, when it
// starts, so that two never overlap in the room that they share.
const warmUpRest = 60 * ms

func (s *Sim) admitSomewhere(n int) {
	r := &request{s: s, id: fmt.Sprintf("q%d", n), topic: s.upTo(1), answer: s.upTo(12)}
	if s.chance(s.Mix.Domains) {
		r.domain = lifecycle.Some(pick(s, []string{"", "d1", "d2"}))
	}
	r.looksUp = s.chance(s.Mix.Prefix)
	r.prompt = s.between(1, min(maxPages*s.layout.pageTokens, s.layout.context))
	if s.chance(s.Mix.Abort) {
		r.doom = s.now + s.between(0, pick(s, []int64{ms, 60 * ms, 60 * ms, 60 * ms}))
	}
	if s.now >= s.warmAt && s.chance(s.Mix.Synthetic) {
		r.synthetic, s.warmAt, r.looksUp = true, math.MaxInt64, false
		r.fake = s.chance(s.Mix.Fake)
		s.hard(13, "a synthetic warm-up")
	}
	live := r.livesHere
	if s.Mix.Unified == 0 || s.Mix.Decodes > 0 && s.chance(0.7) {
		live = r.livesApart
		r.room = "r" + r.id
	}
	if r.synthetic {
		r.room = "0"
	}
	s.alive = append(s.alive, r)
	s.spawn(s.now+1, func(p *proc) {
		r.p, p.r, s.acting = p, r, r
		live()
		if r.synthetic {
			s.warmAt = s.now + warmUpRest
		}
		s.alive = slices.DeleteFunc(s.alive, func(other *request) bool { return other == r })
		s.live--
	})
}

func (r *request) halves() []*half { return append(slices.Clone(r.receivers), r.senders...) }

func (r *request) touches(in *instance) bool {
	return slices.ContainsFunc(r.halves(), func(h *half) bool { return h.in == in })
}

// interrupt is what ends a request's plan in the middle.
type interrupt struct{ why ending }

type ending uint8

const (
	done ending = iota
	doomed
	wrecked
	crowded
)

// wait lets time pass, in which the request may be aborted or an instance of
// it restarts: that ends the plan.
func (r *request) wait(d int64) {
	r.p.sleep(d)
	if r.calm {
		return
	}
	for _, h := range r.halves() {
		if !h.alive() {
			panic(interrupt{wrecked})
		}
	}
	if r.doom != 0 && r.s.now >= r.doom {
		panic(interrupt{doomed})
	}
}

// follow runs a plan up to its end or an interrupt.
func (r *request) follow(plan func()) (end ending) {
	defer func() {
		if v := recover(); v != nil {
			it, expected := v.(interrupt)
			if !expected {
				panic(v)
			}
			end, r.calm = it.why, true
		}
	}()
	plan()
	r.calm = true
	return done
}

// must reserves, waiting for others to give pages back; a request that waits
// too long gives up.
func (r *request) must(h *half, p *pool, n int) {
	for range 40 {
		if !h.alive() {
			panic(interrupt{wrecked})
		}
		if h.reserve(p, n) {
			return
		}
		r.wait(r.s.between(ms, 5*ms))
	}
	panic(interrupt{crowded})
}

// fillable waits until the half's pages may be written.
func (r *request) fillable(h *half) {
	if d := h.readyAt - r.s.now; d > 0 {
		r.wait(d)
	}
}

func (r *request) soon() { r.wait(r.s.between(50*µs, 3*ms)) }

// livesHere is the life of a request that one instance serves alone.
func (r *request) livesHere() {
	s := r.s
	h := r.half(pick(s, s.workers(both, s.upTo(s.Mix.Unified-1))), r.id)
	r.receivers = []*half{h}
	if s.chance(s.Mix.Reject) {
		h.admit()
		h.reject()
		h.ended = true
		s.hard(6, "rejected at admission, unified")
		return
	}
	end := r.follow(func() {
		r.prefill(h)
		if s.chance(s.Mix.Fork) {
			r.fork(h)
		}
		r.decode(h)
	})
	r.endHere(h, end)
	r.expectHere(h)
}

func (r *request) endHere(h *half, end ending) {
	s := r.s
	h.in.together(func() {
		switch end {
		case done:
			h.finish(200, pick(s, []lifecycle.Finish{lifecycle.FinishStop, lifecycle.FinishLength, lifecycle.FinishNone}))
			h.keep()
		case doomed:
			h.abort("client gone")
			s.hard(6, "aborted, unified")
		default:
			h.finish(503, lifecycle.FinishError)
		}
		h.leave()
	})
}

// prefill computes the whole prompt on one instance, chunk by chunk.
func (r *request) prefill(h *half) {
	s, kv := r.s, h.in.pool("kv")
	r.enter(h)
	need := kv.pagesOf(r.prompt) - len(h.held[kv])
	for need > 0 {
		n := need
		if s.chance(s.Mix.Chunked) {
			n = 1 + s.upTo(need-1)
		}
		need -= n
		r.must(h, kv, n)
		r.fillable(h)
		r.forward(h, kv, n)
		r.soon()
	}
	for _, p := range h.in.pools {
		if n := p.owed(r.prompt); p.name != "kv" && n > 0 {
			r.must(h, p, n)
			r.fillable(h)
			r.forward(h, p, n)
		}
	}
}

// enter admits the request and takes what the prefix cache has of it.
func (r *request) enter(h *half) {
	var e *entry
	if r.looksUp {
		e = h.in.lookUp(r)
	}
	crossed := h.crosses(e)
	begin := func() {
		if crossed == nil {
			h.admit()
			return
		}
		h.prefix = int64(len(crossed.pages)) * r.s.layout.pageTokens
		h.admit()
		h.share(crossed)
	}
	if crossed != e {
		begin() // in order: who shares before its domain is known crosses none
		return
	}
	h.in.together(begin)
}

// owed is the pages of a pool other than host that a prompt needs in the end.
func (p *pool) owed(prompt int64) int {
	switch {
	case p.name == "host":
		return 0
	case p.name == "aux" || p.spec.Owes == lifecycle.OwesState:
		return 1
	case p.spec.Owes == lifecycle.OwesWindow:
		return p.pagesOf(prompt) - int(max(0, prompt-p.spec.Window)/p.spec.PageTokens)
	}
	return p.pagesOf(prompt)
}

// forward computes the last n pages that the half holds, and reads.
func (r *request) forward(h *half, p *pool, n int) {
	held := h.held[p]
	fresh := slices.Clone(held[len(held)-n:])
	r.readsUnwritten(h, p, fresh)
	fresh = r.skipsWrite(h, p, fresh)
	h.in.together(func() {
		if h.in.steps && r.s.chance(0.3) && h.alive() {
			for _, id := range fresh {
				p.pages[id].written = true
			}
			if f, some := h.reading(p); some {
				h.say(f)
				r.s.hard(9, "a read reported before the write of its step")
			}
			h.write(p, fresh, lifecycle.ByForward, 0)
			return
		}
		h.write(p, fresh, lifecycle.ByForward, 0)
		h.readAll()
	})
}

// decode makes the answer, one token a step.
func (r *request) decode(h *half) {
	s, kv := r.s, h.in.pool("kv")
	for i := range r.answer {
		r.soon()
		r.standsStill(h)
		if s.chance(s.Mix.Preempt) {
			r.preempt(h)
		}
		if s.chance(s.Mix.Copies) {
			r.copyOnWrite(h)
		}
		tokens := r.prompt + int64(i) + 1
		if more := kv.pagesOf(tokens) - len(h.held[kv]); more > 0 {
			r.must(h, kv, more)
			r.fillable(h)
		}
		last := h.held[kv][kv.pagesOf(tokens)-1]
		if h.shared[last] {
			continue
		}
		h.in.together(func() {
			h.write(kv, []uint32{last}, lifecycle.ByForward, 1+(tokens-1)%kv.spec.PageTokens)
			h.readAll()
		})
		if !r.stood && s.stalls() {
			r.stood = true
			r.wait(s.between(20e9, 25e9))
		}
	}
}

// stalls makes a request wait long, but not too long, with its pages.
func (s *Sim) stalls() bool { return s.chance(0.0005) }

// preempt takes all pages from a request that later goes on, computed anew
// or brought back from the host.
func (r *request) preempt(h *half) {
	s, kv, host := r.s, h.in.pool("kv"), h.in.pool("host")
	n := len(h.held[kv])
	if h.in.pool("swa") != nil || h.in.pool("state") != nil || n == 0 {
		return
	}
	offload := host != nil && s.chance(s.Mix.Offload) && h.reserve(host, n)
	if offload {
		r.fillable(h)
		h.in.copy(kv, h.held[kv], host, h.held[host])
		s.hard(1, "a preempted request offloaded")
	}
	h.release(kv, slices.Clone(h.held[kv]))
	s.hard(6, "preempted and entered again")
	r.wait(s.between(ms, 15*ms))
	r.must(h, kv, n)
	r.fillable(h)
	if !offload {
		h.write(kv, h.held[kv], lifecycle.ByForward, 0)
		return
	}
	if s.chance(0.5) || !h.in.written {
		h.in.copy(host, h.held[host], kv, h.held[kv])
	} else {
		h.write(kv, h.held[kv], lifecycle.ByReload, 0)
	}
	h.release(host, slices.Clone(h.held[host]))
}

// copyOnWrite replaces the last page by a copy of it.
func (r *request) copyOnWrite(h *half) {
	kv := h.in.pool("kv")
	n := len(h.held[kv])
	if n == 0 || !h.alive() || !kv.pages[h.held[kv][n-1]].written || r.listening(h) {
		return
	}
	free := kv.freeNow(1)
	if free == nil {
		return
	}
	old := h.held[kv][n-1]
	h.take(kv, free)
	h.say(lifecycle.Fact{Ev: lifecycle.PagesReserved, Pool: kv.name, Pages: runs(free), Req: h.req})
	h.in.copy(kv, []uint32{old}, kv, free)
	h.release(kv, []uint32{old})
	r.s.hard(13, "a page copied before it is written on")
}

// listening reports whether a transfer still names pages of the half.
func (r *request) listening(h *half) bool {
	return slices.ContainsFunc(r.transfers, func(t *transfer) bool { return !t.over && (t.rcv == h || t.snd == h) })
}

// fork begins a second answer to the same prompt, on the pages of the first.
func (r *request) fork(h *half) {
	s, kv := r.s, h.in.pool("kv")
	if h.in.pool("swa") != nil || h.in.pool("state") != nil {
		return
	}
	full := slices.Clone(h.held[kv][:r.prompt/kv.spec.PageTokens])
	if len(full) == 0 || !h.alive() {
		return
	}
	child := r.half(h.in, h.req+".1")
	child.prefix = int64(len(full)) * kv.spec.PageTokens
	child.admit()
	child.join(kv, full)
	child.say(lifecycle.Fact{Ev: lifecycle.PagesShared, Req: child.req, Pool: kv.name, Pages: runs(full)})
	s.hard(13, "a page shared that another request holds")
	if child.reserve(kv, 1) {
		if d := child.readyAt - s.now; d > 0 {
			r.p.sleep(d)
		}
		child.write(kv, child.held[kv][len(full):], lifecycle.ByForward, 1)
		child.readAll()
	}
	child.finish(200, lifecycle.FinishStop)
	child.leave()
}
