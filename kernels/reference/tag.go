package reference

import (
	"fmt"
	"sync/atomic"
)

// Tag names one generation of a page and the domain it was handed out to. There
// are two of them per page and layer: the tag handed out stands in the reader's
// block table; the tag written stands in the backend's memory and is set only by
// the writer of the bytes, after them. A page may be used when both are equal.
//
// One value that is changed when the page is handed out would not do: pages that
// nobody wrote would carry it too.
//
// The low 40 bits are the generation, the high 24 bits the domain's keyed hash
// (its low 24 bits). The zero Tag means that no generation is complete.
type Tag uint64

const generationBits = 40

// NewTag makes the tag of a generation (from 1, below 2^40) in a domain.
func NewTag(generation uint64, domain uint32) Tag {
	return Tag(generation&(1<<generationBits-1) | uint64(domain)<<generationBits)
}

// Generation is the count of hand-outs that the tag stands for.
func (t Tag) Generation() uint64 { return uint64(t) & (1<<generationBits - 1) }

// Domain is the low 24 bits of the domain's hash.
func (t Tag) Domain() uint32 { return uint32(t >> generationBits) }

func (t Tag) String() string { return fmt.Sprintf("%d/%06x", t.Generation(), t.Domain()) }

// Readable is the check before a page is used and again after: a transfer from
// another machine follows no stream of this one, so only the second check shows
// that the page stayed what it was while it was read.
func Readable(handedOut, written Tag) bool { return handedOut == written && handedOut != 0 }

// MayAppend is the check before a row is stored. The first row of a page begins a
// generation: it may replace an older one, or start its own anew, never a newer
// one. A later row continues what the page already holds.
func MayAppend(handedOut, written Tag, slot int) bool {
	if slot > 0 || written == handedOut {
		return Readable(handedOut, written)
	}
	return handedOut != 0 && written.Generation() < handedOut.Generation()
}

// LoadTag is the first check's read: nothing that is read after it was read before.
func LoadTag(slot *Tag) Tag { return Tag(atomic.LoadUint64((*uint64)(slot))) }

// RecheckTag is the second check's read: everything that was read before it was
// read by then. An atomic load alone does not promise that on every processor.
func RecheckTag(slot *Tag) Tag {
	fence()
	return LoadTag(slot)
}

// StoreTag sets a written tag: what the writer stored before it is visible before,
// what it stores afterwards is visible after.
func StoreTag(slot *Tag, t Tag) {
	atomic.StoreUint64((*uint64)(slot), uint64(t))
	fence()
}

// fence orders all memory accesses before it before all after it.
func fence() {
	var word uint32
	atomic.AddUint32(&word, 1)
}
