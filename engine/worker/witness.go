package worker

import (
	"fmt"
	"time"

	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/scheduler"
)

// auditInterval is how often a pool's own count is told.
const auditInterval = time.Second

// witness opens the pools for whoever listens, and has their events told.
func (w *Worker) witness(kv, aux *kvcache.Config) (err error) {
	t := w.cfg.Witness
	if t == nil {
		return nil
	}
	if w.kvTold, err = t.PoolEvents("kv", w.kvSpec()); err != nil {
		return err
	}
	kv.Events = w.kvTold
	if w.cfg.Role == scheduler.Unified {
		return nil
	}
	// A slot is reserved and released like a page, and never shared. What is in it is told by no event.
	spec := lifecycle.PoolSpec{
		Pages: uint32(w.cfg.Slots), PageTokens: 1, Role: w.cfg.Role.String(), NullIDs: nullPage, Owes: lifecycle.OwesNone,
		Claims: lifecycle.Some([]lifecycle.Ev{lifecycle.PagesReserved, lifecycle.PagesShared, lifecycle.PagesReleased}),
	}
	if w.auxTold, err = t.PoolEvents("aux", spec); err != nil {
		return err
	}
	aux.Events = w.auxTold
	return nil
}

var nullPage = lifecycle.Runs{{First: uint32(kvcache.NullPage), Count: 1}}

func (w *Worker) kvSpec() lifecycle.PoolSpec {
	c := &w.cfg
	s := lifecycle.PoolSpec{
		Pages: uint32(c.Pages), PageTokens: int64(c.PageTokens), Role: c.Role.String(), NullIDs: nullPage,
		ContextTokens: lifecycle.Some(int64(c.ContextTokens)), DType: w.layout.DType, KVHeads: int64(w.layout.KVHeads),
		Layers: lifecycle.Some(lifecycle.Run{Count: uint32(w.layout.Layers)}),
	}
	for _, r := range w.be.Memory().Regions() {
		s.PageBytes += uint64(r.PageBytes)
		s.Regions = append(s.Regions, lifecycle.Region{
			Base: r.Base, Stride: uint64(r.Stride), Bytes: uint64(r.PageBytes), Layer: int64(r.Layer), Part: r.Part.String(),
		})
	}
	return s
}

// tellProtections says which protections are off: what is not said to have run
// counts as none.
func (w *Worker) tellProtections() {
	if w.cfg.Witness == nil {
		return
	}
	for p, on := range w.sched.Protections() {
		if !on {
			w.cfg.Witness.ProtectionState(kvcache.At{Now: Now()}, scheduler.Protection(p).String(), lifecycle.StateOff)
		}
	}
}

// TellDigest tells the digest of what was sent for a room from here, or lies here:
// a sum under a key that is drawn for each handoff and known to its two sides
// alone. Where the protection that compares them is off, nothing is told.
func (w *Worker) TellDigest(room scheduler.Room, side scheduler.Side, digest uint64) {
	if w.kvTold == nil {
		return
	}
	_ = w.post(func() { // once the worker is closed, nobody is told any more
		if w.sched.Protections()[scheduler.HandoffDigest] {
			at := kvcache.At{Now: Now(), Step: w.sched.StepID()}
			w.cfg.Witness.Digest(at, room, w.kvTold, side, fmt.Sprintf("%016x", digest))
		}
	})
}

// audit tells the pools' own counts.
func (w *Worker) audit() {
	at := kvcache.At{Now: Now(), Step: w.sched.StepID()}
	if w.kvTold != nil {
		w.kvTold.Audited(at, w.kv.Audit())
	}
	if w.auxTold != nil {
		w.auxTold.Audited(at, w.aux.Audit())
	}
}
