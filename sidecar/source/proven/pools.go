package proven

import (
	"fmt"
	"math"
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	wire "github.com/kvwitness/kvwitness/engine/pdwire"
)

const (
	// maxGuess bounds the pages of a pool whose size nobody said.
	maxGuess = 1 << 18
)

// registered takes over the pools that an instance registered with a peer. One
// that registers others than before has restarted.
func (s *State) registered(i, peer *instance, pools []pool, staged bool) {
	known := s.layout(i, peer)
	for n := range pools {
		p := &pools[n]
		p.Since = lifecycle.SinceAttach
		p.PageTokens = known.PageTokens
		p.Pages = known.Pages
		if p.Pages == 0 {
			p.Pages, p.guessed = guess(p.Regions), true
		}
	}
	i.staged = staged
	if i.opened && slices.EqualFunc(i.pools, pools, sameRegions) {
		return
	}
	s.closePools(i)
	i.pools, i.opened, i.given, i.spans, i.exact = pools, true, false, spansOf(pools), nil
	defer s.poolsGiven(i)
	if s.cfg.Followed(i.name) {
		return
	}
	for n := range pools {
		spec := pools[n].PoolSpec
		s.emit(&lifecycle.Fact{Inst: i.name, Src: lifecycle.Wire, Ev: lifecycle.PoolOpened, Pool: pools[n].name, Spec: &spec})
	}
}

func sameRegions(a, b pool) bool {
	return a.name == b.name && slices.Equal(a.Regions, b.Regions)
}

// closePools says that an instance's pools are gone.
func (s *State) closePools(i *instance) {
	if !i.opened {
		return
	}
	if !s.cfg.Followed(i.name) {
		for _, p := range i.pools {
			s.emit(&lifecycle.Fact{Inst: i.name, Src: lifecycle.Wire, Ev: lifecycle.PoolClosed, Pool: p.name})
		}
	}
	i.pools, i.opened, i.spans, i.exact = nil, false, nil, nil
	for _, name := range peers(i) {
		for w := range numWays {
			if l := i.links[name]; l.ways[w].covered {
				s.withdraw(l, w, "its memory was registered anew")
			}
		}
	}
}

// layout is what is known of an instance's pool, else of its peer's: prefill and
// decode have pages of the same tokens.
func (s *State) layout(i, peer *instance) Layout {
	known := s.cfg.Known(i.name)
	if known.PageTokens == 0 {
		known.PageTokens = s.cfg.Known(peer.name).PageTokens
	}
	return known
}

// guess bounds the pages of a pool by the distance between its regions.
func guess(regions []lifecycle.Region) uint32 {
	bases := make([]uint64, len(regions))
	for n, r := range regions {
		bases[n] = r.Base
	}
	slices.Sort(bases)
	least := uint64(maxGuess)
	for n := range len(bases) - 1 {
		if gap := bases[n+1] - bases[n]; gap > 0 {
			least = min(least, gap/regions[0].Stride)
		}
	}
	return uint32(max(least, 1))
}

// regionsOf lays out a list of base addresses.
func regionsOf(bases, bytes []uint64, layers []int64) ([]lifecycle.Region, error) {
	if len(bases) == 0 || len(bases) > lifecycle.MaxList || len(bytes) != len(bases) {
		return nil, fmt.Errorf("%d regions with %d lengths, at most %d", len(bases), len(bytes), lifecycle.MaxList)
	}
	nth := map[int64]int{}
	out := make([]lifecycle.Region, len(bases))
	for n, base := range bases {
		if bytes[n] == 0 || bytes[n] > lifecycle.MaxBytes || base > math.MaxInt64-lifecycle.MaxBytes {
			return nil, fmt.Errorf("a region of %d bytes a page at %#x", bytes[n], base)
		}
		layer := int64(n)
		if n < len(layers) {
			layer = layers[n]
		}
		nth[layer]++
		out[n] = lifecycle.Region{Base: base, Stride: bytes[n], Bytes: bytes[n], Layer: layer, Part: "kv"}
	}
	nameParts(out, nth)
	return out, nil
}

// nameParts tells keys from values where every layer has two regions.
func nameParts(regions []lifecycle.Region, nth map[int64]int) {
	for _, n := range nth {
		if n != 2 {
			return
		}
	}
	seen := map[int64]bool{}
	for n := range regions {
		r := &regions[n]
		r.Part = "k"
		if seen[r.Layer] {
			r.Part = "v"
		}
		seen[r.Layer] = true
	}
}

// ofSGLang are the pools of a registration.
func ofSGLang(r *wire.Registration) ([]pool, error) {
	bytes := make([]uint64, len(r.KVPtrs))
	layers := make([]int64, len(r.KVLayerIDs))
	for n := range bytes {
		bytes[n] = r.KVItemBytes
	}
	for n, id := range r.KVLayerIDs {
		layers[n] = int64(id)
	}
	regions, err := regionsOf(r.KVPtrs, bytes, layers)
	if err != nil {
		return nil, err
	}
	return []pool{{name: "kv", PoolSpec: lifecycle.PoolSpec{Regions: regions}}}, nil
}

// groupPool is the pool of one of vLLM's KV cache groups.
func groupPool(group int64) string {
	if group == 0 {
		return "kv"
	}
	return fmt.Sprintf("kv-%d", group)
}

// ofVLLM are the pools of a request to push: one for each group. Where several
// groups share regions, as they do where no region is said to be of a group, what
// one of them owes cannot be told from the addresses.
func ofVLLM(t *wire.VLLMTransfer, groups int) ([]pool, error) {
	if groups > 1 && len(t.GroupIndices) != len(t.BaseAddrs) {
		return nil, fmt.Errorf("%d groups in regions that are not said to be of one", groups)
	}
	var pools []pool
	for group := range int64(max(groups, 1)) {
		var bases, bytes []uint64
		var layers []int64
		for n, base := range t.BaseAddrs {
			if groups > 1 && t.GroupIndices[n] != group || n >= len(t.BlockBytes) {
				continue
			}
			bases, bytes = append(bases, base), append(bytes, t.BlockBytes[n])
			if n < len(t.LayerIndices) {
				layers = append(layers, t.LayerIndices[n])
			}
		}
		regions, err := regionsOf(bases, bytes, layers)
		if err != nil {
			return nil, err
		}
		pools = append(pools, pool{name: groupPool(group), PoolSpec: lifecycle.PoolSpec{Regions: regions}})
	}
	return pools, nil
}
