package handoff

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/transfer"
)

// MaxRanks bounds the writers of one request.
const MaxRanks = 64

const wordBytes = 8

// Memory is what peers may reach of an instance.
type Memory struct {
	Pages backend.Memory
	// Reach is the same memory, by address.
	Reach *transfer.Memory

	backend  backend.Backend
	guard    sync.Locker
	ranks    int
	slots    []byte
	slotTags []uint64
}

// NewMemory registers a backend's pages and tags, and slots metadata slots with a
// record and a tag for each of ranks writers. guard, if not nil, is held around
// every copy: an engine whose drills let peers write to pages in use needs one,
// where hardware would race.
func NewMemory(b backend.Backend, slots, ranks int, guard sync.Locker) (*Memory, error) {
	if ranks < 1 || ranks > MaxRanks {
		return nil, fmt.Errorf("register memory for %d ranks: want 1 to %d", ranks, MaxRanks)
	}
	pages := b.Memory()
	m := &Memory{
		Pages: pages, Reach: &transfer.Memory{}, backend: b, guard: guard, ranks: ranks,
		slots: make([]byte, slots*ranks*recordBytes), slotTags: make([]uint64, slots*ranks),
	}
	buffers := [][]byte{m.slots, bytesOf(m.slotTags)}
	for _, regions := range [][]backend.Region{pages.Regions(), pages.Tags()} {
		for i := range regions {
			buffers = append(buffers, regions[i].Bytes)
		}
	}
	for _, b := range buffers {
		if _, err := m.Reach.Register(b, guard); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func bytesOf(words []uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*wordBytes)
}

// SlotTags is the memory of the metadata pool's written tags, a stripe a rank.
func (m *Memory) SlotTags() []uint64 { return m.slotTags }

// PageTags is the memory of the pages' written tags in the last layer, which is
// written last.
func (m *Memory) PageTags() []uint64 {
	tags := m.Pages.Tags()
	last := &tags[len(tags)-1]
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(last.Bytes))), last.Pages)
}

// Lock keeps peers' copies out, if there is a guard.
func (m *Memory) Lock() {
	if m.guard != nil {
		m.guard.Lock()
	}
}

// Unlock lets them in again.
func (m *Memory) Unlock() {
	if m.guard != nil {
		m.guard.Unlock()
	}
}

// Copy copies one page in every region, and stamps it in every layer after that.
func (m *Memory) Copy(c kvcache.Copy) {
	regions := m.Pages.Regions()
	for i := range regions {
		copy(regions[i].Page(int(c.To)), regions[i].Page(int(c.From)))
	}
	for layer := range m.Pages.Tags() {
		m.Pages.SetWritten(layer, int(c.To), backend.Tag(c.ToGen))
	}
}

// Scrub clears the tags of pages that nobody uses, and then their bytes.
func (m *Memory) Scrub(pages []kvcache.PageID) error {
	m.Lock()
	defer m.Unlock()
	all := make([]int, len(pages))
	for i, p := range pages {
		all[i] = int(p)
	}
	return m.backend.Scrub(all...)
}

// Addresses is where a receiver's memory lies, as a sender is told.
type Addresses struct {
	Pages    []uint64 // base of each region: layer 0 k, layer 0 v, layer 1 k, …
	Layers   []uint32 // layer of each
	Stride   uint64   // bytes from page to page, in each region
	Tags     []uint64 // base of the written tags of each layer; empty: no tags
	Slots    uint64   // base of the metadata slots; 0: none
	SlotTags uint64
}

// Addresses of this memory.
func (m *Memory) Addresses() Addresses {
	regions, tags := m.Pages.Regions(), m.Pages.Tags()
	a := Addresses{Stride: uint64(regions[0].Stride), Slots: transfer.AddressOf(m.slots), SlotTags: transfer.AddressOf(bytesOf(m.slotTags))}
	for i := range regions {
		a.Pages, a.Layers = append(a.Pages, regions[i].Base), append(a.Layers, uint32(regions[i].Layer))
	}
	for i := range tags {
		a.Tags = append(a.Tags, tags[i].Base)
	}
	return a
}

// layersOf says which layers a writer brings: a contiguous share of them all.
func layersOf(rank, ranks, layers int) (first, end int) {
	return rank * layers / ranks, (rank + 1) * layers / ranks
}
