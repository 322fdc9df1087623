package daemon

import (
	"sync"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// extents are how far the regions of pools reach, as this node's instances say in their
// own streams. It is safe for concurrent use.
type extents struct {
	node string

	mu  sync.Mutex
	all map[string]extent
}

// extent is what one instance says.
type extent struct {
	epoch lifecycle.Opt[uint64]
	pools map[string][]lifecycle.Region // of which Bytes are those of the whole region
}

func newExtents(node string) *extents { return &extents{node: node, all: map[string]extent{}} }

// note takes in what opens and closes pools. Another epoch begins anew.
func (e *extents) note(f *lifecycle.Fact) {
	if f.Src != lifecycle.Engine || f.Node != "" && f.Node != e.node || f.Ev != lifecycle.PoolOpened && f.Ev != lifecycle.PoolClosed {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	x, known := e.all[f.Inst]
	if !known || f.Epoch.Has && f.Epoch != x.epoch {
		if !known && len(e.all) == maxOpenings {
			return
		}
		x = extent{epoch: f.Epoch, pools: map[string][]lifecycle.Region{}}
		e.all[f.Inst] = x
	}
	_, known = x.pools[f.Pool]
	switch {
	case f.Ev == lifecycle.PoolClosed:
		delete(x.pools, f.Pool)
	case !known && f.Spec != nil && f.Spec.Pages > 0 && len(x.pools) < maxOpened && len(f.Spec.Regions) <= maxRegions:
		x.pools[f.Pool] = wholeRegions(f.Spec)
	}
}

func wholeRegions(s *lifecycle.PoolSpec) []lifecycle.Region {
	all := make([]lifecycle.Region, len(s.Regions))
	for n, r := range s.Regions {
		all[n] = lifecycle.Region{Base: r.Base, Bytes: r.Stride*uint64(s.Pages-1) + r.Bytes}
	}
	return all
}

// of is how many bytes the region takes that begins at an address: see proven.Config.
func (e *extents) of(inst string, base uint64) (bytes uint64, known bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, regions := range e.all[inst].pools {
		for _, r := range regions {
			if r.Base == base {
				bytes, known = max(bytes, r.Bytes), true
			}
		}
	}
	return bytes, known
}
