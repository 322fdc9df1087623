//go:build cuda

package cuda

import (
	"errors"
	"unsafe"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/kernels"
	"github.com/kvwitness/kvwitness/kernels/reference"
)

// padding makes a region longer than its pages: nobody may take length ÷ pages for
// the stride.
const padding = 4096

// memory is backend.Memory over managed memory.
type memory struct {
	layout  reference.Layout
	pages   int
	regions []backend.Region
	tags    []backend.Region
	written [][]reference.Tag // the tags' regions as words, by layer and page
}

// newMemory allocates a buffer for each layer's keys, values and tags. No page is
// written; what is in the pages is whatever was there.
func newMemory(l reference.Layout, layers, pages int) (*memory, error) {
	m := &memory{layout: l, pages: pages}
	for layer := range layers {
		for _, part := range []reference.Part{reference.PartK, reference.PartV} {
			r, err := newRegion(layer, part, pages, l.PageBytes())
			if err != nil {
				return nil, errors.Join(err, m.close())
			}
			m.regions = append(m.regions, r)
		}
		r, err := newRegion(layer, reference.PartTag, pages, backend.TagBytes)
		if err != nil {
			return nil, errors.Join(err, m.close())
		}
		clear(r.Bytes)
		m.tags = append(m.tags, r)
		m.written = append(m.written, unsafe.Slice((*reference.Tag)(unsafe.Pointer(unsafe.SliceData(r.Bytes))), pages))
	}
	return m, nil
}

func newRegion(layer int, part reference.Part, pages, pageBytes int) (backend.Region, error) {
	length := (pages*pageBytes/padding + 1) * padding
	p, err := managed(length)
	if err != nil {
		return backend.Region{}, err
	}
	return backend.Region{
		Layer: layer, Part: part, Base: uint64(uintptr(p)), Stride: pageBytes, PageBytes: pageBytes,
		Pages: pages, Length: length, Bytes: unsafe.Slice((*byte)(p), length),
	}, nil
}

func (m *memory) Layout() reference.Layout  { return m.layout }
func (m *memory) Pages() int                { return m.pages }
func (m *memory) Regions() []backend.Region { return m.regions }
func (m *memory) Tags() []backend.Region    { return m.tags }

func (m *memory) Written(layer, page int) backend.Tag {
	return reference.LoadTag(&m.written[layer][page])
}

func (m *memory) Rewritten(layer, page int) backend.Tag {
	return reference.RecheckTag(&m.written[layer][page])
}

func (m *memory) SetWritten(layer, page int, tag backend.Tag) {
	reference.StoreTag(&m.written[layer][page], tag)
}

func (m *memory) At(address uint64, n int) ([]byte, error) {
	return backend.Resolve(address, n, m.regions, m.tags)
}

// layer is where the GPU finds a layer.
func (m *memory) layer(i int) kernels.Layer {
	return kernels.Layer{
		Keys: kernels.Ptr(m.regions[2*i].Base), Values: kernels.Ptr(m.regions[2*i+1].Base), Written: kernels.Ptr(m.tags[i].Base),
	}
}

func (m *memory) shape() kernels.Shape {
	l := m.layout
	return kernels.Shape{DType: uint32(l.DType), Tokens: uint32(l.PageTokens), KVHeads: uint32(l.KVHeads), Dim: uint32(l.HeadDim)}
}

func (m *memory) close() error {
	var errs []error
	m.written = nil
	for _, regions := range [][]backend.Region{m.regions, m.tags} {
		for i := range regions {
			errs = append(errs, freeManaged(unsafe.Pointer(unsafe.SliceData(regions[i].Bytes))))
			regions[i].Bytes = nil
		}
	}
	m.regions, m.tags = nil, nil
	return errors.Join(errs...)
}
