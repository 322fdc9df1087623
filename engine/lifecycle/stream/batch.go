package stream

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/tinylib/msgp/msgp"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

const (
	// MaxBatchFacts is the most facts in one batch.
	MaxBatchFacts = 1 << 14
	// MaxBatchBytes is the longest batch, in bytes: a full one and the longest fact.
	MaxBatchBytes = 1<<20 + lifecycle.MaxLine + 64
	// FullBatchBytes is the length from which on a batch takes no more facts.
	FullBatchBytes = 1 << 20
)

// msgpack's markers for what a Builder writes with a fixed width.
const (
	fixArray3  = 0x93
	markFloat  = 0xcb
	markArray4 = 0xdd
)

// Builder makes one batch after the other in the same memory.
type Builder struct {
	buf   []byte
	facts uint32
}

// at is where a batch's first fact begins: the array of three, the time, and
// the header of the events.
const at = 1 + 9 + 5

// Add appends a fact to the batch.
func (b *Builder) Add(f *lifecycle.Fact) {
	if b.facts == 0 {
		b.buf = append(b.buf[:0], make([]byte, at)...)
	}
	b.buf = f.AppendMsgpack(b.buf)
	b.facts++
}

// Facts is how many facts the batch has.
func (b *Builder) Facts() int { return int(b.facts) }

// Full reports whether the batch must be finished before more is added.
func (b *Builder) Full() bool { return b.facts >= MaxBatchFacts || len(b.buf) >= FullBatchBytes }

// Finish closes the batch of facts that were added and returns it; it is valid
// until the next Add. ts is in seconds since 1970.
func (b *Builder) Finish(ts float64, rank lifecycle.Opt[int64]) []byte {
	b.buf[0], b.buf[1], b.buf[10] = fixArray3, markFloat, markArray4
	binary.BigEndian.PutUint64(b.buf[2:], math.Float64bits(ts))
	binary.BigEndian.PutUint32(b.buf[11:], b.facts)
	b.facts = 0
	if !rank.Has {
		b.buf = msgp.AppendNil(b.buf)
	} else {
		b.buf = msgp.AppendInt64(b.buf, rank.V)
	}
	return b.buf
}

// Batch is a batch whose facts are not decoded yet.
type Batch struct {
	TS     float64 // seconds since 1970
	Rank   lifecycle.Opt[int64]
	Facts  int
	events []byte
	ends   []int // of each event
}

// ParseBatch reads a batch's frame. What follows the rank is ignored: fields are
// only added.
func ParseBatch(payload []byte) (b Batch, err error) {
	if len(payload) > MaxBatchBytes {
		return b, fmt.Errorf("%w: %d bytes, at most %d", ErrBatch, len(payload), MaxBatchBytes)
	}
	n, rest, err := msgp.ReadArrayHeaderBytes(payload)
	if err != nil || n < 2 {
		return b, fmt.Errorf("%w: not an array of time, events and rank", ErrBatch)
	}
	if b.TS, rest, err = msgp.ReadFloat64Bytes(rest); err != nil {
		return b, fmt.Errorf("%w: the time: %w", ErrBatch, err)
	}
	facts, rest, err := msgp.ReadArrayHeaderBytes(rest)
	if err != nil || facts > MaxBatchFacts {
		return b, fmt.Errorf("%w: not a list of at most %d events", ErrBatch, MaxBatchFacts)
	}
	if uint64(facts) > uint64(len(rest)) {
		return b, fmt.Errorf("%w: %d events in %d bytes", ErrBatch, facts, len(rest))
	}
	b.Facts, b.events, b.ends = int(facts), rest, make([]int, facts)
	for n := range b.ends {
		if rest, err = msgp.Skip(rest); err != nil {
			return b, fmt.Errorf("%w: its events: %w", ErrBatch, err)
		}
		b.ends[n] = len(b.events) - len(rest)
	}
	if n > 2 && msgp.NextType(rest) != msgp.NilType {
		if b.Rank.V, _, err = msgp.ReadInt64Bytes(rest); err != nil {
			return b, fmt.Errorf("%w: the rank: %w", ErrBatch, err)
		}
		b.Rank.Has = true
	}
	return b, nil
}

// Each calls each with every fact, still encoded, in order.
func (b Batch) Each(each func(raw []byte)) {
	begin := 0
	for _, end := range b.ends {
		each(b.events[begin:end])
		begin = end
	}
}
