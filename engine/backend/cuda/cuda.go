//go:build cuda

package cuda

import (
	"errors"
	"fmt"
	"sync"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/kernels"
	"github.com/kvwitness/kvwitness/kernels/reference"
)

// Backend implements backend.Backend.
type Backend struct {
	spec   model.Spec
	device *device
	memory *memory
	pass   *backend.Pass

	mu     sync.Mutex // of what follows, and of the order on the stream
	rows   arena      // what the pass's rows lie in, for as long as the backend
	batch  arena      // of one call
	step   arena      // of one layer
	sinks  []kernels.Ptr
	tables tables
}

var _ backend.Backend = (*Backend)(nil)

// New opens a pool on the first GPU. Errors: reference.ErrLayout, ErrHeadDim,
// backend.ErrPage for a number of pages that is out of bounds, kernels.ErrOldGPU, or
// the driver's with the call that failed.
func New(network model.Network, c Config) (backend.Backend, error) {
	b, err := open(network, c)
	if err != nil {
		return nil, fmt.Errorf("open the pages of %s: %w", network.Spec().Name, err)
	}
	return b, nil
}

func open(network model.Network, c Config) (*Backend, error) {
	spec := network.Spec()
	layout := reference.Layout{DType: c.DType, PageTokens: c.PageTokens, KVHeads: spec.KVHeads, HeadDim: spec.HeadDim}
	if err := layout.Validate(); err != nil {
		return nil, err
	}
	if spec.HeadDim != 64 && spec.HeadDim != 128 {
		return nil, fmt.Errorf("%w, not %d", ErrHeadDim, spec.HeadDim)
	}
	if c.Pages < 1 || c.Pages > MaxPages {
		return nil, fmt.Errorf("%w: %d pages, want 1 to %d", backend.ErrPage, c.Pages, MaxPages)
	}
	d, err := openDevice()
	if err != nil {
		return nil, err
	}
	defer d.leave()
	b := &Backend{spec: spec, device: d}
	if b.memory, err = newMemory(layout, len(spec.Layers), c.Pages); err != nil {
		return nil, errors.Join(err, d.close())
	}
	numbers := func(n int) []float32 {
		s, _ := take[float32](&b.rows, n)
		return s
	}
	b.pass = backend.NewPass(network, passRows, numbers, backend.Steps{Append: b.append, Attend: b.attend})
	for _, l := range spec.Layers {
		sinks := numbers(spec.Heads)
		copy(sinks, l.Sinks)
		b.sinks = append(b.sinks, pointerTo(sinks))
	}
	if b.rows.err != nil {
		return nil, errors.Join(b.rows.err, b.release())
	}
	return b, nil
}

// Spec implements backend.Backend.
func (b *Backend) Spec() model.Spec { return b.spec }

// Memory implements backend.Backend.
func (b *Backend) Memory() backend.Memory { return b.memory }

// Close implements backend.Backend.
func (b *Backend) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.device.enter(); err != nil {
		return err
	}
	defer b.device.leave()
	return b.release()
}

func (b *Backend) release() error {
	return errors.Join(b.rows.close(), b.batch.close(), b.step.close(), b.memory.close(), b.device.close())
}

// layers gives the GPU the places of all layers.
func (b *Backend) layers() kernels.Ptr {
	all, p := take[kernels.Layer](&b.batch, len(b.spec.Layers))
	for i := range all {
		all[i] = b.memory.layer(i)
	}
	return p
}

// Scrub implements backend.Backend.
func (b *Backend) Scrub(pages ...int) error {
	for _, p := range pages {
		if err := backend.CheckPage(p, b.memory.pages); err != nil {
			return fmt.Errorf("scrub: %w", err)
		}
	}
	if len(pages) == 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.device.enter(); err != nil {
		return fmt.Errorf("scrub: %w", err)
	}
	defer b.device.leave()
	list, at := take[uint32](&b.batch, len(pages))
	for i, p := range pages {
		list[i] = uint32(p)
	}
	args := put(&b.batch, kernels.ScrubArgs{
		Shape: b.memory.shape(), Layers: b.layers(), LayerCount: uint64(len(b.spec.Layers)), Pages: at,
	})
	err := b.batch.err
	if err == nil {
		err = errors.Join(
			b.device.launch("kv_clear_tags", [3]int{len(pages), 1, 1}, kernels.Warp, args),
			b.device.launch("kv_scrub", [3]int{len(pages), 2 * len(b.spec.Layers), 1}, scrubThreads, args),
			b.device.wait())
	}
	if err = errors.Join(err, b.batch.reset()); err != nil {
		return fmt.Errorf("scrub: %w", err)
	}
	return nil
}

const scrubThreads = 128

// Digest implements backend.Backend.
func (b *Backend) Digest(key [2]uint64, pages []backend.DigestPage, first, end int) (uint64, error) {
	if err := backend.CheckDigest(pages, first, end, b.spec, b.memory.pages, b.memory.layout.PageTokens); err != nil {
		return 0, fmt.Errorf("digest: %w", err)
	}
	if len(pages) == 0 || first == end {
		return 0, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.device.enter(); err != nil {
		return 0, fmt.Errorf("digest: %w", err)
	}
	defer b.device.leave()
	sum, err := b.digest(key, pages, first, end)
	if err = errors.Join(err, b.batch.reset()); err != nil {
		return 0, fmt.Errorf("digest: %w", err)
	}
	return sum, nil
}

func (b *Backend) digest(key [2]uint64, pages []backend.DigestPage, first, end int) (uint64, error) {
	list, at := take[kernels.DigestPage](&b.batch, len(pages))
	for i, p := range pages {
		list[i] = kernels.DigestPage{Page: uint64(p.Page), Position: uint64(p.Position), Tokens: uint64(p.Tokens), Generation: p.Generation}
	}
	parts := 2 * (end - first)
	sums, to := take[uint64](&b.batch, len(pages)*parts)
	args := put(&b.batch, kernels.DigestArgs{
		Shape: b.memory.shape(), Layers: b.layers(), Pages: at, Key: key, Sums: to, First: uint64(first),
	})
	if b.batch.err != nil {
		return 0, b.batch.err
	}
	err := errors.Join(b.device.launch("kv_digest", [3]int{len(pages), parts, 1}, kernels.DigestThreads, args), b.device.wait())
	var sum uint64
	for _, s := range sums {
		sum += s
	}
	return sum, err
}
