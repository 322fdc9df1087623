package cpu

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/kernels/reference"
)

// Promise: an address is resolved only where all its bytes are within the pages of
// one region: not in the padding, not across regions, whatever the length.
func TestAddressesAreBounded(t *testing.T) {
	p := newPool(t, 3, 16, reference.Float32)
	m := p.Memory()
	r := m.Regions()[1]
	size := r.Pages * r.Stride
	if got, err := m.At(r.Base, size); err != nil || len(got) != size || &got[0] != &r.Bytes[0] {
		t.Fatalf("the whole region: %v", err)
	}
	tag := m.Tags()[1]
	m.SetWritten(1, 2, 77)
	if got, err := m.At(tag.PageAddress(2), 8); err != nil || binary.LittleEndian.Uint64(got) != 77 {
		t.Fatalf("a tag: %v, %v", got, err)
	}
	for name, c := range map[string]struct {
		address uint64
		n       int
	}{
		"before": {r.Base - 1, 1}, "over the end": {r.Base + 1, size}, "the padding": {r.Base + uint64(size), 1},
		"negative": {r.Base, -1}, "the largest": {r.Base, int(^uint(0) >> 1)}, "zero": {0, 8},
		"the top": {^uint64(0) - 3, 8}, "over the tags": {tag.PageAddress(2) + 1, 8},
	} {
		if got, err := m.At(c.address, c.n); !errors.Is(err, backend.ErrAddress) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
}

// Promise: regions are laid out as they say: distinct, padded, one for each layer
// and part, page p at Base + p × Stride.
func TestRegionsAreWhatTheySay(t *testing.T) {
	p := newPool(t, 5, 64, reference.BFloat16)
	m := p.Memory()
	all := append(slices.Clone(m.Regions()), m.Tags()...)
	if len(m.Regions()) != 2*len(p.spec.Layers) || len(m.Tags()) != len(p.spec.Layers) {
		t.Fatalf("%d regions, %d of tags", len(m.Regions()), len(m.Tags()))
	}
	slices.SortFunc(all, func(a, b backend.Region) int { return bytes.Compare(be(a.Base), be(b.Base)) })
	for i, r := range all {
		if r.Length <= r.Pages*r.Stride || len(r.Bytes) != r.Length || r.Base%4096 != 0 {
			t.Errorf("layer %d %v: %+v", r.Layer, r.Part, r.Length)
		}
		if i > 0 && all[i-1].Base+uint64(all[i-1].Length) > r.Base {
			t.Errorf("layer %d %v overlaps the region before", r.Layer, r.Part)
		}
		if r.Part != reference.PartTag && r.PageBytes != m.Layout().PageBytes() {
			t.Errorf("layer %d %v: %d bytes a page", r.Layer, r.Part, r.PageBytes)
		}
	}
}

func be(x uint64) []byte { return binary.BigEndian.AppendUint64(nil, x) }
