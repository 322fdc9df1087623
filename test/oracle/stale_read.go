package oracle

import (
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// waitingRead is a read with a step that found something unwritten: a write of
// the same step may still be told (hard case 9, R9).
type waitingRead struct {
	fact  *lifecycle.Fact
	inst  *instance
	due   int64
	parts []unwritten
	req   *request
	hand  *handoff                 // that it leads to the judgement of
	lay   map[*generation]*content // whose data lay then in what that lacks
}

// unwritten is a generation that was not written when it was read, and the
// charge that it makes if it stays so.
type unwritten struct {
	gen    *generation
	charge struck
	hit    []*request
}

// staleRead charges a request that reads, or sends, pages of its own that were
// not written in their present generation.
func (o *oracle) staleRead(f *lifecycle.Fact, who party, pages []*page, c *charges) {
	if f.Step.Has {
		return // it waits
	}
	for _, pg := range pages {
		if !o.written(pg.gen) && o.accuses(pg.gen) {
			c.add(finding.StaleRead, f, who, pg, "the page was read", "it was not written in this generation")
		}
	}
}

// unseenWrite: where a missing write does not accuse, the reader is
// unwitnessed.
func (o *oracle) unseenWrite(r *request, pages []*page) {
	for _, pg := range pages {
		if pg.gen.unknown && !r.handedOver() {
			r.blur("it read a page that was not known")
		} else if !o.written(pg.gen) && !o.accuses(pg.gen) {
			r.blurRead("whether a page that it read was written")
		}
	}
}

// waitForWrite sets a read with a step aside. h is the handoff that the read
// leads to the judgement of, nil where it does not.
func (o *oracle) waitForWrite(e *entry, who party, pages []*page, h *handoff) {
	w := &waitingRead{fact: e.Fact, inst: o.inst(e.Inst), due: plus(e.a, o.cfg.Settle), req: who.req, hand: h}
	for _, pg := range pages {
		if pg.gen.unknown || o.written(pg.gen) {
			continue
		}
		u := unwritten{gen: pg.gen, charge: struck{pg, o.lies(pg.gen)}}
		for _, ref := range pg.refs {
			if ref.req != nil && ref.req != who.req {
				u.hit = append(u.hit, ref.req)
			}
		}
		w.parts = append(w.parts, u)
	}
	if h != nil {
		w.lay = map[*generation]*content{}
		for _, l := range o.assess(h, e.Step).lacks {
			for _, g := range l.pages {
				if w.lay[g] = nil; g.page.gen == g { // else it was handed out again, and is read no more
					w.lay[g] = o.lies(g)
				}
			}
		}
	}
	if len(w.parts) > 0 || h != nil {
		o.waiting = append(o.waiting, w)
	}
}

// decideRead says what a read that waited has become.
func (o *oracle) decideRead(w *waitingRead) {
	o.waiting = slices.DeleteFunc(o.waiting, func(x *waitingRead) bool { return x == w })
	if w.hand != nil {
		o.readThen = w.lay
		o.judge(w.hand, w.fact, "its pages were read", w.fact.Step)
		o.readThen = nil
	}
	c := o.charges()
	who := o.by(w.fact)
	who.req, who.id = w.req, w.req.name()
	if w.req != nil {
		who.room = w.req.room
	}
	for _, u := range w.parts {
		switch {
		case o.claimedBy(u.gen, w.fact.Step) || o.stagedEnough(u.gen):
		case !o.accuses(u.gen):
			w.req.blurRead("whether a page that it read was written")
		default:
			ch := c.of(finding.StaleRead, w.fact, who, u.gen.page.pool.name)
			ch.claim, ch.observation = "the page was read", "it was not written in this generation"
			ch.strike(u.charge)
			ch.victims = append(ch.victims, u.hit...)
		}
	}
	o.say(c)
}

// laterStep decides the reads of an instance of a step before the one given.
func (o *oracle) laterStep(i *instance, step int64) {
	for _, w := range slices.Clone(o.waiting) {
		if w.inst == i && w.fact.Step.V < step {
			o.decideRead(w)
		}
	}
}

// staleSource charges a write whose bytes came from pages of the sender that
// were not written.
func (o *oracle) staleSource(f *lifecycle.Fact, writers []*transfer, c *charges) {
	for _, pg := range o.sourcePages(f) {
		if o.written(pg.gen) || !o.accuses(pg.gen) {
			continue
		}
		who := party{inst: f.From}
		if r := o.senderOf(pg, writers); r != nil {
			who = partyOf(r)
		}
		c.add(finding.StaleRead, f, who, pg, "the transfer's source", "it was not written in this generation")
	}
}

// senderOf is whose bytes came from a page: the sending request of the
// transfer, else the page's only holder.
func (o *oracle) senderOf(pg *page, writers []*transfer) *request {
	if len(writers) == 1 {
		if r := o.sends(writers[0]); r != nil {
			return r
		}
	}
	if len(pg.refs) == 1 {
		return pg.refs[0].req
	}
	return nil
}
