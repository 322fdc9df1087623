package cpu

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/kernels/reference"
)

// send moves a page as a transfer does: by the addresses that the receiver named,
// tag cleared first and set last.
func send(t *testing.T, from, to *pool, source, target backend.Block) {
	put := func(r *backend.Region, b []byte) {
		dst, err := to.Memory().At(r.PageAddress(int(target.Page)), len(b))
		if err != nil {
			t.Fatal(err)
		}
		copy(dst, b)
	}
	tag := func(v backend.Tag) {
		for i := range to.memory.tags {
			put(&to.memory.tags[i], binary.LittleEndian.AppendUint64(nil, uint64(v)))
		}
	}
	tag(0)
	for i := range to.memory.regions {
		put(&to.memory.regions[i], from.memory.regions[i].Page(int(source.Page)))
	}
	tag(target.Tag)
}

// Promise: pages written through the addresses of the regions, tags by the sender,
// are as good as local ones: decode goes on with the answer; and without one of
// them, whichever, the answer is refused.
func TestHandoffThroughAddresses(t *testing.T) {
	for _, d := range []reference.DType{reference.Float32, reference.BFloat16} {
		prefill, receiver := newPool(t, 20, 16, d), newPool(t, 30, 16, d)
		q := newRequest(prefill.text(100), 30)
		q.table = prefill.handOut(q.prompt, 1)
		s := q.next(100)
		q.take(t, s, &prefill.forward(s)[0])
		sources := q.table
		want, _ := model.ExpectTokens(q.text[:q.prompt], q.limit)
		for missing := range len(sources) {
			table := receiver.handOut(q.prompt+q.limit, 1)
			for i := range sources {
				if i != missing {
					send(t, prefill, receiver, sources[i], table[i])
				}
			}
			first := *q
			first.table = table
			s := first.next(1)
			if !first.ended {
				if _, err := receiver.forward(s)[0].Logits(); !errors.Is(err, backend.ErrPageTag) {
					t.Fatalf("page %d missing: %v", missing, err)
				}
				send(t, prefill, receiver, sources[missing], table[missing])
				first.text = slices.Clone(first.text)
				receiver.run(&first, 1)
			}
			if !slices.Equal(first.answer(), want) {
				t.Fatalf("answer %v, want %v", first.answer(), want)
			}
			receiver.release(table)
		}
	}
}

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

// Promise: a scrub zeroes exactly its pages in every region, clears their tags, and
// changes nothing of a neighbour, of its tag or of the padding.
func TestScrubLeavesNeighboursAlone(t *testing.T) {
	p := newPool(t, 6, 16, reference.Float32)
	for _, regions := range [][]backend.Region{p.memory.regions, p.memory.tags} {
		for i := range regions {
			for j := range regions[i].Bytes {
				regions[i].Bytes[j] = byte(p.r.IntN(255) + 1)
			}
		}
	}
	want := p.contents()
	at := 0
	for _, regions := range [][]backend.Region{p.memory.regions, p.memory.tags} {
		for i := range regions {
			r := &regions[i]
			for _, page := range []int{0, 3} {
				clear(want[at+page*r.Stride : at+page*r.Stride+r.PageBytes])
			}
			at += r.Length
		}
	}
	if err := p.Scrub(0, 3); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(p.contents(), want) {
		t.Fatal("the pool is not what zeroing pages 0 and 3 leaves")
	}
	for _, page := range []int{-1, 6} {
		if err := p.Scrub(1, page); !errors.Is(err, backend.ErrPage) {
			t.Fatalf("page %d: %v", page, err)
		}
	}
	if !bytes.Equal(p.contents(), want) {
		t.Fatal("a refused scrub changed the pool")
	}
}

// Promise: the digest of a handoff does not depend on where the pages lie or on
// their order, and sees a change in any region and any missing page.
func TestHandoffDigest(t *testing.T) {
	a, b := newPool(t, 20, 16, reference.BFloat16), newPool(t, 20, 16, reference.BFloat16)
	q := written(a, 90)
	target := b.handOut(90, 1)
	key := [2]uint64{a.r.Uint64(), a.r.Uint64()}
	var sent, received []backend.DigestPage
	for i := range target {
		send(t, a, b, q.table[i], target[i])
		page := backend.DigestPage{Position: i, Tokens: min(16, 89-16*i), Generation: target[i].Tag.Generation()}
		page.Page = int(q.table[i].Page)
		sent = append(sent, page)
		page.Page = int(target[i].Page)
		received = append([]backend.DigestPage{page}, received...)
	}
	digest := func(p *pool, pages []backend.DigestPage) uint64 {
		d, err := p.Digest(key, pages)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	want := digest(a, sent)
	if got := digest(b, received); got != want {
		t.Fatalf("receiver %016x, sender %016x", got, want)
	}
	if digest(b, received[1:]) == want {
		t.Fatal("a missing page is not seen")
	}
	for i := range b.memory.regions {
		page := b.memory.regions[i].Page(int(target[1].Page))
		page[len(page)/3] ^= 4
		if digest(b, received) == want {
			t.Fatalf("a flipped bit in region %d is not seen", i)
		}
		page[len(page)/3] ^= 4
	}
	for _, other := range []int{1, 2} { // keys against values, layer 0 against layer 1
		first := b.memory.regions[0].Page(int(target[1].Page))
		second := b.memory.regions[other].Page(int(target[1].Page))
		for j := range first {
			first[j], second[j] = second[j], first[j]
		}
		if digest(b, received) == want {
			t.Fatalf("regions 0 and %d may be exchanged", other)
		}
		for j := range first {
			first[j], second[j] = second[j], first[j]
		}
	}
	for _, bad := range []backend.DigestPage{{Page: 20}, {Page: -1}, {Tokens: 17}, {Tokens: -1}} {
		if _, err := b.Digest(key, []backend.DigestPage{bad}); !errors.Is(err, backend.ErrPage) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
