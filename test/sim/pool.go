package sim

import (
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// pool is the true state of an instance's pool.
type pool struct {
	in      *instance
	name    string
	spec    lifecycle.PoolSpec
	pages   []page
	lies    bool   // its audits are wrong for good
	staging uint64 // where the next staged transfer lands
}

type page struct {
	holders []*half
	cached  bool
	unknown bool // since attach, or a gap
	null    bool
	written bool
	readyAt int64 // before it may be filled or read in a new generation
	busy    int   // transfers that name it and are not drained
	local   bool  // written by forward, reload or copy
}

func (pg *page) free() bool { return !pg.null && !pg.cached && len(pg.holders) == 0 && pg.busy == 0 }

// claimable is what an engine's stream can promise, but for pages_written.
var claimable = []lifecycle.Ev{
	lifecycle.RequestAdmitted, lifecycle.RequestRejected, lifecycle.RequestAborted, lifecycle.RequestFinished,
	lifecycle.PagesReserved, lifecycle.PagesShared, lifecycle.PagesCopied, lifecycle.PagesRead, lifecycle.PagesCached,
	lifecycle.PagesReleased, lifecycle.PagesEvicted, lifecycle.TransferStarted, lifecycle.TransferCompleted,
}

// addPools gives the instance the pools of the cluster's layout.
func (in *instance) addPools() {
	l := &in.s.layout
	size := func(low, high int64) uint32 { return uint32(in.s.between(low, high)) + l.nulls }
	in.addPool("kv", size(60, 160), lifecycle.OwesAll)
	if l.window > 0 {
		in.addPool("swa", size(40, 60), lifecycle.OwesWindow)
	}
	if l.state {
		in.addPool("state", size(30, 40), lifecycle.OwesState)
	}
	if l.aux && in.role != both {
		in.addPool("aux", size(30, 40), lifecycle.OwesNone)
	}
	if l.host {
		in.addPool("host", size(60, 90), lifecycle.OwesNone)
	}
}

func (in *instance) addPool(name string, pages uint32, owes lifecycle.Owes) {
	l := &in.s.layout
	p := &pool{in: in, name: name, pages: make([]page, pages)}
	p.spec = lifecycle.PoolSpec{Pages: pages, PageTokens: l.pageTokens, Role: name, Owes: owes, Claims: in.claims()}
	switch name {
	case "swa":
		p.spec.Window = l.window
	case "state", "aux":
		p.spec.PageTokens = 1
	}
	if l.nulls > 0 {
		p.spec.NullIDs = lifecycle.Runs{{First: 0, Count: l.nulls}}
	}
	p.spec.PIDs = []int64{in.pid}
	in.place(p)
	p.reset()
	in.pools = append(in.pools, p)
}

func (in *instance) claims() lifecycle.Opt[[]lifecycle.Ev] {
	switch {
	case in.unnamed:
		list := without(claimable, lifecycle.TransferStarted)
		if in.written {
			list = append(list, lifecycle.PagesWritten)
		}
		return lifecycle.Some(list)
	case !in.written:
		return lifecycle.Some(claimable)
	case in.s.chance(0.5):
		return lifecycle.Some(append(slices.Clone(claimable), lifecycle.PagesWritten))
	}
	return lifecycle.Opt[[]lifecycle.Ev]{}
}

// ranks is how many ranks share the heads among them.
func (in *instance) ranks() int64 {
	l := &in.s.layout
	switch {
	case l.dummy || in.role == both:
		return 1
	case in.role == prefill:
		return int64(l.senders)
	}
	return int64(l.receivers)
}

// place lays the pool's regions out in memory.
func (in *instance) place(p *pool) {
	l := &in.s.layout
	region := func(layer int64, part string, bytes, pad uint64) {
		stride := bytes + pad
		p.spec.Regions = append(p.spec.Regions, lifecycle.Region{Base: in.top, Stride: stride, Bytes: bytes, Layer: layer, Part: part})
		in.top += (stride*uint64(p.spec.Pages) + 1<<21) &^ (1<<20 - 1)
	}
	switch p.name {
	case "host":
		return // never a target
	case "aux":
		region(0, "kv", 512, 0)
		return
	}
	heads := l.heads / in.ranks()
	bytes := uint64(p.spec.PageTokens) * uint64(heads) * l.headBytes
	for layer := range int64(l.layers) {
		for _, part := range l.parts {
			region(layer, part, bytes, l.stridePad)
			p.spec.PageBytes += bytes
		}
	}
	p.spec.DType, p.spec.KVHeads = pick(in.s, []string{"bf16", "bfloat16", "BF16"}), heads
	p.spec.Layers = lifecycle.Some(lifecycle.Run{Count: l.layers})
	if in.staged && p.name == "kv" {
		p.spec.Path = lifecycle.PathStaged
		p.staging = in.top
		in.top += 1 << 30
		p.spec.Regions = append(p.spec.Regions, lifecycle.Region{Base: p.staging, Stride: 1 << 20, Bytes: 1 << 20, Part: "staging"})
	}
}

func (p *pool) reset() {
	for i := range p.pages {
		p.pages[i] = page{null: uint32(i) < p.in.s.layout.nulls}
	}
}

func (in *instance) pool(name string) *pool {
	for _, p := range in.pools {
		if p.name == name {
			return p
		}
	}
	return nil
}

// freePages finds n pages to hand out, evicting from the prefix cache where
// there are too few; nil if there are not enough.
func (p *pool) freePages(n int) []uint32 {
	for {
		var free []uint32
		for i := range p.pages {
			if p.pages[i].free() && (p.pages[i].readyAt <= p.in.s.now || p.in.s.chance(0.3)) {
				free = append(free, uint32(i))
			}
		}
		if len(free) >= n {
			return p.choose(free, n)
		}
		if !p.in.evict() {
			return nil
		}
	}
}

// choose takes a run where it is asked to, else what comes.
func (p *pool) choose(free []uint32, n int) []uint32 {
	s := p.in.s
	if s.chance(0.5) {
		at := s.upTo(len(free) - n)
		return free[at : at+n]
	}
	s.rng.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
	return free[:n]
}

func runs(pages []uint32) (rs lifecycle.Runs) {
	rs = lifecycle.Runs{}
	for _, p := range pages {
		rs = rs.Append(p)
	}
	return rs
}

// pagesOf is the number of pages that so many tokens take.
func (p *pool) pagesOf(tokens int64) int {
	return int((tokens + p.spec.PageTokens - 1) / p.spec.PageTokens)
}
