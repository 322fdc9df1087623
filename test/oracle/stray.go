package oracle

import (
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// stray is a piece of a write that was posted where it fills nothing. Once its
// transfer completed ok it has landed, wherever it went: its end, seen after that, says
// nothing anew (R18).
type stray struct {
	inst, from, xfer string
	at               span
	landed           bool
}

// postedAstray remembers the pieces of a posted write that fill nothing.
func (o *oracle) postedAstray(f *lifecycle.Fact, parts []part) {
	if f.Xfer == "" {
		return
	}
	for _, p := range o.pieces(f.Inst, f.Addr, f.Bytes) {
		fills := slices.ContainsFunc(parts, func(x part) bool { return x.piece == p && x.fills })
		if p.page != nil && !fills {
			o.strays = append(o.strays, stray{f.Inst, f.From, f.Xfer, span{p.addr, p.addr + p.to - p.from}, false})
		}
	}
}

// straysLanded: the transfer completed ok, on whichever side that was told.
func (o *oracle) straysLanded(e *entry) {
	if e.Outcome != lifecycle.OK || e.Xfer == "" {
		return
	}
	for i := range o.strays {
		s := &o.strays[i]
		between := s.inst == e.Inst && (s.from == e.Peer || s.from == "") || s.inst == e.Peer && (s.from == e.Inst || s.from == "")
		s.landed = s.landed || s.xfer == e.Xfer && between
	}
}

// endsStray takes in that a piece was seen to end, and reports whether it had landed.
func (o *oracle) endsStray(f *lifecycle.Fact, p piece) (landed bool) {
	if f.Outcome == lifecycle.Posted || f.Xfer == "" || p.page == nil {
		return false
	}
	at := span{p.addr, p.addr + p.to - p.from}
	var left []stray
	var down spans
	for _, s := range o.strays {
		if s.inst != f.Inst || s.from != f.From || s.xfer != f.Xfer {
			left = append(left, s)
			continue
		}
		if s.landed {
			down = down.with(s.at.from, s.at.to)
		}
		for _, rest := range (spans{s.at}).without(at.from, at.to) {
			s.at = rest
			left = append(left, s)
		}
	}
	o.strays = left
	return down.covers(at.from, at.to)
}
