package backend

import (
	"fmt"

	"github.com/kvwitness/kvwitness/kernels/reference"
)

// TagBytes is the size of a written tag in memory: a little-endian word.
const TagBytes = 8

// Memory is the pages of a pool at their real addresses. A transfer registers the
// regions and writes into them; to hand over a page it writes, in this order, zero
// to the page's tag of each layer, the page's bytes, and the tag that the receiver
// handed out. A reader that overlaps with that sees a changed tag.
type Memory interface {
	// Layout is the shape of a page of each region but those of tags.
	Layout() reference.Layout
	Pages() int
	// Regions are the keys and values: layer 0 k, layer 0 v, layer 1 k, and so on.
	Regions() []Region
	// Tags are the written tags, a region a layer: page p's at Base + p × TagBytes.
	Tags() []Region
	// Written reads the written tag of a page, as one word, before whatever is read
	// after it; Rewritten after whatever was read before it: for the check before the
	// page's bytes are read, and the one after.
	Written(layer, page int) Tag
	Rewritten(layer, page int) Tag
	// SetWritten sets it, ordered after what was written before. For the writer of the
	// bytes alone.
	SetWritten(layer, page int, tag Tag)
	// At returns the n bytes at an address that a peer named: they must lie within
	// the pages of one region. Errors: ErrAddress.
	At(address uint64, n int) ([]byte, error)
}

// Region is one buffer: page p lies at Base + p × Stride and is PageBytes long.
type Region struct {
	Layer     int
	Part      reference.Part
	Base      uint64
	Stride    int
	PageBytes int
	Pages     int
	Length    int    // of the buffer, to be registered; more than Pages × Stride
	Bytes     []byte // the whole buffer; nil where the CPU cannot address it
}

// Page returns a page's bytes.
func (r *Region) Page(p int) []byte {
	at := p * r.Stride
	return r.Bytes[at : at+r.PageBytes : at+r.PageBytes]
}

// PageAddress returns where a page begins.
func (r *Region) PageAddress(p int) uint64 { return r.Base + uint64(p)*uint64(r.Stride) }

// Resolve finds the n bytes at an address within the pages of one of the regions
// that the CPU can address. Errors: ErrAddress.
func Resolve(address uint64, n int, groups ...[]Region) ([]byte, error) {
	if n >= 0 {
		for _, regions := range groups {
			for i := range regions {
				r := &regions[i]
				if r.Bytes == nil {
					continue
				}
				size := uint64(r.Pages) * uint64(r.Stride)
				at := address - r.Base
				if address >= r.Base && at <= size && uint64(n) <= size-at {
					return r.Bytes[at : at+uint64(n) : at+uint64(n)], nil
				}
			}
		}
	}
	return nil, fmt.Errorf("%w: %d bytes at %#x: the peer must name an address that this instance registered", ErrAddress, n, address)
}
