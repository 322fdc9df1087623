package kvcache

import (
	"fmt"
	"sync/atomic"
)

// Tags are the two values that each page carries: the generation handed out and
// the generation written.
//
// The pool alone sets the first, at each hand-out. Only who writes a page's bytes
// sets the second, after them: the append kernel, or the sender of a transfer on
// the same ordered channel as its data. It is never set on a message that says so.
// A page may be read as generation g while both equal g; and because remote writes
// follow no stream, a reader asks again after it has read. A tag that is bumped at
// hand-out alone would call a page good that nobody wrote.
//
// All methods are safe for concurrent use.
type Tags struct {
	handed  []uint64
	written []uint64
}

// newTags lays the tags over words (one a page), or over memory of its own.
func newTags(pages int, words []uint64) (*Tags, error) {
	if words == nil {
		words = make([]uint64, pages)
	}
	if len(words) != pages {
		return nil, fmt.Errorf("laying the written tags: %d words for %d pages", len(words), pages)
	}
	return &Tags{handed: make([]uint64, pages), written: words}, nil
}

// HandedOut is the generation in which page was last handed out.
func (t *Tags) HandedOut(page PageID) Gen {
	return Gen(atomic.LoadUint64(&t.handed[page]))
}

// Written is the generation that was last written to page.
func (t *Tags) Written(page PageID) Gen {
	return Gen(atomic.LoadUint64(&t.written[page]))
}

// Stamp says that bytes of generation gen have been written to page. Call it
// after the bytes, from where they were written.
func (t *Tags) Stamp(page PageID, gen Gen) {
	atomic.StoreUint64(&t.written[page], uint64(gen))
}

// Words is the memory of the written tags, one native-endian word a page, so that
// it can be registered as a region that a sender writes after its data.
func (t *Tags) Words() []uint64 { return t.written }

// TagFault is a page that is not what a block table takes it for.
type TagFault struct {
	Page      PageID
	Index     int // in the block table
	Want      Gen // the table's generation
	HandedOut Gen
	Written   Gen
}

func (f *TagFault) Error() string {
	return fmt.Sprintf("page %d (entry %d of the block table) is wanted in generation %d, was handed out in %d and written in %d",
		f.Page, f.Index, f.Want, f.HandedOut, f.Written)
}

// CheckRead reports the first page that is not both handed out and written in the
// generation of gens; nil if all are. Ask before reading, and again after.
func (t *Tags) CheckRead(pages []PageID, gens []Gen) *TagFault {
	for i, p := range pages {
		handed, written := t.HandedOut(p), t.Written(p)
		if handed != gens[i] || written != gens[i] {
			return &TagFault{Page: p, Index: i, Want: gens[i], HandedOut: handed, Written: written}
		}
	}
	return nil
}

// CheckWrite reports the first page that has been handed out again since gens, so
// that a writer who lost it does not write; nil if none has.
func (t *Tags) CheckWrite(pages []PageID, gens []Gen) *TagFault {
	for i, p := range pages {
		if handed := t.HandedOut(p); handed != gens[i] {
			return &TagFault{Page: p, Index: i, Want: gens[i], HandedOut: handed, Written: t.Written(p)}
		}
	}
	return nil
}

// handOut begins a new generation of page.
func (t *Tags) handOut(page PageID) Gen {
	return Gen(atomic.AddUint64(&t.handed[page], 1))
}
