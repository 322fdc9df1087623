package ledger

import (
	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// batchPasses bounds how often what would accuse in a batch is tried again. A
// batch that needs more is judged no further: its rest counts as late.
const batchPasses = 16

type batchID struct {
	t     int64
	inst  string
	src   lifecycle.Src
	epoch lifecycle.Opt[uint64]
}

// applyGroup applies the facts of one time. Those of one (inst, src, epoch)
// are a batch without order (hard case 11): what would accuse waits until the
// others had their turn, and only what accuses in every order does.
func (l *Ledger) applyGroup(group []held) {
	l.takeNumbers(group)
	if len(group) == 1 {
		l.apply(group[0])
		return
	}
	sizes := make(map[batchID]int, 4)
	for i := range group {
		sizes[batchOf(group[i].f)]++
	}
	var aside, last []held
	for _, h := range group {
		l.batch = sizes[batchOf(h.f)] > 1
		switch {
		case !l.batch:
			l.apply(h)
		case l.refuses(h.f) && !admitsToo(group, h.f):
			last = append(last, h)
		case l.premature(h):
			aside = append(aside, h)
		default:
			l.apply(h)
		}
	}
	l.batch = true
	l.retry(aside)
	for _, h := range last {
		l.apply(h)
	}
	l.batch = false
}

// retry applies what was set aside as soon as it accuses no more.
func (l *Ledger) retry(aside []held) {
	for pass := 0; len(aside) > 0; pass++ {
		kept := aside[:0:len(aside)]
		for _, h := range aside {
			if l.premature(h) {
				kept = append(kept, h)
			} else {
				l.apply(h)
			}
		}
		if stuck := len(kept) == len(aside); stuck || pass == batchPasses {
			for _, h := range kept {
				if stuck {
					l.apply(h)
				} else {
					l.late(h.inst, h.f)
				}
			}
			return
		}
		aside = kept
	}
}

// premature reports whether a fact would accuse if it were applied now, or copies what
// is not written yet, or into what is not handed out yet.
func (l *Ledger) premature(h held) bool {
	if h.inst == nil || h.inst.outdated(h.f) {
		return false
	}
	if h.inst.ofAnother(h.f) {
		return true // its epoch may be opened in this batch
	}
	c := l.resolve(h.inst, h.f)
	if c.void {
		return true // what it names may be opened in this batch
	}
	if h.f.Ev == lifecycle.PagesCopied {
		return l.copiesTooSoon(&c)
	}
	l.check(&c)
	accuses := len(l.breaches) > 0
	l.breaches = l.breaches[:0]
	return accuses
}

func (l *Ledger) refuses(f *lifecycle.Fact) bool {
	return f.Ev == lifecycle.RequestRejected || f.Ev == lifecycle.RequestAborted
}

// admitsToo reports whether the batch of f also admits its request.
func admitsToo(group []held, f *lifecycle.Fact) bool {
	for _, h := range group {
		if h.f.Ev == lifecycle.RequestAdmitted && h.f.Req == f.Req && batchOf(h.f) == batchOf(f) {
			return true
		}
	}
	return false
}

func batchOf(f *lifecycle.Fact) batchID { return batchID{f.T, f.Inst, f.Src, f.Epoch} }

// takeNumbers notes the sequence numbers of a group, and what is missing
// before them.
func (l *Ledger) takeNumbers(group []held) {
	for i := range group {
		f := group[i].f
		if !f.Seq.Has {
			continue
		}
		if inst := group[i].inst; inst != nil && !inst.outdated(f) {
			from, to, gap := inst.stream(f).apply(f.Seq.V, l.cfg.Limits.Missing)
			if gap {
				l.numbersMissing(inst, f, from, to)
			}
		}
	}
}
