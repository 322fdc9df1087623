package sim

import "github.com/kvwitness/kvwitness/engine/lifecycle"

// opensWrong breaks what an instance says of its pool.
func (in *instance) opensWrong(p *pool, spec *lifecycle.PoolSpec) {
	s := in.s
	if s.Strike == nil || p.name != "kv" || in.muted {
		return
	}
	own := int64(spec.Pages-uint32(spec.NullIDs.Pages())) * spec.PageTokens
	if s.strikes("capacity_inversion/own") {
		spec.ContextTokens = lifecycle.Some(own + 1)
		s.want(in, "", "", p.name)
	}
	if in.role == decode && in.engine && own > s.largest(prefill)*spec.PageTokens && s.strikes("capacity_inversion/peer") {
		spec.ContextTokens = lifecycle.Some(own)
		s.want(in, "", "", "")
		s.Strike.Want.Inst, s.Strike.meets = "", in.name
	}
	if in.role == decode && s.strikes("layout_mismatch/dtype") {
		spec.DType = "fp8_e4m3"
		s.want(in, "", "", "")
		s.Strike.Want.Inst, s.Strike.meets = "", in.name
	}
	if in.role == decode && s.strikes("layout_mismatch/heads") {
		spec.KVHeads++
		s.want(in, "", "", "")
		s.Strike.Want.Inst, s.Strike.meets = "", in.name
	}
}

// miscounts breaks an audit: its sum, or for good what it holds.
func (p *pool) miscounts(a *lifecycle.Audit) {
	s := p.in.s
	if p.in.muted || s.Strike == nil {
		return
	}
	if s.strikes("pool_imbalance/sum") {
		a.Free++
		s.want(p.in, "", "", p.name)
	}
	if p.lies {
		a.Held, a.Free = a.Held+1, a.Free-1
	} else if a.Free > 0 && s.strikes("pool_imbalance/held") {
		p.lies = true
		a.Held, a.Free = a.Held+1, a.Free-1
		s.want(p.in, "", "", p.name)
		s.spawn(s.now+1100*ms, func(*proc) { p.in.audit() })
	}
}

// outgrown makes the driver count less than the pools take, or a process that
// nobody knows.
func (in *instance) outgrown(f *lifecycle.Fact) {
	s := in.s
	if in.muted {
		return
	}
	if s.strikes("vram_mismatch/pool") {
		f.Bytes = 4096
		s.want(in, "", "", "")
	}
	if in.sampled && s.strikes("vram_mismatch/foreign") {
		s.want(in, "", "", "")
		u := *f.VRAM
		u.PID = 1
		in.tell(lifecycle.NVML, in.node, lifecycle.Fact{Ev: lifecycle.VRAMUsage, Bytes: 1 << 20, VRAM: &u})
	}
	in.sampled = true
}

// stands still for longer than the limit, with pages.
func (r *request) standsStill(h *half) {
	s := r.s
	if !s.arms("stalled_reservation/decode") || !h.told() || r.live() || !s.strikes("stalled_reservation/decode") {
		return
	}
	r.spare()
	s.want(h.in, h.req, "", "")
	s.spawn(s.now+30_500*ms, func(*proc) { h.in.watermark() })
	r.wait(31_000 * ms)
}

// live reports whether a transfer of the request is open.
func (r *request) live() bool {
	for _, t := range r.transfers {
		if !t.over {
			return true
		}
	}
	return false
}

// lost drops a fact of a stream that is numbered, or brings it too late, or
// says that one was lost. It reports whether the fact does not arrive.
func (s *Sim) lost(in *instance, f *lifecycle.Fact) bool {
	if s.Strike == nil || f.Src != lifecycle.Engine || f.Ev == lifecycle.PoolOpened || in.muted || s.live < 2 || s.together {
		return false
	}
	if f.Seq.Has && s.strikes("blind/gap") || !f.Seq.Has && s.strikes("blind/loss") {
		s.want(in, "", "", "")
		s.hard(10, "a gap")
		if !f.Seq.Has {
			in.tell(lifecycle.Sidecar, in.node, lifecycle.Fact{Ev: lifecycle.EventsLost, Of: lifecycle.Engine, Count: 1, Stage: "socket", Reason: "full"})
		}
		return true
	}
	if f.Seq.Has && s.strikes("blind/late") {
		s.want(in, "", "", "")
		s.hard(11, "a fact that came too late")
		s.Strike.tardy = f
		s.arriving.push(s.now+s.Strike.late(), f)
		return true
	}
	return false
}

// late is how long after the settle time a late fact comes.
func (k *Strike) late() int64 { return 3*settle + int64(k.Skip%7)*settle }

// looksAway ends the coverage of an instance while a handoff is open.
func (t *transfer) looksAway() {
	in, s := t.rcv.in, t.r.s
	if in.covered && !in.unnamed && !in.muted && t.rcv.alive() && t.named && !t.over && !t.dummy && !t.r.synthetic && s.strikes("blind/coverage") {
		in.covered = false
		s.want(in, "", "", "")
		s.hard(10, "coverage that ends while a handoff is open")
		in.tell(lifecycle.Sidecar, in.node, lifecycle.Fact{Ev: lifecycle.SourceCoverage, Of: in.sight, Reason: "filter detached"})
	}
}

// linger lets every stream go on for a while, so that a gap shows.
func (s *Sim) linger(p *proc) {
	for range 12 {
		p.sleep(settle)
		for _, in := range s.instances {
			in.say(lifecycle.Fact{Ev: lifecycle.Protection, Protection: "page_tags", State: lifecycle.StateOff})
		}
	}
}
