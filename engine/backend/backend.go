// Package backend is the seam behind which the forward pass sits: the memory that
// holds the pages, and the pass that appends to them and attends over them. The
// CPU backend is in backend/cpu; others fill the same interface.
//
// It imports engine/model (what is computed) and kernels/reference (layouts, tags,
// the definition of each algorithm), and nothing of the scheduler or the pool: a
// backend is told which pages to use, by block table, and owns none.
//
// What every backend promises:
//  1. A sequence is computed only from its own tokens and the pages of its block
//     table, however sequences are batched and prompts cut into chunks.
//  2. With tags checked, a page whose written tag is not the one handed out, before
//     it is used or still after, contributes nothing; the sequence is flagged and
//     gives no logits.
//  3. The written tag of a page is set by whoever wrote its bytes, after them: by
//     the append, or by the sender of a transfer in the region of tags. Nothing else
//     sets it, a completion message least of all.
package backend

import (
	"errors"

	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/kernels/reference"
)

// Tag is a page's generation and domain; see reference.Tag.
type Tag = reference.Tag

// Bounds of one Forward.
const (
	MaxBatchSequences = 4096
	MaxBatchTokens    = 1 << 17
)

var (
	// ErrBatch says that a batch cannot be computed; nothing was written.
	ErrBatch = errors.New("batch is not valid")
	// ErrPage says that a page does not exist in the pool.
	ErrPage = errors.New("page is outside the pool")
	// ErrLayer says that the network has no such layers.
	ErrLayer = errors.New("layers are outside the network")
	// ErrAddress says that an address range is not within one region.
	ErrAddress = errors.New("address range is outside every region")
	// ErrNoLogits says that logits were not asked for, or are not computed yet.
	ErrNoLogits = errors.New("no logits were asked for")
	// ErrPageTag says that pages of the sequence were not what was handed out.
	ErrPageTag = errors.New("page tag mismatch")
)

// Block is one entry of a block table: a physical page, and the tag with which it
// was handed out to (or shared with) this sequence.
type Block struct {
	Page int32
	Tag  Tag
}

// Sequence is one sequence's share of a batch: Tokens are appended at positions
// Start, Start+1, … and attend to everything before them. Positions below Start
// must be in the pages already. Table covers at least Start+len(Tokens) tokens.
type Sequence struct {
	Tokens    []model.Token
	Start     int
	Table     []Block
	Logits    bool // of the last token; false for all but the last chunk of a prompt
	Unchecked bool // tags are not checked: stale pages are really read (drills)
}

// Backend computes. Forward is called from one goroutine at a time; Scrub and Digest
// may be called beside it. The memory may be written by a transfer at any time.
type Backend interface {
	// Spec is the network's shape.
	Spec() model.Spec
	// Memory is where the pages are.
	Memory() Memory
	// Forward appends and computes a batch; results[i] is set for batch[i] and its
	// logits are valid until the next Forward. A page fault is no error here: it
	// stands in its sequence's result. Errors: ErrBatch.
	Forward(batch []Sequence, results []Result) error
	// Scrub clears the written tags of pages, then zeroes them in every region.
	// Errors: ErrPage, before anything was changed.
	Scrub(pages ...int) error
	// Digest sums the page digests of a handoff over its pages, the layers from first
	// up to end, keys and values. Errors: ErrPage, ErrLayer.
	Digest(key [2]uint64, pages []DigestPage, first, end int) (uint64, error)
	// Close frees the memory. No address of it may be used any more.
	Close() error
}

// DigestPage is one page of a handoff.
type DigestPage struct {
	Page       int    // where it lies here
	Position   int    // which page of the prompt it is, from 0
	Tokens     int    // how many of its rows count
	Generation uint64 // the receiver's
}
