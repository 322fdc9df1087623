package sim

import "github.com/kvwitness/kvwitness/sidecar/finding"

// verdictKey is whose verdict: of a room and its receiver, or of a request
// without a room.
type verdictKey struct{ room, inst, req string }

// Expected is the verdict that a request deserves.
type Expected uint8

// The verdicts that valid traffic can deserve. Innocent: what was seen does
// not decide between clean and unwitnessed.
const (
	Innocent Expected = iota
	MustBeClean
	MustBeUnwitnessed
)

// allows reports whether a verdict is one that was expected.
func (e Expected) allows(v finding.Outcome) bool {
	switch e {
	case MustBeClean:
		return v == finding.Clean
	case MustBeUnwitnessed:
		return v == finding.Unwitnessed
	}
	return v != finding.Violated
}

func (r *request) expectHere(h *half) {
	want := MustBeUnwitnessed
	if r.blurred || h.in.muted {
		want = Innocent
	}
	if r.room == "" {
		r.s.expected[verdictKey{"", h.in.name, h.req}] = want
	}
}

// expect notes which verdicts a request's receivers deserve.
func (r *request) expect(end ending) {
	if r.synthetic {
		return // room 0 is everybody's
	}
	for _, h := range r.receivers {
		if want, some := r.deserves(h, end); some {
			r.s.expected[verdictKey{r.room, h.in.name, ""}] = want
		}
	}
}

func (r *request) deserves(h *half, end ending) (Expected, bool) {
	named, ok, all, unheard := false, false, true, false
	for _, t := range r.transfers {
		if t.rcv != h || t.dummy {
			continue
		}
		named = named || t.named
		ok = ok || t.ok
		all = all && t.ok
		unheard = unheard || t.unheard
	}
	switch {
	case !named:
		return Innocent, false
	case r.blurred || h.in.muted || !h.alive():
		return Innocent, true
	case h.in.unnamed:
		return Innocent, true
	case unheard && !h.in.engine && h.in.attached:
		return Innocent, true // nobody said when it began: it may have been before anybody watched
	case !h.in.engine && r.noLast && r.s.Mix.Restarts > 0:
		return Innocent, true // a restart, or what is said late of an earlier life, may come before it settles
	case !h.sawAll || !ok:
		return MustBeUnwitnessed, true
	case h.in.engine && !h.in.written && (r.answer > 0 || h.prefix > 0):
		return Innocent, true // it reads pages of which nothing says that it wrote them
	case end == done && all && r.delivered && !r.settled:
		return MustBeClean, true
	}
	return Innocent, true
}
