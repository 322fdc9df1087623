package cpu

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/kernels/reference"
)

// MaxPages is the largest pool that can be opened.
const MaxPages = 1 << 24

// memory is backend.Memory outside of the Go heap: its addresses stay, begin at a
// page of the machine, and cost nothing until they are touched.
type memory struct {
	layout  reference.Layout
	pages   int
	regions []backend.Region
	tags    []backend.Region
	written [][]reference.Tag // the tags' regions as words, by layer and page
}

// newMemory maps a buffer for each layer's keys, values and tags. All is zero: no
// page is written.
func newMemory(l reference.Layout, layers, pages int) (*memory, error) {
	m := &memory{layout: l, pages: pages}
	for layer := range layers {
		for _, part := range []reference.Part{reference.PartK, reference.PartV} {
			r, err := newRegion(layer, part, pages, l.PageBytes())
			if err != nil {
				m.close()
				return nil, err
			}
			m.regions = append(m.regions, r)
		}
		r, err := newRegion(layer, reference.PartTag, pages, backend.TagBytes)
		if err != nil {
			m.close()
			return nil, err
		}
		m.tags = append(m.tags, r)
		m.written = append(m.written, unsafe.Slice((*reference.Tag)(unsafe.Pointer(unsafe.SliceData(r.Bytes))), pages))
	}
	return m, nil
}

// newRegion maps one buffer. It is longer than its pages, as allocators pad them:
// nobody may take length ÷ pages for the stride.
func newRegion(layer int, part reference.Part, pages, pageBytes int) (backend.Region, error) {
	unit := os.Getpagesize()
	length := (pages*pageBytes/unit + 1) * unit
	b, err := syscall.Mmap(-1, 0, length, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		return backend.Region{}, fmt.Errorf("map %d bytes for layer %d %v: %w: open a smaller pool", length, layer, part, err)
	}
	return backend.Region{
		Layer: layer, Part: part, Base: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))),
		Stride: pageBytes, PageBytes: pageBytes, Pages: pages, Length: length, Bytes: b,
	}, nil
}

func (m *memory) Layout() reference.Layout  { return m.layout }
func (m *memory) Pages() int                { return m.pages }
func (m *memory) Regions() []backend.Region { return m.regions }
func (m *memory) Tags() []backend.Region    { return m.tags }

func (m *memory) Written(layer, page int) backend.Tag {
	return reference.LoadTag(&m.written[layer][page])
}

func (m *memory) SetWritten(layer, page int, tag backend.Tag) {
	reference.StoreTag(&m.written[layer][page], tag)
}

func (m *memory) Rewritten(layer, page int) backend.Tag {
	return reference.RecheckTag(&m.written[layer][page])
}

func (m *memory) At(address uint64, n int) ([]byte, error) {
	return backend.Resolve(address, n, m.regions, m.tags)
}

// part returns a page of one layer's keys or values.
func (m *memory) part(layer int, part reference.Part, page int) []byte {
	return m.regions[2*layer+int(part-reference.PartK)].Page(page)
}

func (m *memory) close() error {
	var first error
	m.written = nil
	for _, regions := range [][]backend.Region{m.regions, m.tags} {
		for i := range regions {
			if err := syscall.Munmap(regions[i].Bytes); err != nil && first == nil {
				first = fmt.Errorf("unmap layer %d %v: %w", regions[i].Layer, regions[i].Part, err)
			}
			regions[i].Bytes = nil
		}
	}
	return first
}
