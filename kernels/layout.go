package kernels

import (
	"unsafe"

	"github.com/kvwitness/kvwitness/kernels/reference"
)

// Limits that the sources are compiled with.
const (
	Warp          = 32
	Queries       = 8   // of a tile
	Warps         = 4   // of a block that attends
	DigestThreads = 128 // of a block
)

// Ptr is an address of the GPU.
type Ptr uint64

// The structures of the sources (page.h, append.cu, …), field by field. A kernel has
// one argument: the address of its Args.
type (
	// Shape of a page.
	Shape struct{ DType, Tokens, KVHeads, Dim uint32 }
	// Layer is where a layer's keys, values and written tags begin.
	Layer struct{ Keys, Values, Written Ptr }
	// Block is an entry of a block table.
	Block struct {
		Page int32
		_    uint32
		Tag  reference.Tag
	}
	// Fault is the first fault of a sequence; Claimed is 0 where there was none.
	Fault struct {
		Claimed, Layer, Head, Block, Page, Moment uint32
		Expected, Seen                            reference.Tag
	}
	// Pass is what kernels that check tags know.
	Pass struct {
		Shape
		Layer
		Number                  uint64 // of the layer
		Tables, Faults, Skipped Ptr    // []Block, []Fault, a bit for each Block
	}

	// Run is consecutive rows of one sequence within one page.
	Run struct {
		Sequence, Table, Block, Slot, First, Rows, Unchecked uint32
		_                                                    uint32
	}
	// AppendArgs are of kv_append; grid: runs.
	AppendArgs struct {
		Pass
		Runs, Keys, Values Ptr
	}

	// Tile is up to Queries queries of one sequence for each kv head.
	Tile struct{ Sequence, Table, First, Rows, Position, Unchecked uint32 }
	// AttentionArgs are of kv_attention_*; grid: tiles × kv heads × ⌈group ÷ Queries⌉ ×
	// splits; Warps × Warp threads.
	AttentionArgs struct {
		Pass
		Tiles, Queries, Sinks, Attended, Partial Ptr
		Rows                                     uint64
		Heads, Window                            uint32
		Scale                                    float32
		_                                        uint32
	}
	// MergeArgs are of kv_merge; grid: rows × heads; Dim threads.
	MergeArgs struct {
		Partial, Sinks, Attended Ptr
		Rows                     uint64
		Heads, Dim, Splits       uint32
		_                        uint32
	}

	// DigestPage is a page to be digested.
	DigestPage struct{ Page, Position, Tokens, Generation uint64 }
	// DigestArgs are of kv_digest; grid: pages × (layers from First on × 2).
	DigestArgs struct {
		Shape
		Layers, Pages Ptr
		Key           [2]uint64
		Sums          Ptr
		First         uint64
	}

	// ScrubArgs are of kv_clear_tags (grid: pages) and kv_scrub (pages × (layers × 2)).
	ScrubArgs struct {
		Shape
		Layers     Ptr
		LayerCount uint64
		Pages      Ptr // []uint32
	}
)

// Sizes that the sources assert too (sizes.cu): a structure that differs between the
// two languages does not compile.
var (
	_ [24]byte  = [unsafe.Sizeof(Layer{})]byte{}
	_ [16]byte  = [unsafe.Sizeof(Block{})]byte{}
	_ [40]byte  = [unsafe.Sizeof(Fault{})]byte{}
	_ [72]byte  = [unsafe.Sizeof(Pass{})]byte{}
	_ [32]byte  = [unsafe.Sizeof(Run{})]byte{}
	_ [96]byte  = [unsafe.Sizeof(AppendArgs{})]byte{}
	_ [24]byte  = [unsafe.Sizeof(Tile{})]byte{}
	_ [136]byte = [unsafe.Sizeof(AttentionArgs{})]byte{}
	_ [48]byte  = [unsafe.Sizeof(MergeArgs{})]byte{}
	_ [32]byte  = [unsafe.Sizeof(DigestPage{})]byte{}
	_ [64]byte  = [unsafe.Sizeof(DigestArgs{})]byte{}
	_ [40]byte  = [unsafe.Sizeof(ScrubArgs{})]byte{}
)
