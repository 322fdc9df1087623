package oracle

import (
	"cmp"
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// entry is a fact that arrived.
type entry struct {
	*lifecycle.Fact
	a int64 // its time: t less the offset of its node's clock
	n int   // the order of arrival
}

// epoch is a restart of an instance; none is the one of which nobody said the
// number.
type epoch = lifecycle.Opt[uint64]

type streamKey struct {
	inst  string
	epoch epoch
	src   lifecycle.Src
}

// stream is what was numbered in one stream (R2).
type stream struct {
	begun    bool
	top      uint64 // the highest number applied
	seen     spans  // numbers that came, in time or late
	reported spans  // numbers that a finding said are missing
}

func (o *oracle) stream(k streamKey) *stream {
	if o.streams[k] == nil {
		o.streams[k] = &stream{}
	}
	return o.streams[k]
}

// arrive takes one fact, and applies whatever need not wait any longer (R1).
func (o *oracle) arrive(f *lifecycle.Fact) {
	if f.Ev == lifecycle.ClockOffset {
		o.offsets[f.Node] = f.NS
	}
	e := &entry{Fact: f, a: minus(f.T, o.offsets[f.Node]), n: o.arrived}
	o.arrived++
	if o.isDuplicate(e) || o.isOver(e) {
		return
	}
	late := o.begun && e.a < minus(o.highest, o.cfg.Settle) || o.isOvertaken(e)
	if !o.begun || e.a > o.highest {
		o.highest, o.begun = e.a, true
	}
	if late {
		o.late(e)
	} else {
		at, _ := slices.BinarySearchFunc(o.window, e, byTime)
		o.window = slices.Insert(o.window, at, e)
		if e.Ev == lifecycle.PoolOpened && e.Epoch.Has {
			o.openings = append(o.openings, e)
		}
	}
	o.applyUpTo(minus(o.highest, o.cfg.Settle))
}

// epochOf is the epoch that e belongs to: its own, or the current one at its
// time.
func (o *oracle) epochOf(e *entry) epoch {
	if e.Epoch.Has {
		return e.Epoch
	}
	current := o.inst(e.Inst).epoch
	var opening *entry
	for _, w := range o.openings {
		if w.Inst != e.Inst || w.a > e.a || o.isOver(w) {
			continue
		}
		if opening == nil || w.a >= opening.a {
			opening = w
		}
	}
	if opening != nil {
		return opening.Epoch
	}
	return current
}

func (o *oracle) keyOf(e *entry) streamKey { return streamKey{e.Inst, o.epochOf(e), e.Src} }

// isDuplicate: a seq seen before.
func (o *oracle) isDuplicate(e *entry) bool {
	if !e.Seq.Has {
		return false
	}
	k := o.keyOf(e)
	if o.stream(k).seen.covers(e.Seq.V, e.Seq.V+1) {
		return true
	}
	return slices.ContainsFunc(o.window, func(w *entry) bool {
		return w.Seq == e.Seq && o.sameStream(w, e)
	})
}

// isOver: of an epoch that a newer pool_opened has ended.
func (o *oracle) isOver(e *entry) bool {
	return e.Epoch.Has && o.inst(e.Inst).over[e.Epoch.V]
}

// isOvertaken: a number that comes after a higher one of its stream was
// applied.
func (o *oracle) isOvertaken(e *entry) bool {
	if !e.Seq.Has {
		return false
	}
	s := o.stream(o.keyOf(e))
	return s.begun && e.Seq.V < s.top
}

// applyUpTo applies everything up to a time, batch by batch.
func (o *oracle) applyUpTo(limit int64) {
	for batch := o.nextBatch(limit); len(batch) > 0; batch = o.nextBatch(limit) {
		applied := func(w *entry) bool { return slices.Contains(batch, w) }
		o.window = slices.DeleteFunc(o.window, applied)
		o.openings = slices.DeleteFunc(o.openings, applied)
		if o.applied == 0 || batch[0].a > o.now {
			o.now = batch[0].a
		}
		o.judgeDue(o.now, batch[0])
		o.applyBatch(batch)
	}
}

// nextBatch is the earliest fact of the window that no lower number of its
// stream holds back, and the facts that have no order with it (R3): of equal
// inst, src, epoch and t. It is in the order of arrival.
func (o *oracle) nextBatch(limit int64) []*entry {
	together := func(w, x *entry) bool { return w.T == x.T && x.a <= limit && o.sameStream(w, x) }
	heldBack := func(w *entry) bool {
		return w.Seq.Has && slices.ContainsFunc(o.window, func(x *entry) bool {
			return x.Seq.Has && x.Seq.V < w.Seq.V && o.sameStream(w, x) && !together(w, x)
		})
	}
	for _, first := range o.window {
		if first.a > limit {
			break
		}
		if heldBack(first) {
			continue
		}
		var batch []*entry
		for _, w := range o.window {
			if w == first || together(first, w) && !heldBack(w) {
				batch = append(batch, w)
			}
		}
		slices.SortFunc(batch, func(a, b *entry) int { return cmp.Compare(a.n, b.n) })
		return batch
	}
	return nil
}

func (o *oracle) sameStream(w, x *entry) bool {
	return w.Inst == x.Inst && w.Src == x.Src && o.epochOf(w) == o.epochOf(x)
}

// byTime is the order of the window; what arrived first comes first of equals.
func byTime(a, b *entry) int { return cmp.Or(cmp.Compare(a.a, b.a), cmp.Compare(a.n, b.n)) }
