package ledger

import (
	"fmt"
	"math/bits"
	"sort"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// pool is one KV pool of an instance.
type pool struct {
	lifecycle.PoolSpec
	name  string
	index int32
	inst  *instance
	pages []page
	nulls int64

	knownFrom uint64 // pages handed out before this tick are unknown (hard case 10)
	allClaims bool
	claimMask uint64

	each   []uint64 // bytes of a page in each of them
	direct int      // regions that transfers write straight into
	words  int      // words of a coverage bitmap
	acts   []activity
	freed  []uint32
	frags  map[uint32][]frag // pieces of partly covered regions, by activity
	cover  []uint64          // 2*words an activity: ok, posted

	inverted      bool  // it was accused of not holding its own context
	holding       int64 // pages with a request's reference
	imbalanced    lifecycle.Opt[int64]
	imbalanceSaid bool
	openedAt      int64
	closed        bool
}

// stretch is where a region lies in the instance's address space.
type stretch struct {
	base   uint64
	bytes  uint64 // over all pages
	stride uint64
	each   uint64 // bytes of one page
	shift  int    // log2(stride) if it is a power of two, else -1
	pool   *pool
	bit    int // which bit of the coverage; -1: staging
}

func (pl *pool) promises(ev lifecycle.Ev) bool {
	return pl.allClaims || pl.claimMask>>ev&1 == 1
}

// tellsHolders reports whether one of whom nobody said that it holds a page does not:
// the engine's stream promises each reference (R10).
func (pl *pool) tellsHolders() bool {
	return pl.inst.engine && pl.promises(lifecycle.PagesReserved) && pl.promises(lifecycle.PagesShared)
}

// shows reports whether a write of a transfer can be seen in the pool's pages: it
// lands there, and where they lie is known.
func (pl *pool) shows() bool { return pl.Path == lifecycle.PathDirect && pl.direct > 0 }

// manyTokens stands for the tokens of a page where nobody said them: more than a
// prompt has, so that no count of tokens asks for a page beyond those that were named.
const manyTokens = 1 << 30

// saysTokens reports whether it is known how many tokens a page has.
func (pl *pool) saysTokens() bool { return pl.PageTokens != manyTokens }

// capacity is how many tokens the pool can hold.
func (pl *pool) capacity() int64 { return (int64(len(pl.pages)) - pl.nulls) * pl.PageTokens }

// bits is the coverage of an activity: ok and posted, one bit a region.
func (pl *pool) okBits(a uint32) []uint64 {
	at := int(a) * 2 * pl.words
	return pl.cover[at : at+pl.words]
}

func (pl *pool) postedBits(a uint32) []uint64 {
	at := int(a)*2*pl.words + pl.words
	return pl.cover[at : at+pl.words]
}

// openPool makes a pool of a fact. nil: a limit forbids it.
func (l *Ledger) openPool(inst *instance, f *lifecycle.Fact) *pool {
	s := f.Spec
	if l.pools >= l.cfg.Limits.Pools || len(inst.pools) >= l.cfg.Limits.Pools || l.pages+int(s.Pages) > l.cfg.Limits.Pages {
		l.stats.Forgotten.Pools++
		return nil
	}
	pl := &pool{
		PoolSpec: *s, name: f.Pool, index: int32(len(inst.pools)), inst: inst,
		pages: make([]page, s.Pages), openedAt: f.T, acts: make([]activity, 1), frags: map[uint32][]frag{},
	}
	if s.PageTokens == 0 {
		pl.PageTokens = manyTokens
	}
	l.pools++
	l.pages += int(s.Pages)
	if s.Since == lifecycle.SinceAttach {
		pl.knownFrom = l.tick + 1
		inst.outOfSight(l.tick)
	}
	pl.setClaims(f.Src)
	for _, r := range s.NullIDs {
		for p := r.First; p < min(r.End(), s.Pages); p++ {
			if pl.pages[p].flags&null == 0 {
				pl.pages[p].flags |= null
				pl.nulls++
			}
		}
	}
	inst.pools = append(inst.pools, pl)
	inst.byName[f.Pool] = pl
	pl.mapRegions()
	return pl
}

func (pl *pool) setClaims(src lifecycle.Src) {
	if !pl.Claims.Has {
		pl.allClaims = src == lifecycle.Engine
		return
	}
	for _, ev := range pl.Claims.V {
		pl.claimMask |= 1 << ev
	}
}

// mapRegions puts the pool's regions into the address space of its instance.
func (pl *pool) mapRegions() {
	for _, r := range pl.Regions {
		over, bytes := bits.Mul64(r.Stride, uint64(len(pl.pages)))
		if over != 0 || r.Base+bytes < r.Base || bytes == 0 {
			continue // it cannot lie in 64 bits of address space
		}
		st := stretch{base: r.Base, bytes: bytes, stride: r.Stride, each: r.Bytes, pool: pl, bit: -1, shift: -1}
		if bits.OnesCount64(r.Stride) == 1 {
			st.shift = bits.TrailingZeros64(r.Stride)
		}
		if r.Part != "staging" {
			st.bit = pl.direct
			pl.direct++
			pl.each = append(pl.each, r.Bytes)
		}
		pl.inst.byAddr = append(pl.inst.byAddr, st)
	}
	pl.words = (pl.direct + 63) / 64
	pl.cover = make([]uint64, 2*pl.words)
	all := pl.inst.byAddr
	sort.SliceStable(all, func(a, b int) bool { return all[a].base < all[b].base })
}

// pageBytes is the size of a page over all regions, as far as it was said.
func (pl *pool) pageBytes() uint64 {
	if pl.PageBytes != 0 {
		return pl.PageBytes
	}
	var n uint64
	for _, r := range pl.Regions {
		if r.Part != "staging" {
			n += r.Bytes
		}
	}
	return n
}

// locate finds the pool that a fact names; nil, and the request unwitnessed,
// where there is none.
func (l *Ledger) locate(inst *instance, name string, rm *room) *pool {
	if pl := inst.byName[name]; pl != nil {
		return pl
	}
	l.stats.NoPool++
	unsee(rm, inst, fmt.Sprintf("pool %q of %s was never opened", name, inst.name))
	return nil
}

// fits reports whether runs can be pages of the pool: each inside it, and not
// more of them than there are.
func (l *Ledger) fits(pl *pool, runs lifecycle.Runs, rm *room) bool {
	total := 0
	for _, r := range runs {
		if total += int(r.Count); int(r.End()) > len(pl.pages) || total > len(pl.pages) {
			l.stats.Impossible++
			unsee(rm, pl.inst, fmt.Sprintf("a fact named pages that pool %s of %s does not have", pl.name, pl.inst.name))
			return false
		}
	}
	return true
}

// closePool ends a pool; its pages, and what is known of them, are gone.
func (l *Ledger) closePool(pl *pool) {
	inst := pl.inst
	l.releaseParties(pl)
	l.pools--
	l.pages -= len(pl.pages)
	for i := range pl.acts {
		l.activities -= boolInt(pl.acts[i].tr != 0)
		l.fragments -= len(pl.frags[uint32(i)])
	}
	inst.pools[pl.index] = nil
	if inst.byName[pl.name] == pl {
		delete(inst.byName, pl.name)
	}
	kept := inst.byAddr[:0]
	for _, st := range inst.byAddr {
		if st.pool != pl {
			kept = append(kept, st)
		}
	}
	inst.byAddr = kept
	if len(inst.byName) == 0 {
		l.forgetStrays(inst)
	}
	pl.closed = true
}

// releaseParties lets go of everybody whose data the pool's pages held.
func (l *Ledger) releaseParties(pl *pool) {
	left := moves{ps: &l.parties}
	for i := range pl.pages {
		p := &pl.pages[i]
		if p.owner != 0 {
			left.leave(p.owner)
		}
		if p.content != 0 {
			left.leave(p.content)
		}
	}
	left.flush()
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
