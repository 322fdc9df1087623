package web

import (
	"cmp"
	"slices"
	"sync"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// Bounds of what is known of handoffs.
const (
	maxRunning = 1 << 10
	maxEnded   = 64
	maxTargets = 1 << 16
	maxSpecs   = 1 << 10
)

// Handoff is one that ended, or is under way: pages that its receiver reserved for
// it, that were written into it as claimed, that were seen to arrive (bytes, in
// pages), and that were read.
type Handoff struct {
	ID       uint64  `json:"id"`
	Room     string  `json:"room"`
	Req      string  `json:"req,omitzero"`
	Inst     string  `json:"inst"`
	Peer     string  `json:"peer,omitzero"`
	Reserved int     `json:"reserved"`
	Written  int     `json:"written"`
	Seen     float64 `json:"seen"`
	Read     int     `json:"read"`
	Verdict  string  `json:"verdict,omitzero"` // empty: it is under way
	Why      string  `json:"why,omitzero"`

	targets []target
}

type (
	roomOf  struct{ inst, room string }
	reqOf   struct{ inst, req string }
	poolOf  struct{ inst, pool string }
	pageTo  struct{ inst, pool, page uint32 }
	target  = pageTo
	stretch struct {
		base, stride, end uint64
		pool              uint32
	}
	poolSpec struct {
		number uint32
		bytes  float64 // of a page, over all regions
	}
)

// Flow follows handoffs. Its methods may be called from any goroutine.
type Flow struct {
	mu      sync.Mutex
	next    uint64
	running map[roomOf]*Handoff
	byReq   map[reqOf]*Handoff
	byPage  map[target]*Handoff
	order   []roomOf // of running ones, the oldest first; may name what has ended
	ended   []Handoff
	pools   map[poolOf]poolSpec
	regions map[uint32][]stretch // by instance, sorted
	numbers map[string]uint32    // of instances and pools
	version uint64
}

// NewFlow has seen nothing.
func NewFlow() *Flow {
	return &Flow{
		running: map[roomOf]*Handoff{}, byReq: map[reqOf]*Handoff{}, byPage: map[target]*Handoff{},
		pools: map[poolOf]poolSpec{}, regions: map[uint32][]stretch{}, numbers: map[string]uint32{},
	}
}

// Facts takes in what the judge took.
func (w *Flow) Facts(all []*lifecycle.Fact) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range all {
		switch f.Ev {
		case lifecycle.PoolOpened:
			w.opened(f)
		case lifecycle.TransferStarted:
			w.started(f)
		case lifecycle.PagesWritten:
			if h := w.of(f); h != nil && f.By == lifecycle.ByTransfer {
				h.Written += f.Pages.Pages()
				w.version++
			}
		case lifecycle.PagesRead:
			if h := w.of(f); h != nil {
				h.Read = max(h.Read, f.Pages.Pages())
				w.version++
			}
		case lifecycle.BytesMoved:
			w.moved(f)
		}
	}
}

func (w *Flow) of(f *lifecycle.Fact) *Handoff {
	if f.Room != "" {
		if h := w.running[roomOf{f.Inst, f.Room}]; h != nil {
			return h
		}
	}
	return w.byReq[reqOf{f.Inst, f.Req}]
}

func (w *Flow) number(name string) uint32 {
	n, known := w.numbers[name]
	if !known && len(w.numbers) < 2*maxSpecs {
		n = uint32(len(w.numbers) + 1)
		w.numbers[name] = n
	}
	return n
}

// opened learns where the pages of a pool lie.
func (w *Flow) opened(f *lifecycle.Fact) {
	at := poolOf{f.Inst, f.Pool}
	if _, known := w.pools[at]; f.Spec == nil || known || len(w.pools) >= maxSpecs {
		return
	}
	p := poolSpec{number: w.number(f.Inst + "\x00" + f.Pool)}
	inst := w.number(f.Inst)
	for _, r := range f.Spec.Regions {
		if r.Stride == 0 {
			continue
		}
		p.bytes += float64(r.Bytes)
		w.regions[inst] = append(w.regions[inst], stretch{r.Base, r.Stride, r.Base + r.Stride*uint64(f.Spec.Pages), p.number})
	}
	slices.SortFunc(w.regions[inst], func(a, b stretch) int { return cmp.Compare(a.base, b.base) })
	w.pools[at] = p
}

// started begins a handoff, or adds to one.
func (w *Flow) started(f *lifecycle.Fact) {
	if f.Side != lifecycle.Receiver || f.Room == "" || len(f.Pages) == 0 {
		return
	}
	at := roomOf{f.Inst, f.Room}
	h := w.running[at]
	if h == nil {
		if len(w.running) >= maxRunning {
			w.forget()
		}
		w.next++
		h = &Handoff{ID: w.next, Room: f.Room, Inst: f.Inst}
		w.running[at] = h
		w.order = append(w.order, at)
	}
	h.Peer = cmp.Or(f.Peer, h.Peer)
	if f.Req != "" {
		h.Req = f.Req
		w.byReq[reqOf{f.Inst, f.Req}] = h
	}
	h.Reserved += f.Pages.Pages()
	inst, pool := w.number(f.Inst), w.number(f.Inst+"\x00"+f.Pool)
	for _, r := range f.Pages {
		for p := r.First; p < r.End() && len(w.byPage) < maxTargets; p++ {
			t := target{inst, pool, p}
			w.byPage[t] = h
			h.targets = append(h.targets, t)
		}
	}
	w.version++
}

// moved adds bytes that arrived to the handoff whose pages they fell into.
func (w *Flow) moved(f *lifecycle.Fact) {
	if f.Outcome == lifecycle.Errored || f.Outcome == lifecycle.Posted {
		return
	}
	inst := w.numbers[f.Inst]
	all := w.regions[inst]
	n, exact := slices.BinarySearchFunc(all, f.Addr, func(s stretch, at uint64) int { return cmp.Compare(s.base, at) })
	if !exact {
		n--
	}
	if n < 0 || f.Addr >= all[n].end {
		return
	}
	page := uint32((f.Addr - all[n].base) / all[n].stride)
	h := w.byPage[target{inst, all[n].pool, page}]
	if h == nil {
		return
	}
	for at, p := range w.pools {
		if p.number == all[n].pool && at.inst == f.Inst && p.bytes > 0 {
			h.Seen += float64(f.Bytes) / p.bytes
			w.version++
			return
		}
	}
}

// Verdict ends a handoff.
func (w *Flow) Verdict(v *finding.Verdict) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := roomOf{v.Inst, v.Room}
	h := w.running[at]
	if h == nil {
		for i := range w.ended { // a later violation
			if e := &w.ended[i]; e.Room == v.Room && e.Inst == v.Inst && v.Room != "" {
				e.Verdict, e.Why = v.Verdict.String(), v.Why
				w.version++
			}
		}
		return
	}
	h.Verdict, h.Why = v.Verdict.String(), v.Why
	w.end(at, h)
}

func (w *Flow) end(at roomOf, h *Handoff) {
	for _, t := range h.targets {
		if w.byPage[t] == h {
			delete(w.byPage, t)
		}
	}
	delete(w.running, at)
	if w.byReq[reqOf{h.Inst, h.Req}] == h {
		delete(w.byReq, reqOf{h.Inst, h.Req})
	}
	h.targets = nil
	w.ended = append(w.ended, *h)
	if len(w.ended) > maxEnded {
		w.ended = slices.Clone(w.ended[len(w.ended)-maxEnded:])
	}
	if len(w.order) > 2*maxRunning {
		w.order = slices.DeleteFunc(w.order, func(at roomOf) bool { return w.running[at] == nil })
	}
	w.version++
}

// forget lets the oldest handoff go without a verdict.
func (w *Flow) forget() {
	for len(w.order) > 0 {
		at := w.order[0]
		w.order = w.order[1:]
		if h := w.running[at]; h != nil {
			h.Why = "too many handoffs are under way to follow"
			w.end(at, h)
			return
		}
	}
}

// Recent are the last handoffs, those under way first and then the newest, at most n,
// and a number that changes with them.
func (w *Flow) Recent(n int) (all []Handoff, version uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, at := range slices.Backward(w.order) {
		if h := w.running[at]; h != nil && len(all) < n/2 {
			one := *h
			one.targets = nil
			all = append(all, one)
		}
	}
	for _, h := range slices.Backward(w.ended) {
		if len(all) < n {
			all = append(all, h)
		}
	}
	return all, w.version
}
