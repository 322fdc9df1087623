package oracle

import (
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// touch: a fact about a transfer is progress of its requests.
func (o *oracle) touch(t *transfer) {
	for _, r := range []*request{o.takes(t), o.sends(t)} {
		if r != nil {
			r.named = o.now
		}
	}
}

// stalls reports whether a request holds pages that it reserved, and since
// when no fact named it.
func (r *request) stalls() bool {
	return !r.over && !r.stalled && len(r.resting()) > 0
}

// resting are the pages that a request reserved and still holds, as far as
// the instance would have said that it gave them up.
func (r *request) resting() (pages []*page) {
	for _, p := range r.inst.sortedPools() {
		if !r.inst.promises(p, lifecycle.PagesReleased) {
			continue
		}
		for _, pg := range p.sortedPages() {
			if ref := pg.ref(r); ref != nil && ref.reserved && !pg.gen.unknown {
				pages = append(pages, pg)
			}
		}
	}
	return pages
}

// stalledReservation says it once, at the fact that shows that the time has
// passed (R28).
func (o *oracle) stalledReservation(r *request, f *lifecycle.Fact) {
	r.stalled = true
	c := o.charges()
	who := partyOf(r)
	for _, pg := range r.resting() {
		c.add(finding.StalledReservation, f, who, pg, "the pages are reserved", "nothing was said of the request since")
	}
	o.say(c)
}
