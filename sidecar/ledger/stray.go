package ledger

import (
	"math"
	"slices"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// What was posted where it fills nothing may be of a generation from before anybody
// watched, or whose word was lost. Once its transfer completed ok it has landed, so
// that its end, which the writer may see late, says nothing anew (R18). So does that of
// a transfer which is no longer known to have named the page (hard case 14).

// poster names a transfer as bytes and completions do; from may be absent.
type poster struct{ from, xfer string }

// stray are addresses of a transfer that were posted, and not seen to end: those that
// may land yet, and those that have.
type stray struct {
	flying, landed ranges
	at             int64 // when the last was posted, or landed
}

// strays are those of an instance.
type strays struct {
	all    map[poster]*stray
	beyond int64 // until then more may be seen to end than are remembered
}

// strayTime is how long after it was posted, or landed, a write may be seen to end: by
// then a transport has given up, so that its end was lost. Only where room is needed
// are older ones forgotten.
const strayTime = int64(time.Minute)

// stray remembers one, up to the limit for all instances together.
func (l *Ledger) stray(inst *instance, of poster, lo, hi uint64, landed bool) {
	s := &inst.strays
	x := s.all[of]
	switch {
	case x != nil && (landed && x.landed.holds(lo, hi-1) || !landed && x.flying.holds(lo, hi-1)):
		return
	case l.strays >= l.cfg.Limits.Strays && !l.forgetOldStrays():
		l.stats.Forgotten.Strays++
		s.beyond = l.now + strayTime
		return
	case s.all == nil:
		s.all = map[poster]*stray{}
	}
	if x = s.all[of]; x == nil {
		x = new(stray)
		s.all[of] = x
	}
	x.at = l.now
	l.strays -= x.pieces()
	if landed {
		x.landed.add(lo, hi-1, math.MaxInt)
	} else {
		x.flying.add(lo, hi-1, math.MaxInt)
	}
	l.strays += x.pieces()
}

// forgetOldStrays makes room, and reports whether there was any to make.
func (l *Ledger) forgetOldStrays() bool {
	if l.now < l.straysDue {
		return false
	}
	before, oldest := l.strays, l.now
	for _, inst := range l.insts {
		for of, x := range inst.strays.all {
			if x.at <= l.now-strayTime {
				l.strays -= x.pieces()
				delete(inst.strays.all, of)
			} else {
				oldest = min(oldest, x.at)
			}
		}
	}
	l.straysDue = max(oldest+strayTime, l.now+int64(time.Second)) // to look is not cheap
	return l.strays < before
}

func (x *stray) pieces() int { return len(x.flying) + len(x.landed) }

// forgetStrays lets go of all that was posted to an instance.
func (l *Ledger) forgetStrays(inst *instance) {
	for _, x := range inst.strays.all {
		l.strays -= x.pieces()
	}
	inst.strays = strays{}
}

// strayLanded notes that all which the transfer posted to an instance has landed.
func (l *Ledger) strayLanded(inst *instance, of poster) {
	x := inst.strays.all[of]
	if x == nil {
		return
	}
	l.strays -= x.pieces()
	if len(x.landed) == 0 {
		x.landed, x.flying = x.flying, nil
	}
	for _, g := range x.flying {
		x.landed.add(g.from, g.to, math.MaxInt)
	}
	x.flying, x.at = nil, l.now
	l.strays += x.pieces()
}

// endStray takes out addresses that were seen to end, and reports whether they were
// posted, and whether they had landed.
func (l *Ledger) endStray(inst *instance, of poster, lo, hi uint64) (posted, landed bool) {
	s := &inst.strays
	x := s.all[of]
	if x == nil {
		return false, false
	}
	landed = x.landed.holds(lo, hi-1)
	posted = landed || x.flying.holds(lo, hi-1)
	l.strays -= x.pieces()
	x.landed.cut(lo, hi-1)
	x.flying.cut(lo, hi-1)
	switch n := x.pieces(); {
	case n == 0:
		delete(s.all, of)
	case l.strays+n > l.cfg.Limits.Strays: // an end that cuts one makes two
		l.stats.Forgotten.Strays += uint64(n)
		delete(s.all, of)
		s.beyond = l.now + strayTime
	default:
		l.strays += n
	}
	return posted, landed
}

// straysLanded lets an ok completion tell of what its transfer posted astray, on
// whichever side it is told.
func (l *Ledger) straysLanded(f *lifecycle.Fact) {
	if f.Xfer == "" {
		return
	}
	for _, side := range [2][2]string{{f.Inst, f.Peer}, {f.Peer, f.Inst}} {
		if recv := l.insts[side[0]]; recv != nil {
			l.strayLanded(recv, poster{side[1], f.Xfer})
			l.strayLanded(recv, poster{"", f.Xfer})
		}
	}
}

// endsStray reports whether bytes on a page are but the end of what was posted astray
// and has landed. Where more was posted than is remembered they may be, so that what the
// page holds is not known.
func (l *Ledger) endsStray(c *call, from *instance, pl *pool, at uint32) bool {
	s, f := &c.inst.strays, c.f
	if len(s.all) == 0 && l.now >= s.beyond || f.Outcome == lifecycle.Posted || f.Xfer == "" {
		return false
	}
	lo, hi := c.hit.addresses(at)
	posted, landed := l.endStray(c.inst, poster{f.From, f.Xfer}, lo, hi)
	unsure := !posted && l.now < s.beyond
	if !landed && !unsure || l.expects(c, from, pl, at) {
		return false
	}
	if unsure && f.Outcome != lifecycle.Errored {
		l.blankPage(pl, at, "more was posted where nothing waits for it than is remembered")
	}
	return true
}

// expects reports whether bytes name a transfer into the page as it is handed out now:
// a name may be used again.
func (l *Ledger) expects(c *call, from *instance, pl *pool, at uint32) bool {
	p := &pl.pages[at]
	names := func(t *transfer) bool { return t.xfer == c.f.Xfer && (t.send == from || c.f.From == "") }
	for a := p.act; a != 0; a = pl.acts[a].next {
		if rec := &pl.acts[a]; !rec.source && rec.born == p.born && p.held() && names(l.of(rec)) {
			return true
		}
	}
	r := l.parties.all[p.owner].req
	if r == nil || p.flags&ownerRef == 0 {
		return false
	}
	h := r.room.into(pl.inst)
	return h != nil && slices.ContainsFunc(h.transfers, func(t *transfer) bool { return t.sendTick != 0 && t.recvTick == 0 && names(t) })
}

// straysFrom remembers what was posted astray.
func (l *Ledger) straysFrom(c *call, at uint32) {
	if c.f.Outcome == lifecycle.Posted && c.f.Xfer != "" {
		lo, hi := c.hit.addresses(at)
		l.stray(c.inst, poster{c.f.From, c.f.Xfer}, lo, hi, false)
	}
}

// strayed remembers what a transfer that is no longer known to have named the page
// posted there.
func (l *Ledger) strayed(pl *pool, at, a uint32) {
	t := l.of(&pl.acts[a])
	set := pl.postedBits(a)
	if t.outcome != lifecycle.OK || t.xfer == "" || !pl.acts[a].pieces && !slices.ContainsFunc(set, nonZero) {
		return
	}
	of := poster{t.send.name, t.xfer}
	for i := range pl.inst.byAddr {
		st := &pl.inst.byAddr[i]
		if st.pool != pl || st.bit < 0 {
			continue
		}
		page := st.base + uint64(at)*st.stride
		if set[st.bit/64]>>(st.bit%64)&1 == 1 {
			l.stray(pl.inst, of, page, page+st.each, true)
		}
		for _, g := range pl.frags[a] {
			if g.posted && int(g.region) == st.bit {
				l.stray(pl.inst, of, page+g.lo, page+g.hi, true)
			}
		}
	}
}

// addresses are those of a piece of a page.
func (h *hit) addresses(at uint32) (lo, hi uint64) {
	page := h.st.base + uint64(at)*h.st.stride
	return page + h.lo, page + h.hi
}
