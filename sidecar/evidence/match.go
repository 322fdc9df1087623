package evidence

import (
	"cmp"
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// Bounds of what one incident is recognised by.
const (
	maxNames   = 256
	maxRuns    = 1 << 12
	maxStretch = 1 << 14
)

// interest recognises the facts of an incident: those of its request, room and
// transfers, those about its pages, and those about the sight of its instances.
type interest struct {
	rooms, xfers map[string]bool
	reqs         map[holder]bool
	insts        map[string]bool
	pages        map[place]lifecycle.Runs
	stretches    map[string][]stretch // by instance, sorted
	runs         int
}

type holder struct{ inst, req string }

type place struct{ inst, pool string }

// stretch is addresses from first up to, but without, end.
type stretch struct{ first, end uint64 }

func newInterest() *interest {
	return &interest{
		rooms: map[string]bool{}, xfers: map[string]bool{}, reqs: map[holder]bool{}, insts: map[string]bool{},
		pages: map[place]lifecycle.Runs{}, stretches: map[string][]stretch{},
	}
}

func note[K comparable](set map[K]bool, k, nothing K) {
	if k != nothing && len(set) < maxNames {
		set[k] = true
	}
}

// add takes in what a finding names; spec is what is known of its pool, or nil.
func (w *interest) add(f *finding.Finding, spec *lifecycle.PoolSpec) {
	note(w.rooms, f.Room, "")
	note(w.insts, f.Inst, "")
	if f.Req != "" {
		note(w.reqs, holder{f.Inst, f.Req}, holder{})
	}
	at := place{f.Inst, f.Pool}
	for _, r := range f.Pages {
		if w.runs >= maxRuns || slices.Contains(w.pages[at], r) {
			continue
		}
		w.runs++
		w.pages[at] = append(w.pages[at], r)
		w.stretch(f.Inst, r, spec)
	}
	slices.SortFunc(w.stretches[f.Inst], func(a, b stretch) int { return cmp.Compare(a.first, b.first) })
}

// stretch notes where a run of pages lies in memory.
func (w *interest) stretch(inst string, r lifecycle.Run, spec *lifecycle.PoolSpec) {
	if spec == nil {
		return
	}
	for _, region := range spec.Regions {
		if len(w.stretches[inst]) >= maxStretch {
			return
		}
		first := region.Base + uint64(r.First)*region.Stride
		w.stretches[inst] = append(w.stretches[inst], stretch{first, first + uint64(r.Count-1)*region.Stride + region.Bytes})
	}
}

// wants reports whether a fact belongs to the incident, and learns its transfers.
func (w *interest) wants(f *lifecycle.Fact) bool {
	switch f.Ev {
	case lifecycle.StreamGap, lifecycle.EventsLost, lifecycle.SourceCoverage, lifecycle.PeerGone, lifecycle.Protection:
		return f.Inst == "" || w.insts[f.Inst] || w.insts[f.Peer]
	case lifecycle.PoolOpened, lifecycle.PoolClosed:
		return w.insts[f.Inst]
	case lifecycle.BytesMoved:
		return f.Xfer != "" && w.xfers[f.Xfer] || w.hits(f)
	}
	if f.Room != "" && w.rooms[f.Room] {
		note(w.xfers, f.Xfer, "")
		note(w.insts, f.Inst, "")
		note(w.insts, f.Peer, "")
		if f.Req != "" {
			note(w.reqs, holder{f.Inst, f.Req}, holder{})
		}
		return true
	}
	if f.Req != "" && w.reqs[holder{f.Inst, f.Req}] {
		return true
	}
	return overlap(w.pages[place{f.Inst, f.Pool}], f.Pages) ||
		overlap(w.pages[place{f.Inst, f.CopyTo.Pool}], f.CopyTo.Pages) || overlap(w.pages[place{f.Inst, f.CopyFrom.Pool}], f.CopyFrom.Pages)
}

// hits reports whether bytes came to the pages.
func (w *interest) hits(f *lifecycle.Fact) bool {
	all := w.stretches[f.Inst]
	n, _ := slices.BinarySearchFunc(all, f.Addr+f.Bytes, func(s stretch, end uint64) int { return cmp.Compare(s.first, end) })
	for n--; n >= 0; n-- {
		if all[n].end > f.Addr {
			return true
		}
		if f.Addr-all[n].first > 1<<32 { // pages are smaller
			return false
		}
	}
	return false
}

func overlap(a, b lifecycle.Runs) bool {
	for _, x := range a {
		for _, y := range b {
			if x.First < y.End() && y.First < x.End() {
				return true
			}
		}
	}
	return false
}
