package ledger

import "github.com/kvwitness/kvwitness/engine/lifecycle"

// late is a fact that came after what follows it was applied. It is counted
// and accuses nobody: what it names is not known any more (hard case 11).
func (l *Ledger) late(inst *instance, f *lifecycle.Fact) {
	l.stats.Late++
	l.tick++
	const why = "a fact about it came too late to be put in order"
	if f.Room != "" {
		rm := l.roomFor(f.Room)
		unsee(rm, nil, why)
		rm.late = true
		if rm.named == nil {
			rm.named = inst
		}
	}
	if inst == nil {
		return
	}
	if f.Req != "" {
		if r := l.request(inst, f.Req, f.Room); r != nil {
			unsee(r.room, inst, why)
			if f.Ev == lifecycle.RequestAdmitted {
				r.aborted = false
				r.room.forgive(inst)
			}
		}
	}
	switch f.Ev {
	case lifecycle.PoolOpened:
		l.latePool(inst, f)
	case lifecycle.StreamGap, lifecycle.EventsLost:
		c := call{f: f, inst: inst}
		l.lost(&c)
		l.settle(f)
	case lifecycle.SourceCoverage:
		if !f.Complete && f.Of.Observes() {
			l.loseSight(inst, f.Of, f.Peer, func(bool) {})
		}
	case lifecycle.BytesMoved:
		l.lateBytes(inst, f)
	case lifecycle.PagesCopied:
		l.blank(inst, firstOf(f.CopyFrom.Pool, f.Pool), f.CopyFrom.Pages)
		l.blank(inst, firstOf(f.CopyTo.Pool, f.Pool), f.CopyTo.Pages)
	default:
		l.blank(inst, f.Pool, f.Pages)
	}
}

// latePool opens a pool that was never seen, of whose pages nothing is known.
func (l *Ledger) latePool(inst *instance, f *lifecycle.Fact) {
	if f.Spec == nil || inst.byName[f.Pool] != nil || f.Epoch.Has && inst.epoch.Has && f.Epoch != inst.epoch {
		return
	}
	if pl := l.openPool(inst, f); pl != nil {
		pl.knownFrom = l.tick + 1
		inst.outOfSight(l.tick)
	}
}

// blank makes pages unknown.
func (l *Ledger) blank(inst *instance, name string, runs lifecycle.Runs) {
	pl := inst.byName[name]
	if pl == nil || !l.fits(pl, runs, nil) {
		return
	}
	for _, run := range runs {
		for at := run.First; at < run.End(); at++ {
			l.blankPage(pl, at, "a fact about a page of its came too late to be put in order")
		}
	}
}

// blankPage makes a page unknown, and unwitnessed the requests that hold it or had
// it in transfer.
func (l *Ledger) blankPage(pl *pool, at uint32, why string) {
	p := &pl.pages[at]
	if p.flags&null != 0 {
		return
	}
	p.flags |= unknown
	l.eachHolder(pl, at, func(r *request) { unsee(r.room, pl.inst, why) })
	for a := p.act; a != 0; a = pl.acts[a].next {
		if rec := &pl.acts[a]; rec.born == p.born {
			unsee(l.of(rec).room, l.of(rec).recv, why)
		}
	}
}

func (l *Ledger) lateBytes(inst *instance, f *lifecycle.Fact) {
	end := f.Addr + f.Bytes
	for addr := f.Addr; addr < end; {
		st, next := inst.stretchAt(addr)
		if st == nil {
			if next <= addr {
				return
			}
			addr = next
			continue
		}
		at, in := st.page(addr - st.base)
		if st.bit >= 0 {
			l.blankPage(st.pool, at, "bytes of its transfer were reported too late to be put in order")
		}
		addr += st.stride - in
	}
}
