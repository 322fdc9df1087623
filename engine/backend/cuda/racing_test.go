//go:build cuda

package cuda

import (
	"testing"
	"unsafe"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/kernels/reference"
)

// constant is a script whose own token weighs nothing beside keys of zero.
type constant struct{ *script }

func (c constant) Keys(_ int, _ []int, _, keys, values []float32) {
	for i := range keys {
		keys[i], values[i] = 1, 0
	}
}

func (c constant) Queries(_ int, positions []int, _, queries []float32) {
	c.positions = positions
	for i := range queries {
		queries[i] = -1000
	}
}

// Promise: while a writer outside of every stream overwrites a page again and again
// (tag cleared, bytes, tag), a reader either is told of it or has read one whole
// generation, the one that it was handed.
func TestAReaderNeverMixesGenerations(t *testing.T) {
	const rounds, rows, dim = 1_000, 16, 64
	c := constant{newScript(random(t), 1, 1, dim, 1)}
	b, err := open(c, Config{Pages: 2, PageTokens: rows, DType: reference.Float32})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	values := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b.memory.regions[1].Page(0)))), rows*dim)
	clear(b.memory.regions[0].Page(0))
	write := func(generation int) {
		b.memory.SetWritten(0, 0, 0)
		overwrite(values, float32(generation))
		b.memory.SetWritten(0, 0, reference.NewTag(uint64(generation), 1))
	}
	write(1)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for generation := 2; ; generation = generation%1000 + 1 {
			select {
			case <-stop:
				return
			default:
				write(generation)
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	var attended []float32
	c.seen = func(_ int, _ []float32, _ []int, a []float32) { attended = append(attended[:0], a...) }
	results := make([]backend.Result, 1)
	for range rounds {
		handed := b.memory.Written(0, 0)
		own := backend.Block{Page: 1, Tag: 9}
		batch := []backend.Sequence{{Tokens: tokens(1, 1), Start: rows, Table: []backend.Block{{Tag: handed}, own}, Logits: true}}
		if err := b.Forward(batch, results); err != nil {
			t.Fatal(err)
		}
		if _, bad := results[0].Fault(); bad {
			continue
		}
		for i, x := range attended {
			if x != float32(handed.Generation()) {
				t.Fatalf("number %d is %g of generation %v", i, x, handed)
			}
		}
	}
}

// overwrite is left out of the race detector: the reader is a GPU, and tags guard it.
//
//go:norace
func overwrite(values []float32, x float32) {
	for i := range values {
		values[i] = x
	}
}
