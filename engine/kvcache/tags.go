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
// Where several writers each bring a part of every page (the ranks of a prefill
// group), each stamps a stripe of its own, and a page is written when all are.
//
// All methods are safe for concurrent use.
type Tags struct {
	handed  []uint64
	written []uint64 // page × stripes + stripe
	stripes int
}

// newTags lays the tags over words (stripes of them a page), or over memory of its
// own.
func newTags(pages, stripes int, words []uint64) (*Tags, error) {
	stripes = max(stripes, 1)
	if words == nil {
		words = make([]uint64, pages*stripes)
	}
	if len(words) != pages*stripes {
		return nil, fmt.Errorf("laying the written tags: %d words for %d pages of %d stripes", len(words), pages, stripes)
	}
	return &Tags{handed: make([]uint64, pages), written: words, stripes: stripes}, nil
}

// HandedOut is the generation in which page was last handed out.
func (t *Tags) HandedOut(page PageID) Gen {
	return Gen(atomic.LoadUint64(&t.handed[page]))
}

// Written is the generation that was last written to every stripe of page: the
// lowest, when they differ.
func (t *Tags) Written(page PageID) Gen {
	first := int(page) * t.stripes
	g := atomic.LoadUint64(&t.written[first])
	for i := 1; i < t.stripes; i++ {
		g = min(g, atomic.LoadUint64(&t.written[first+i]))
	}
	return Gen(g)
}

// Stamp says that all bytes of page were written in generation gen. Call it after
// the bytes, from where they were written.
func (t *Tags) Stamp(page PageID, gen Gen) {
	for i := range t.stripes {
		t.StampStripe(page, i, gen)
	}
}

// StampStripe says it of one writer's part.
func (t *Tags) StampStripe(page PageID, stripe int, gen Gen) {
	atomic.StoreUint64(&t.written[int(page)*t.stripes+stripe], uint64(gen))
}

// Words is the memory of the written tags, native-endian, word page × stripes +
// stripe, so that it can be registered as a region that senders write after their
// data.
func (t *Tags) Words() []uint64 { return t.written }

// TagFault is a page that is not what a block table takes it for.
type TagFault struct {
	Page      PageID
	Index     int // in the block table
	Want      Gen // the table's generation
	HandedOut Gen
	Written   Gen
	Faults    int // pages of the table that failed the check, this one among them
}

func (f *TagFault) Error() string {
	text := fmt.Sprintf("page %d (entry %d of the block table) is wanted in generation %d, was handed out in %d and written in %d",
		f.Page, f.Index, f.Want, f.HandedOut, f.Written)
	if f.Faults > 1 {
		text += fmt.Sprintf("; %d pages in all are not as they are wanted", f.Faults)
	}
	return text
}

// CheckRead reports the first page that is not both handed out and written in the
// generation of gens, and how many are not; nil if all are. Ask before reading, and
// again after.
func (t *Tags) CheckRead(pages []PageID, gens []Gen) *TagFault {
	var fault *TagFault
	for i, p := range pages {
		handed, written := t.HandedOut(p), t.Written(p)
		if handed != gens[i] || written != gens[i] {
			fault = fault.add(TagFault{Page: p, Index: i, Want: gens[i], HandedOut: handed, Written: written})
		}
	}
	return fault
}

// CheckWrite reports the first page that has been handed out again since gens, so
// that a writer who lost it does not write; nil if none has.
func (t *Tags) CheckWrite(pages []PageID, gens []Gen) *TagFault {
	var fault *TagFault
	for i, p := range pages {
		if handed := t.HandedOut(p); handed != gens[i] {
			fault = fault.add(TagFault{Page: p, Index: i, Want: gens[i], HandedOut: handed, Written: t.Written(p)})
		}
	}
	return fault
}

// add counts one more fault; the first is the one that is kept.
func (f *TagFault) add(next TagFault) *TagFault {
	if f == nil {
		f = &next
	}
	f.Faults++
	return f
}

// handOut begins a new generation of page.
func (t *Tags) handOut(page PageID) Gen {
	return Gen(atomic.AddUint64(&t.handed[page], 1))
}
