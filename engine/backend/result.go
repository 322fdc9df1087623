package backend

import (
	"fmt"
	"math/bits"

	"github.com/kvwitness/kvwitness/engine/model"
)

// Moment is when a tag was found to be wrong.
type Moment uint8

const (
	BeforeAppend Moment = iota + 1
	BeforeRead
	AfterRead
)

func (m Moment) String() string {
	return [...]string{"", "before append", "before read", "after read"}[m]
}

// Fault is a page that was not what the block table says.
type Fault struct {
	Sequence int // index in the batch
	Layer    int
	Head     int // kv head
	Block    int // index in the block table
	Page     int // physical
	Expected Tag // handed out
	Seen     Tag // written
	Moment   Moment
}

// FaultError is the error of a flagged sequence; it is ErrPageTag.
type FaultError struct {
	First Fault
	Pages int // how many pages of the sequence were skipped at least once
}

func (e *FaultError) Error() string {
	f := e.First
	return fmt.Sprintf("%v: %d pages; first page %d (block %d, layer %d, kv head %d) %v: handed out %v, written %v: no token may leave",
		ErrPageTag, e.Pages, f.Page, f.Block, f.Layer, f.Head, f.Moment, f.Expected, f.Seen)
}

// Unwrap returns ErrPageTag.
func (e *FaultError) Unwrap() error { return ErrPageTag }

// Result is what a Forward gives for one sequence. It fails closed: a flagged
// sequence has no logits, so that no sampler can pick a token for it.
type Result struct {
	logits  []float32
	first   Fault
	skipped []uint64 // a bit for each block
	flagged bool
}

// Logits returns the logits of the sequence's last token (length Vocab). Errors:
// *FaultError for a flagged sequence, ErrNoLogits.
func (r *Result) Logits() ([]float32, error) {
	if r.flagged {
		return nil, &FaultError{r.first, r.Skipped()}
	}
	if r.logits == nil {
		return nil, ErrNoLogits
	}
	return r.logits, nil
}

// Fault returns the first fault; ok is false where there was none. It is said for
// every chunk, whether or not logits were asked for.
func (r *Result) Fault() (first Fault, ok bool) { return r.first, r.flagged }

// Skipped counts the pages that were skipped at least once, in any layer or head.
func (r *Result) Skipped() int {
	n := 0
	for _, w := range r.skipped {
		n += bits.OnesCount64(w)
	}
	return n
}

// Sample picks the next token. Errors: those of Logits, and ErrNoLogits where the
// logits are no numbers.
func (r *Result) Sample(s *model.Sampler) (model.Token, error) {
	logits, err := r.Logits()
	if err != nil {
		return 0, err
	}
	t, ok := s.Pick(logits)
	if !ok {
		return 0, fmt.Errorf("pick a token from %d logits: none is a number: %w", len(logits), ErrNoLogits)
	}
	return t, nil
}

// Begin empties a result for a sequence of so many blocks; for backends.
func (r *Result) Begin(blocks int) {
	words := (blocks + 63) / 64
	if cap(r.skipped) < words {
		r.skipped = make([]uint64, words)
	}
	r.skipped = r.skipped[:words]
	clear(r.skipped)
	r.logits, r.flagged = nil, false
	r.first = Fault{}
}

// SetLogits gives a result its logits; for backends.
func (r *Result) SetLogits(logits []float32) { r.logits = logits }

// Flag records a fault; for backends.
func (r *Result) Flag(f Fault) {
	if !r.flagged {
		r.first, r.flagged = f, true
	}
	r.skipped[f.Block/64] |= 1 << (f.Block % 64)
}
