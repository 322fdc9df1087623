package follow

import (
	"sync"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/source/engineinfo"
)

// Bounds of what one engine may name. The judge has the same bounds over all
// engines; without these one engine could use them up.
const (
	// MaxPools is how many pools an engine has at a time.
	MaxPools = 64
	// MaxPeers is how many other instances an engine may name in all.
	MaxPeers = 256
)

// Kind is the kind of a pool, as metrics name it: a closed set.
type Kind uint8

// The kinds of pools; Other is any that is called otherwise.
const (
	KV Kind = iota
	SWA
	Rope
	Index
	StatePool
	HostPool
	Aux
	OtherKind
	NumKind
)

var kindNames = [NumKind]string{"kv", "swa", "rope", "index", "state", "host", "aux", "other"}

func (k Kind) String() string { return kindNames[k] }

func kindOf(pool string) Kind {
	for k, name := range kindNames {
		if name == pool {
			return Kind(k)
		}
	}
	return OtherKind
}

// Pool is what an engine says of its pools of one kind, in pages.
type Pool struct {
	Open  bool
	Pages int64
	Audit lifecycle.Opt[lifecycle.Audit]
}

// Pages counts what an engine said of pages.
type Pages struct {
	ReservedLive   uint64 // handed out to requests
	ReservedCached uint64 // handed out to the prefix cache
	Targeted       uint64 // named by a receiver as the targets of a transfer
	Written        [5]uint64
	Read           uint64
	Shared         uint64
	Cached         uint64
	Released       uint64
	Evicted        uint64
}

// Said is what an engine said of itself in its stream.
type Said struct {
	Pages       Pages
	Pools       [NumKind]Pool
	Protections [engineinfo.NumProtection]lifecycle.Opt[lifecycle.State]
}

// guard looks at each fact as it passes: it counts, and refuses what is beyond
// the bounds of one engine.
type guard struct {
	maxPages int

	mu    sync.Mutex
	said  Said
	epoch lifecycle.Opt[uint64]
	pools map[string]opened
	pages int
	peers map[string]struct{}
}

type opened struct {
	pages int
	audit lifecycle.Opt[lifecycle.Audit]
}

func newGuard(maxPages int) *guard {
	return &guard{maxPages: maxPages, pools: map[string]opened{}, peers: map[string]struct{}{}}
}

// pass reports why a fact may not go on.
func (g *guard) pass(f *lifecycle.Fact) (why Loss, refused bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f.Epoch != g.epoch {
		g.restart(f.Epoch)
	}
	if f.Peer != "" {
		if _, known := g.peers[f.Peer]; !known && len(g.peers) >= MaxPeers {
			return TooManyPeers, true
		}
		g.peers[f.Peer] = struct{}{}
	}
	switch f.Ev {
	case lifecycle.PoolOpened:
		return g.open(f)
	case lifecycle.PoolClosed:
		g.pages -= g.pools[f.Pool].pages
		delete(g.pools, f.Pool)
		g.sum()
	case lifecycle.PoolAudit:
		if p, known := g.pools[f.Pool]; known && f.Audit != nil {
			p.audit = lifecycle.Some(*f.Audit)
			g.pools[f.Pool] = p
			g.sum()
		}
	case lifecycle.Protection:
		for i, name := range engineinfo.Protections {
			if name == f.Protection {
				g.said.Protections[i] = lifecycle.Some(f.State)
			}
		}
	default:
		g.count(f)
	}
	return 0, false
}

func (g *guard) restart(epoch lifecycle.Opt[uint64]) {
	g.epoch, g.pages = epoch, 0
	clear(g.pools)
	g.said.Protections = Said{}.Protections
	g.sum()
}

func (g *guard) open(f *lifecycle.Fact) (why Loss, refused bool) {
	if _, known := g.pools[f.Pool]; known || f.Spec == nil {
		return 0, false
	}
	pages := int(f.Spec.Pages)
	switch {
	case len(g.pools) >= MaxPools:
		return TooManyPools, true
	case g.pages+pages > g.maxPages:
		return TooManyPages, true
	}
	g.pools[f.Pool] = opened{pages: pages}
	g.pages += pages
	g.sum()
	return 0, false
}

// sum adds up the pools by their kinds.
func (g *guard) sum() {
	g.said.Pools = Said{}.Pools
	for name, p := range g.pools {
		k := &g.said.Pools[kindOf(name)]
		k.Open = true
		k.Pages += int64(p.pages)
		if a := p.audit; a.Has {
			k.Audit.Has = true
			k.Audit.V.Free += a.V.Free
			k.Audit.V.Cached += a.V.Cached
			k.Audit.V.Held += a.V.Held
			k.Audit.V.PendingDrain += a.V.PendingDrain
		}
	}
}

// count adds to what was said of pages.
func (g *guard) count(f *lifecycle.Fact) {
	n, p := uint64(f.Pages.Pages()), &g.said.Pages
	switch f.Ev {
	case lifecycle.PagesReserved:
		if f.Holder == "cache" {
			p.ReservedCached += n
		} else {
			p.ReservedLive += n
		}
	case lifecycle.TransferStarted:
		if f.Side == lifecycle.Receiver {
			p.Targeted += n
		}
	case lifecycle.PagesWritten:
		p.Written[f.By] += n
	case lifecycle.PagesRead:
		p.Read += n
	case lifecycle.PagesShared:
		p.Shared += n
	case lifecycle.PagesCached:
		p.Cached += n
	case lifecycle.PagesReleased:
		p.Released += n
	case lifecycle.PagesEvicted:
		p.Evicted += n
	}
}

func (g *guard) read() Said {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.said
}
