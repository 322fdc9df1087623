package sim

import "github.com/kvwitness/kvwitness/engine/lifecycle"

// beside begins what goes on beside the requests: audits, samples of the
// driver, registrations, watermarks.
func (in *instance) beside() {
	s := in.s
	if in.silent {
		return
	}
	in.register()
	in.scratched = in.engine && s.chance(s.Mix.Scratch)
	if in.engine && !in.scratched && s.chance(s.Mix.Audits) {
		in.every(60*ms, in.audit)
	}
	if s.chance(s.Mix.VRAM) {
		in.every(80*ms, in.sample)
	}
	if s.chance(0.2) {
		in.every(50*ms, in.watermark)
	}
}

// every does something now and then while requests live.
func (in *instance) every(d int64, do func()) {
	s := in.s
	s.spawn(s.now+s.between(jitter, d), func(p *proc) {
		for !s.givenUp && (!s.closing || s.live > 0) {
			do()
			p.sleep(s.between(d/2, 2*d))
		}
	})
}

// register says which memory the instance has registered, padded.
func (in *instance) register() {
	s := in.s
	if !s.chance(0.3) {
		return
	}
	for _, p := range in.pools {
		for _, region := range p.spec.Regions {
			f := lifecycle.Fact{Ev: lifecycle.RegionRegistered, Base: region.Base, Bytes: region.Stride*uint64(p.spec.Pages) + 4096}
			if p.name != "aux" {
				f.Memory = lifecycle.VRAM
			} else {
				f.Memory = lifecycle.Host
			}
			f.RKey = lifecycle.Some(uint64(s.upTo(1 << 20)))
			in.tell(lifecycle.RDMA, in.node, f)
		}
	}
}

// audit says what the engine counts in each pool.
func (in *instance) audit() {
	for _, p := range in.pools {
		var a lifecycle.Audit
		for i := range p.pages {
			switch pg := &p.pages[i]; {
			case pg.null:
			case len(pg.holders) > 0:
				a.Held++
			case pg.cached:
				a.Cached++
			default:
				a.Free++
			}
		}
		p.miscounts(&a)
		in.say(lifecycle.Fact{Ev: lifecycle.PoolAudit, Pool: p.name, Audit: &a})
		in.s.hard(13, "an audit with cached pages and null pages")
	}
}

// sample says what the driver counts for the instance's process.
func (in *instance) sample() {
	held := uint64(1 << 24)
	for _, p := range in.pools {
		for _, region := range p.spec.Regions {
			held += region.Stride*uint64(p.spec.Pages) + 8192
		}
	}
	u := &lifecycle.Usage{GPU: "gpu-" + in.name, PID: in.pid, TotalBytes: lifecycle.Some(uint64(1) << 44)}
	f := lifecycle.Fact{Ev: lifecycle.VRAMUsage, Bytes: held, VRAM: u}
	in.outgrown(&f)
	in.tell(lifecycle.NVML, in.node, f)
}

// watermark says up to where a source has been read.
func (in *instance) watermark() {
	in.tell(lifecycle.Sidecar, in.node, lifecycle.Fact{Ev: lifecycle.Watermark, Of: lifecycle.Engine})
}

// scratch reserves pages for nobody, once; whether an engine counts them as
// held is not known, so such an instance is not audited.
func (in *instance) scratch() {
	s := in.s
	if !in.scratched {
		return
	}
	s.spawn(s.now+s.between(ms, 100*ms), func(*proc) {
		p := in.pool("kv")
		free := p.freeNow(2)
		if free == nil {
			return
		}
		for _, id := range free {
			p.pages[id] = page{null: true}
		}
		in.say(lifecycle.Fact{Ev: lifecycle.PagesReserved, Pool: p.name, Pages: runs(free)})
		if in.written {
			in.say(lifecycle.Fact{Ev: lifecycle.PagesWritten, Pool: p.name, Pages: runs(free), By: lifecycle.ByForward})
		}
		s.hard(10, "pages reserved for nobody")
	})
}
