// Package cpu is the backend that computes on the CPU, with the algorithms of
// kernels/reference. It imports engine/backend, engine/model and kernels/reference.
//
// It promises what backend.Backend promises. It computes in the goroutine that
// calls it, allocates nothing once it has seen the largest batch, and computes the
// last layer only for tokens whose logits were asked for.
package cpu

import (
	"fmt"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/kernels/reference"
)

// Config is the pool's size and shape.
type Config struct {
	Pages      int // 1 to MaxPages
	PageTokens int // reference.MinPageTokens to MaxPageTokens
	DType      reference.DType
}

// Backend implements backend.Backend.
type Backend struct {
	spec      model.Spec
	memory    *memory
	attention *reference.Attention
	pass      *backend.Pass

	// reached, if a test sets it, runs where a pass is vulnerable.
	reached func(p point, layer, head, page int)
}

// point is a place in a pass at which a test may interfere.
type point uint8

const (
	pageRead  point = iota // a page of a kv head was read, its tag not yet checked again
	rowStored              // a page's first row was stored, its tag not yet set
)

func (b *Backend) reach(p point, layer, head, page int) {
	if b.reached != nil {
		b.reached(p, layer, head, page)
	}
}

var _ backend.Backend = (*Backend)(nil)

// New maps the memory for a network's pages. Errors: reference.ErrLayout,
// backend.ErrPage for a number of pages that is out of bounds, or the system's
// where there is not enough memory.
func New(network model.Network, c Config) (*Backend, error) {
	spec := network.Spec()
	layout := reference.Layout{DType: c.DType, PageTokens: c.PageTokens, KVHeads: spec.KVHeads, HeadDim: spec.HeadDim}
	if err := layout.Validate(); err != nil {
		return nil, fmt.Errorf("open the pages of %s: %w", spec.Name, err)
	}
	if c.Pages < 1 || c.Pages > MaxPages {
		return nil, fmt.Errorf("open the pages of %s: %w: %d pages, want 1 to %d", spec.Name, backend.ErrPage, c.Pages, MaxPages)
	}
	m, err := newMemory(layout, len(spec.Layers), c.Pages)
	if err != nil {
		return nil, fmt.Errorf("open the pages of %s: %w", spec.Name, err)
	}
	b := &Backend{spec: spec, memory: m, attention: reference.NewAttention(layout, spec.Heads/spec.KVHeads)}
	numbers := func(n int) []float32 { return make([]float32, n) }
	b.pass = backend.NewPass(network, passRows, numbers, backend.Steps{Append: b.append, Attend: b.attend})
	return b, nil
}

// Spec implements backend.Backend.
func (b *Backend) Spec() model.Spec { return b.spec }

// Memory implements backend.Backend.
func (b *Backend) Memory() backend.Memory { return b.memory }

// Close implements backend.Backend.
func (b *Backend) Close() error { return b.memory.close() }

// Scrub implements backend.Backend.
func (b *Backend) Scrub(pages ...int) error {
	for _, p := range pages {
		if err := backend.CheckPage(p, b.memory.pages); err != nil {
			return fmt.Errorf("scrub: %w", err)
		}
	}
	for _, p := range pages {
		for layer := range b.spec.Layers {
			b.memory.SetWritten(layer, p, 0)
		}
		for i := range b.memory.regions {
			r := &b.memory.regions[i]
			b.memory.layout.Scrub(r.Bytes, r.Stride, p)
		}
	}
	return nil
}

// Digest implements backend.Backend.
func (b *Backend) Digest(key [2]uint64, pages []backend.DigestPage, first, end int) (uint64, error) {
	if err := backend.CheckDigest(pages, first, end, b.spec, b.memory.pages, b.memory.layout.PageTokens); err != nil {
		return 0, fmt.Errorf("digest: %w", err)
	}
	var sum uint64
	for _, p := range pages {
		for i := range b.memory.regions[2*first : 2*end] {
			r := &b.memory.regions[2*first+i]
			sum += b.memory.layout.Digest(r.Page(p.Page), p.Tokens, reference.Binding{
				Key: key, Position: p.Position, Layer: r.Layer, Part: r.Part, Generation: p.Generation,
			})
		}
	}
	return sum, nil
}
