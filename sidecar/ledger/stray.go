package ledger

import (
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// What was posted where it fills nothing may be of a generation from before anybody
// watched, or whose word was lost. Once its transfer completed ok it has landed, so
// that its end, which the writer may see late, says nothing anew (R18). So does that of
// a transfer which is no longer known to have named the page (hard case 14).

// poster names a transfer as bytes and completions do; from may be absent.
type poster struct{ from, xfer string }

// stray are addresses that were posted, and not seen to end.
type stray struct {
	lo, hi uint64
	landed bool
}

// strays are those of an instance. Of many only the last are kept: those that were
// never seen to end would stay.
type strays struct {
	fresh, aged map[poster][]stray
	n           int // in fresh
}

// maxStrays is how many are surely kept.
const maxStrays = 4096

func (s *strays) post(of poster, x stray) {
	if s.fresh == nil || s.n >= maxStrays {
		s.fresh, s.aged, s.n = map[poster][]stray{}, s.fresh, 0
	}
	s.fresh[of] = append(s.fresh[of], x)
	s.n++
}

// completed notes that all which the transfer posted has landed.
func (s *strays) completed(of poster) {
	for _, all := range []map[poster][]stray{s.fresh, s.aged} {
		for i := range all[of] {
			all[of][i].landed = true
		}
	}
}

// end takes out addresses that were seen to end, and reports whether they had landed.
func (s *strays) end(of poster, lo, hi uint64) (landed bool) {
	for _, all := range []map[poster][]stray{s.fresh, s.aged} {
		if len(all[of]) == 0 {
			continue
		}
		var left []stray
		for _, x := range all[of] {
			landed = landed || x.landed && x.lo <= lo && hi <= x.hi
			for _, rest := range [2]stray{{x.lo, min(x.hi, lo), x.landed}, {max(x.lo, hi), x.hi, x.landed}} {
				if rest.lo < rest.hi && s.n < 2*maxStrays { // what is cut up counts, too
					left = append(left, rest)
					s.n++
				}
			}
			s.n--
		}
		if all[of] = left; left == nil {
			delete(all, of)
		}
	}
	return landed
}

// straysLanded lets an ok completion tell of what its transfer posted astray, on
// whichever side it is told.
func (l *Ledger) straysLanded(f *lifecycle.Fact) {
	if f.Xfer == "" {
		return
	}
	for _, side := range [2][2]string{{f.Inst, f.Peer}, {f.Peer, f.Inst}} {
		if recv := l.insts[side[0]]; recv != nil {
			recv.strays.completed(poster{side[1], f.Xfer})
			recv.strays.completed(poster{"", f.Xfer})
		}
	}
}

// endsStray reports whether bytes on a page are but the end of what was posted astray
// and has landed.
func (c *call) endsStray(at uint32) bool {
	f := c.f
	if f.Outcome == lifecycle.Posted || f.Xfer == "" {
		return false
	}
	lo, hi := c.hit.addresses(at)
	return c.inst.strays.end(poster{f.From, f.Xfer}, lo, hi)
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
func (c *call) straysFrom(at uint32) {
	if c.f.Outcome == lifecycle.Posted && c.f.Xfer != "" {
		lo, hi := c.hit.addresses(at)
		c.inst.strays.post(poster{c.f.From, c.f.Xfer}, stray{lo: lo, hi: hi})
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
		if set[st.bit/64]>>(st.bit%64)&1 == 1 {
			pl.inst.strays.post(of, st.landed(at, 0, st.each))
		}
		for _, g := range pl.frags[a] {
			if g.posted && int(g.region) == st.bit {
				pl.inst.strays.post(of, st.landed(at, g.lo, g.hi))
			}
		}
	}
}

func (st *stretch) landed(at uint32, lo, hi uint64) stray {
	page := st.base + uint64(at)*st.stride
	return stray{page + lo, page + hi, true}
}

// addresses are those of a piece of a page.
func (h *hit) addresses(at uint32) (lo, hi uint64) {
	page := h.st.base + uint64(at)*h.st.stride
	return page + h.lo, page + h.hi
}
