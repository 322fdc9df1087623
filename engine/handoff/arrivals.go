package handoff

import (
	"sync"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/scheduler"
)

// Arrivals knows which of the pages that were named to one writer it has put there:
// by the bytes that the transport counts (Applied), or, where those come past the
// CPU, by the written tags that the writer stamps after them (Sweep). Where a page
// was named for two rooms, bytes count for the later one: an address tells no more.
type Arrivals struct {
	mem    *Memory
	peer   scheduler.Peer
	tell   func(scheduler.Arrived)
	first  int // layers that the writer brings
	end    int
	mu     sync.Mutex
	owed   map[kvcache.PageID]*owedPage
	byRoom map[scheduler.Room][]kvcache.PageID
}

type owedPage struct {
	room    scheduler.Room
	index   int
	tokens  int
	gen     kvcache.Gen
	regions map[int]bool // still missing
}

// NewArrivals counts for one writer, rank of ranks; tell is called from the
// goroutine that wrote the bytes.
func NewArrivals(m *Memory, peer scheduler.Peer, rank int, tell func(scheduler.Arrived)) *Arrivals {
	a := &Arrivals{mem: m, peer: peer, tell: tell, owed: map[kvcache.PageID]*owedPage{}, byRoom: map[scheduler.Room][]kvcache.PageID{}}
	a.first, a.end = layersOf(rank, m.ranks, len(m.Pages.Tags()))
	return a
}

// Expect names pages of these generations to the writer; tokens are what the prompt
// has in all of them.
func (a *Arrivals) Expect(room scheduler.Room, pages []kvcache.PageID, gens []kvcache.Gen, tokens int) {
	size := a.mem.Pages.Layout().PageTokens
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, p := range pages {
		o := &owedPage{room: room, index: i, tokens: max(1, min(size, tokens-i*size)), gen: gens[i], regions: map[int]bool{}}
		for j, r := range a.mem.Pages.Regions() {
			if r.Layer >= a.first && r.Layer < a.end {
				o.regions[j] = true
			}
		}
		a.owed[p] = o
	}
	a.byRoom[room] = pages
}

// Forget drops what is left of a room.
func (a *Arrivals) Forget(room scheduler.Room) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.byRoom[room] {
		if o := a.owed[p]; o != nil && o.room == room {
			delete(a.owed, p)
		}
	}
	delete(a.byRoom, room)
}

// Applied takes bytes that lie in memory now.
func (a *Arrivals) Applied(addr, size uint64) {
	for _, e := range a.apply(addr, size) {
		a.tell(e)
	}
}

func (a *Arrivals) apply(addr, size uint64) (out []scheduler.Arrived) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for j, r := range a.mem.Pages.Regions() {
		if addr < r.Base || addr >= r.Base+uint64(r.Length) {
			continue
		}
		from := int((addr - r.Base + uint64(r.Stride) - 1) / uint64(r.Stride))
		to := int((addr - r.Base + size) / uint64(r.Stride))
		for p := from; p < to; p++ {
			if e, whole := a.region(kvcache.PageID(p), j); whole {
				out = append(out, e)
			}
		}
	}
	return out
}

// Sweep takes the pages that carry the writer's tag in every layer that it brings.
// It is for a transport that does not count; the tags are on the same ordered
// connection as the bytes, and after them.
func (a *Arrivals) Sweep() {
	for _, e := range a.sweep() {
		a.tell(e)
	}
}

func (a *Arrivals) sweep() (out []scheduler.Arrived) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for p, o := range a.owed {
		if !a.stamped(p, o.gen) {
			continue
		}
		delete(a.owed, p)
		out = append(out, scheduler.Arrived{Room: o.room, Peer: a.peer, First: o.index, Count: 1, Tokens: o.tokens})
	}
	return out
}

func (a *Arrivals) stamped(p kvcache.PageID, g kvcache.Gen) bool {
	for layer := a.first; layer < a.end; layer++ {
		if a.mem.Pages.Written(layer, int(p)) != backend.Tag(g) {
			return false
		}
	}
	return true
}

// region takes one region of a page off the list of what is missing.
func (a *Arrivals) region(p kvcache.PageID, region int) (e scheduler.Arrived, whole bool) {
	o := a.owed[p]
	if o == nil || !o.regions[region] {
		return e, false
	}
	delete(o.regions, region)
	if len(o.regions) > 0 {
		return e, false
	}
	delete(a.owed, p)
	return scheduler.Arrived{Room: o.room, Peer: a.peer, First: o.index, Count: 1, Tokens: o.tokens}, true
}
