package control

import (
	"fmt"

	"github.com/kvwitness/kvwitness/engine/handoff"
	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/pdwire"
	"github.com/kvwitness/kvwitness/engine/scheduler"
)

const tagBytes = 8

// registration announces a receiver's memory. The written tags are a state
// component of SGLang's layout: one region a layer, items of 8 bytes, indexed by
// the page.
func registration(self pdwire.Address, session string, a handoff.Addresses, attnTPSize int) *pdwire.Registration {
	r := &pdwire.Registration{
		Address: self, Session: session, KVPtrs: a.Pages, AuxPtrs: []uint64{a.Slots, a.SlotTags},
		StatePtrs: [][]uint64{a.Tags}, StateItemBytes: make([][]uint32, 1), StateLayerIDs: make([][]uint32, 1),
		AttnTPSize: attnTPSize, KVItemBytes: a.Stride, KVLayerIDs: a.Layers,
	}
	for layer := range a.Tags {
		r.StateItemBytes[0] = append(r.StateItemBytes[0], tagBytes)
		r.StateLayerIDs[0] = append(r.StateLayerIDs[0], uint32(layer))
	}
	return r
}

// addresses is the inverse; a peer of another engine has no tags and no slot that
// this one can fill.
func addresses(r *pdwire.Registration) handoff.Addresses {
	a := handoff.Addresses{Pages: r.KVPtrs, Layers: r.KVLayerIDs, Stride: r.KVItemBytes}
	if len(r.StatePtrs) == 1 && len(r.AuxPtrs) == 2 && tagged(r) {
		a.Tags, a.Slots, a.SlotTags = r.StatePtrs[0], r.AuxPtrs[0], r.AuxPtrs[1]
	}
	return a
}

func tagged(r *pdwire.Registration) bool {
	if len(r.StateItemBytes) != 1 || len(r.StateItemBytes[0]) != len(r.StatePtrs[0]) {
		return false
	}
	for _, n := range r.StateItemBytes[0] {
		if n != tagBytes {
			return false
		}
	}
	return len(r.StatePtrs[0]) > 0
}

// request names a receiver's pages. The generations that the sender is to stamp
// follow the pages as a second list of state indices, two words each, the metadata
// slot's last.
func request(self pdwire.Address, session string, t scheduler.SendTargets) *pdwire.TransferRequest {
	pages := make([]int32, len(t.Pages))
	words := make([]int32, 0, 2*len(t.Gens)+2)
	for i, p := range t.Pages {
		pages[i] = int32(p)
		words = appendWord(words, t.Gens[i])
	}
	return &pdwire.TransferRequest{
		Room: int64(t.Room), Address: self, Session: session, Pages: pages, AuxIndex: int64(t.Slot),
		StateIndices: [][]int32{pages, appendWord(words, t.SlotGen)}, RequiredDst: 1, PrefixLen: t.PrefixTokens,
	}
}

func appendWord(words []int32, g kvcache.Gen) []int32 {
	return append(words, int32(uint32(g)), int32(uint32(g>>32)))
}

// targets is the inverse. Without generations, those of another engine, all are 0
// and nothing will be stamped.
func targets(r *pdwire.TransferRequest, peer scheduler.Peer) (scheduler.Targets, error) {
	t := scheduler.Targets{Room: scheduler.Room(r.Room), Peer: peer, PrefixTokens: r.PrefixLen, Gens: make([]kvcache.Gen, len(r.Pages))}
	if r.Room <= 0 {
		return t, fmt.Errorf("room %d is not one of a router", r.Room)
	}
	for _, p := range r.Pages {
		t.Pages = append(t.Pages, kvcache.PageID(p))
	}
	if r.AuxIndex > 0 {
		t.Slot = kvcache.PageID(r.AuxIndex)
	}
	if len(r.StateIndices) == 0 {
		return t, nil
	}
	if len(r.StateIndices) != 2 || len(r.StateIndices[1]) != 2*len(r.Pages)+2 {
		return t, fmt.Errorf("room %d names %d pages and not their generations", r.Room, len(r.Pages))
	}
	words := r.StateIndices[1]
	gen := func(i int) kvcache.Gen {
		return kvcache.Gen(uint32(words[2*i])) | kvcache.Gen(uint32(words[2*i+1]))<<32
	}
	for i := range t.Gens {
		t.Gens[i] = gen(i)
	}
	t.SlotGen = gen(len(t.Gens))
	return t, nil
}
