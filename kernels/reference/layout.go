package reference

import (
	"errors"
	"fmt"
	"unsafe"
)

// Bounds of a page's shape. A page is small enough that its scores fit in a
// kernel's shared memory, and a row is a whole number of 16-byte lanes.
const (
	MinPageTokens = 16
	MaxPageTokens = 128
	MaxKVHeads    = 128
	MaxHeadDim    = 256
	LaneBytes     = 16
)

// ErrLayout says that a page's shape is outside the bounds above.
var ErrLayout = errors.New("page layout is not supported")

// DType is how keys and values are stored. Arithmetic is always float32.
type DType uint8

const (
	Float32 DType = iota
	BFloat16
	Float16
)

// Size returns the bytes of one stored number.
func (d DType) Size() int {
	if d == Float32 {
		return 4
	}
	return 2
}

// String returns the name that pool_opened carries as dtype.
func (d DType) String() string {
	switch d {
	case Float32:
		return "float32"
	case BFloat16:
		return "bfloat16"
	case Float16:
		return "float16"
	}
	return fmt.Sprintf("dtype(%d)", uint8(d))
}

// Layout is the shape of one page of one region in HND order: for each kv head,
// PageTokens rows of HeadDim numbers, so that each (page, kv head) is contiguous.
type Layout struct {
	DType      DType
	PageTokens int
	KVHeads    int
	HeadDim    int
}

// Validate returns ErrLayout with the bound that is not kept.
func (l Layout) Validate() error {
	switch {
	case l.DType > Float16:
		return fmt.Errorf("%w: %v", ErrLayout, l.DType)
	case l.PageTokens < MinPageTokens || l.PageTokens > MaxPageTokens:
		return fmt.Errorf("%w: %d tokens a page, want %d to %d", ErrLayout, l.PageTokens, MinPageTokens, MaxPageTokens)
	case l.KVHeads < 1 || l.KVHeads > MaxKVHeads:
		return fmt.Errorf("%w: %d kv heads, want 1 to %d", ErrLayout, l.KVHeads, MaxKVHeads)
	case l.HeadDim < 1 || l.HeadDim > MaxHeadDim || l.RowBytes()%LaneBytes != 0:
		return fmt.Errorf("%w: head size %d as %v, want at most %d and rows of a multiple of %d bytes",
			ErrLayout, l.HeadDim, l.DType, MaxHeadDim, LaneBytes)
	}
	return nil
}

// RowBytes is the size of one token's key (or value) of one head.
func (l Layout) RowBytes() int { return l.HeadDim * l.DType.Size() }

// HeadBytes is the size of one kv head's part of a page.
func (l Layout) HeadBytes() int { return l.PageTokens * l.RowBytes() }

// PageBytes is the size of one page of one region.
func (l Layout) PageBytes() int { return l.KVHeads * l.HeadBytes() }

// Head returns the part of a page that belongs to one kv head.
func (l Layout) Head(page []byte, head int) []byte {
	n := l.HeadBytes()
	return page[head*n : (head+1)*n : (head+1)*n]
}

// floats views stored float32 in place. b must be aligned to 4 bytes, which every
// row of a valid layout is when the region's base is. It stays within b by its
// length, so the pointer checks that come with the race detector are left out.
//
//go:nocheckptr
func floats(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// halves views stored bfloat16 or float16 in place.
//
//go:nocheckptr
func halves(b []byte) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/2)
}
