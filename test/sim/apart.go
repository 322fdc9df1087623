package sim

import (
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// pair is a sender and a receiver that have something to do with each other.
type pair struct {
	rcv, snd *half
	dummy    bool
}

// livesApart is the life of a request of which one worker computes the prompt
// and another the answer.
func (r *request) livesApart() {
	s := r.s
	r.noLast = s.chance(s.Mix.NoLast)
	r.cast()
	end := r.follow(r.handOff)
	if end != done && !r.settled {
		r.unwind(end)
	}
	r.expect(end)
}

// cast chooses the instances and gives each its half.
func (r *request) cast() {
	s := r.s
	apart := s.chance(0.3) // each half has a request id of its own
	id := func(suffix string) string {
		if apart {
			return r.id + suffix
		}
		return r.id
	}
	for _, in := range s.workers(decode, s.upTo(s.Mix.Decodes-1)) {
		r.receivers = append(r.receivers, r.half(in, id(".d")))
	}
	for _, in := range s.workers(prefill, s.upTo(s.Mix.Prefills-1)) {
		r.senders = append(r.senders, r.half(in, id(".p")))
	}
	switch n, m := len(r.receivers), len(r.senders); {
	case n == m:
		for i := range r.receivers {
			r.pairs = append(r.pairs, pair{r.receivers[i], r.senders[i], false})
		}
	default:
		for i := range max(n, m) {
			r.pairs = append(r.pairs, pair{r.receivers[min(i, n-1)], r.senders[min(i, m-1)], s.layout.dummy && i == 1})
		}
	}
	r.left = map[*half]int{}
}

// handOff is the plan of a request that goes well, or is rejected.
func (r *request) handOff() {
	s := r.s
	if r.refusing = !r.synthetic && s.chance(s.Mix.Reject); r.refusing && r.rejected() {
		r.settled = true
		return
	}
	switch {
	case r.prepared:
	case s.pulls && s.chance(0.5):
		r.compute()
		r.prepare()
	default:
		r.prepare()
	}
	r.deliver()
	r.answerApart()
}

// prepare admits the request on the receivers and reserves its pages there.
func (r *request) prepare() {
	s := r.s
	r.prepared = true
	for _, h := range r.receivers {
		if len(r.receivers) > 1 || r.synthetic {
			h.admit()
		} else {
			r.enter(h)
		}
		if r.synthetic && !r.fake || r.idle(h) {
			continue
		}
		r.reserveHere(h)
		h.overheard()
		if h.in.engine && s.chance(s.Mix.Retract) {
			r.soon()
			h.releaseAll()
			s.hard(6, "retracted before the transfer")
			r.soon()
			r.reserveHere(h)
		}
		if s.chance(0.5) {
			r.wait(s.between(hop, ms))
		}
	}
	r.soon()
}

// overheard is what the wire says of a request to an instance without a
// lifecycle stream, before its pages are named.
func (h *half) overheard() {
	if h.in.engine || h.prefix == 0 && h.in.s.chance(0.5) || !h.alive() {
		return
	}
	f := lifecycle.Fact{Ev: lifecycle.RequestAdmitted, Req: h.req, Room: h.r.room, PrefixTokens: lifecycle.Some(h.prefix)}
	h.in.tell(lifecycle.Wire, h.in.node, f)
}

// idle reports whether the half is of a rank that has nothing to do.
func (r *request) idle(h *half) bool {
	return !slices.ContainsFunc(r.pairs, func(p pair) bool { return !p.dummy && (p.rcv == h || p.snd == h) })
}

// reserveHere takes all the pages that the handoff will write, and perhaps
// room for the answer.
func (r *request) reserveHere(h *half) {
	s := r.s
	for _, p := range h.in.pools {
		n := p.owed(r.prompt)
		if p.name == "kv" {
			if len(h.held[p]) == 0 && h.prefix > 0 {
				h.prefixLost()
			}
			n -= len(h.held[p])
			if h.in.engine && s.chance(0.2) {
				n += 1 + s.upTo(1)
				s.hard(4, "pages reserved beyond the prompt")
			}
		}
		r.must(h, p, n)
	}
	r.fillable(h)
}

// prefixLost takes the shared prefix again after a retraction.
func (h *half) prefixLost() {
	if e := h.in.lookUp(h.r); e != nil && int64(len(e.pages))*h.in.s.layout.pageTokens == h.prefix {
		h.share(e)
		return
	}
	panic(interrupt{crowded})
}

// compute does the senders' work at once.
func (r *request) compute() {
	for _, h := range r.senders {
		r.computeOn(h, h.in.pool("kv").pagesOf(r.prompt))
	}
}

// computeOn admits the request on a sender, where it is not yet, and computes
// its first n pages; with all of kv come the other pools.
func (r *request) computeOn(h *half, n int) {
	kv := h.in.pool("kv")
	if !h.entered {
		h.entered = true
		if r.synthetic {
			h.admit()
		} else {
			r.enter(h)
		}
	}
	if r.synthetic || r.idle(h) {
		return
	}
	if fresh := n - len(h.held[kv]); fresh > 0 {
		r.must(h, kv, fresh)
		r.fillable(h)
		r.forward(h, kv, fresh)
	}
	if n < kv.pagesOf(r.prompt) {
		return
	}
	for _, p := range h.in.pools {
		if need := p.owed(r.prompt) - len(h.held[p]); p != kv && need > 0 {
			r.must(h, p, need)
			r.fillable(h)
			r.forward(h, p, need)
		}
	}
}

// pieces cuts the pages that must be sent into chunks [low, high).
func (r *request) pieces() (cuts [][2]int) {
	s, h := r.s, r.receivers[0]
	low, high := int(h.prefix/s.layout.pageTokens), h.in.pool("kv").pagesOf(r.prompt)
	if r.synthetic || !s.chance(s.Mix.Chunked) {
		return [][2]int{{low, high}}
	}
	for low < high {
		n := 1 + s.upTo(high-low-1)
		cuts = append(cuts, [2]int{low, low + n})
		low += n
	}
	return cuts
}

// deliver moves the prompt from the senders to the receivers.
func (r *request) deliver() {
	s := r.s
	cuts := r.pieces()
	beside := len(cuts) > 1 && s.chance(s.Mix.SideBySide)
	staged := func(h *half) bool { return h.in.staged }
	under := len(cuts) > 1 && !slices.ContainsFunc(r.receivers, staged) && s.chance(s.Mix.Umbrella)
	r.countDown(len(cuts), under)
	if len(cuts) > 1 {
		s.hard(5, map[bool]string{false: "chunks one after the other", true: "chunks side by side"}[beside])
	}
	if r.receivers[0].prefix > 0 {
		s.hard(4, "prefix on decode")
	}
	var umbrellas, open []*transfer
	if under {
		umbrellas = r.umbrellas(cuts)
		s.hard(5, "chunks under one reservation message")
	}
	if len(cuts) > 1 {
		for _, h := range r.senders {
			if !r.synthetic && !r.idle(h) && len(h.held[h.in.pool("kv")]) == 0 {
				r.computeOn(h, cuts[0][1])
			}
		}
	}
	for i, cut := range cuts {
		for _, h := range r.senders {
			r.computeOn(h, cut[1])
		}
		for _, p := range r.pairs {
			open = append(open, r.sends(p, cut, under, i == len(cuts)-1)...)
		}
		if !beside {
			open = r.carry(open, 0)
		} else if i < len(cuts)-1 {
			open = r.carry(open, len(open))
		}
	}
	r.carry(append(open, umbrellas...), 0)
}

// countDown notes how many transfers each receiver is told of.
func (r *request) countDown(cuts int, under bool) {
	for _, p := range r.pairs {
		n := cuts
		if under {
			n++
		}
		if p.dummy || r.synthetic {
			n = 1
		} else {
			n += len(r.beside(p))
		}
		r.left[p.rcv] += n
	}
}

// lastOf counts a completion and reports whether it is the receiver's last.
func (r *request) lastOf(h *half) bool {
	r.left[h]--
	return r.left[h] == 0
}

// beside are the pools other than kv that a pair transfers.
func (r *request) beside(p pair) (pools []string) {
	for _, pool := range p.rcv.in.pools {
		if pool.name == "swa" || pool.name == "state" || pool.name == "aux" && p.snd.in.rank == 0 {
			pools = append(pools, pool.name)
		}
	}
	return pools
}

func (r *request) umbrellas(cuts [][2]int) (list []*transfer) {
	for _, p := range r.pairs {
		if p.dummy {
			continue
		}
		kv := p.rcv.in.pool("kv")
		t := r.transfer(p.rcv, p.snd, "kv", p.rcv.held[kv][cuts[0][0]:cuts[len(cuts)-1][1]], nil)
		t.umbrella = true
		t.name()
		t.plan()
		list = append(list, t)
	}
	return list
}

// sends makes the transfers of one chunk of a pair, with the last one those
// of the other pools.
func (r *request) sends(p pair, cut [2]int, under, final bool) (list []*transfer) {
	if (p.dummy || r.synthetic) && !final {
		return nil
	}
	if p.dummy || r.synthetic {
		t := r.transfer(p.rcv, p.snd, "kv", nil, nil)
		t.dummy = true
		if r.fake && !p.dummy {
			t.dst = slices.Clone(p.rcv.held[p.rcv.in.pool("kv")])
			r.s.hard(13, "a warm-up whose transfer carries nothing")
		}
		t.plan()
		r.s.hard(3, "a rank that owes nothing")
		return []*transfer{t}
	}
	from, to := p.snd.in.pool("kv"), p.rcv.in.pool("kv")
	t := r.transfer(p.rcv, p.snd, "kv", slices.Clone(p.rcv.held[to][cut[0]:cut[1]]), slices.Clone(p.snd.held[from][cut[0]:cut[1]]))
	t.chunk = under
	if under {
		t.xferOnByte, t.posted = false, false
	}
	t.plan()
	list = append(list, t)
	if final {
		for _, name := range r.beside(p) {
			from, to := p.snd.in.pool(name), p.rcv.in.pool(name)
			t := r.transfer(p.rcv, p.snd, name, slices.Clone(p.rcv.held[to]), slices.Clone(p.snd.held[from]))
			t.plan()
			list = append(list, t)
		}
	}
	return list
}

// carry does the acts of the open transfers in any order between them, all of
// them or so many; it returns the transfers that are still open.
func (r *request) carry(open []*transfer, acts int) []*transfer {
	s := r.s
	for i := 0; len(open) > 0 && (acts == 0 || i < acts); i++ {
		k := s.rng.IntN(len(open))
		t := open[k]
		if t.umbrella && slices.ContainsFunc(open, func(t *transfer) bool { return !t.umbrella }) {
			continue
		}
		act := t.acts[0]
		t.acts = t.acts[1:]
		last := len(t.acts) == 0
		if last && s.chance(s.Mix.Fail) && !t.umbrella && !t.chunk && !t.dummy && !t.struck {
			open[k] = r.again(t)
			continue
		}
		act()
		if last {
			open = slices.Delete(open, k, k+1)
		}
		r.wait(s.between(hop, 400*µs))
	}
	return open
}

// again makes a transfer fail at its very end and begins it anew.
func (r *request) again(t *transfer) *transfer {
	t.fail()
	for _, h := range []*half{t.rcv, t.snd} {
		if !h.alive() {
			panic(interrupt{wrecked})
		}
	}
	n := r.transfer(t.rcv, t.snd, t.pool, t.dst, t.src)
	n.retry = true
	n.plan()
	r.s.hard(7, "a transfer that failed and was made again")
	return n
}

// answerApart is what comes after the handoff.
func (r *request) answerApart() {
	s := r.s
	r.digests()
	senders := func() {
		for _, h := range r.senders {
			r.sent(h)
		}
	}
	first := s.chance(0.5)
	if first {
		senders()
	}
	r.soon()
	for _, h := range r.receivers {
		if !r.idle(h) && (!r.synthetic || r.fake) {
			h.readAll()
		}
	}
	r.delivered = true
	if aux := r.receivers[0].in.pool("aux"); aux != nil {
		for _, h := range r.receivers {
			if aux := h.in.pool("aux"); aux != nil {
				h.release(aux, slices.Clone(h.held[aux]))
			}
		}
	}
	if len(r.receivers) == 1 && !r.synthetic {
		r.decode(r.receivers[0])
	}
	if !first {
		senders()
	}
	r.calm = true
	for _, h := range r.receivers {
		h.in.together(func() {
			h.finish(200, pick(s, []lifecycle.Finish{lifecycle.FinishStop, lifecycle.FinishLength, lifecycle.FinishNone}))
			if len(r.receivers) == 1 {
				h.keep()
			}
			h.leave()
		})
		r.late(h)
	}
}

// sent ends a sender's half.
func (r *request) sent(h *half) {
	h.in.together(func() {
		if r.s.chance(0.8) {
			h.finish(200, lifecycle.FinishLength)
		} else {
			h.ended = true // it says nothing of its end, and lives on for who listens
			r.blurred = r.blurred || r.s.Mix.Restarts > 0
		}
		h.keep()
		h.leave()
	})
}

// digests has both sides say what they hold of one page.
func (r *request) digests() {
	s := r.s
	if !s.chance(s.Mix.Digests) || len(r.senders) != len(r.receivers) || r.synthetic {
		return
	}
	for _, p := range r.pairs {
		f := lifecycle.Fact{Ev: lifecycle.ContentDigest, Room: r.room, Pool: "kv", Digest: "d" + r.id, Side: lifecycle.Sender}
		if s.chance(0.5) {
			f.PromptPage = lifecycle.Some(int64(s.upTo(3)))
		}
		p.snd.say(f)
		f.Side = lifecycle.Receiver
		if p.rcv.told() && p.snd.told() && s.strikes("content_mismatch/digest") {
			f.Digest = "another"
			s.want(p.rcv.in, "", r.room, "kv")
			s.Strike.Want.Inst = ""
		}
		p.rcv.say(f)
	}
}
