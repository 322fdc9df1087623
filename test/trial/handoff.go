package trial

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
func send(t *testing.T, from, to *Pool, source, target backend.Block) {
	put := func(r *backend.Region, b []byte) {
		dst, err := to.Memory().At(r.PageAddress(int(target.Page)), len(b))
		if err != nil {
			t.Fatal(err)
		}
		copy(dst, b)
	}
	tag := func(v backend.Tag) {
		for i := range to.Memory().Tags() {
			put(&to.Memory().Tags()[i], binary.LittleEndian.AppendUint64(nil, uint64(v)))
		}
	}
	tag(0)
	for i := range to.Memory().Regions() {
		put(&to.Memory().Regions()[i], from.Memory().Regions()[i].Page(int(source.Page)))
	}
	tag(target.Tag)
}

// HandoffThroughAddresses promises: pages written through the addresses of the regions, tags by the sender,
// are as good as local ones: decode goes on with the answer; and without one of
// them, whichever, the answer is refused.
func HandoffThroughAddresses(t *testing.T, open Open) {
	for _, d := range []reference.DType{reference.Float32, reference.BFloat16} {
		prefill, receiver := open(t, 20, 16, d), open(t, 30, 16, d)
		q := NewRequest(prefill.Text(100), 30)
		q.Table = prefill.HandOut(q.Prompt, 1)
		s := q.Next(100)
		q.Take(t, s, &prefill.Pass(s)[0])
		sources := q.Table
		want, _ := model.ExpectTokens(q.Text[:q.Prompt], q.Limit)
		for missing := range len(sources) {
			table := receiver.HandOut(q.Prompt+q.Limit, 1)
			for i := range sources {
				if i != missing {
					send(t, prefill, receiver, sources[i], table[i])
				}
			}
			first := *q
			first.Table = table
			s := first.Next(1)
			if !first.Ended {
				if _, err := receiver.Pass(s)[0].Logits(); !errors.Is(err, backend.ErrPageTag) {
					t.Fatalf("page %d missing: %v", missing, err)
				}
				send(t, prefill, receiver, sources[missing], table[missing])
				first.Text = slices.Clone(first.Text)
				receiver.Run(&first, 1)
			}
			if !slices.Equal(first.Answer(), want) {
				t.Fatalf("answer %v, want %v", first.Answer(), want)
			}
			receiver.Release(table)
		}
	}
}

// ScrubLeavesNeighboursAlone promises: a scrub zeroes exactly its pages in every region, clears their tags, and
// changes nothing of a neighbour, of its tag or of the padding.
func ScrubLeavesNeighboursAlone(t *testing.T, open Open) {
	p := open(t, 6, 16, reference.Float32)
	for _, regions := range [][]backend.Region{p.Memory().Regions(), p.Memory().Tags()} {
		for i := range regions {
			for j := range regions[i].Bytes {
				regions[i].Bytes[j] = byte(p.R.IntN(255) + 1)
			}
		}
	}
	want := p.Contents()
	at := 0
	for _, regions := range [][]backend.Region{p.Memory().Regions(), p.Memory().Tags()} {
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
	if !bytes.Equal(p.Contents(), want) {
		t.Fatal("the pool is not what zeroing pages 0 and 3 leaves")
	}
	for _, page := range []int{-1, 6} {
		if err := p.Scrub(1, page); !errors.Is(err, backend.ErrPage) {
			t.Fatalf("page %d: %v", page, err)
		}
	}
	if !bytes.Equal(p.Contents(), want) {
		t.Fatal("a refused scrub changed the pool")
	}
}

// HandoffDigest promises: the digest of a handoff does not depend on where the pages lie or on
// their order, and sees a change in any region and any missing page.
func HandoffDigest(t *testing.T, open Open) {
	a, b := open(t, 20, 16, reference.BFloat16), open(t, 20, 16, reference.BFloat16)
	q := Written(a, 90)
	target := b.HandOut(90, 1)
	key := [2]uint64{a.R.Uint64(), a.R.Uint64()}
	var sent, received []backend.DigestPage
	for i := range target {
		send(t, a, b, q.Table[i], target[i])
		page := backend.DigestPage{Position: i, Tokens: min(16, 89-16*i), Generation: target[i].Tag.Generation()}
		page.Page = int(q.Table[i].Page)
		sent = append(sent, page)
		page.Page = int(target[i].Page)
		received = append([]backend.DigestPage{page}, received...)
	}
	digest := func(p *Pool, pages []backend.DigestPage) uint64 {
		d, err := p.Digest(key, pages, 0, len(p.Spec().Layers))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	want := digest(a, sent)
	if got := digest(b, received); got != want {
		t.Fatalf("receiver %016x, sender %016x", got, want)
	}
	var layers uint64 // one by one, as ranks bring them
	for layer := range b.Spec().Layers {
		d, err := b.Digest(key, received, layer, layer+1)
		if err != nil {
			t.Fatal(err)
		}
		layers += d
	}
	if layers != want {
		t.Fatalf("layer by layer %016x, at once %016x", layers, want)
	}
	for _, bad := range [][2]int{{-1, 1}, {1, 0}, {0, len(b.Spec().Layers) + 1}} {
		if _, err := b.Digest(key, received, bad[0], bad[1]); !errors.Is(err, backend.ErrLayer) {
			t.Errorf("layers %v: %v", bad, err)
		}
	}
	if digest(b, received[1:]) == want {
		t.Fatal("a missing page is not seen")
	}
	for i := range b.Memory().Regions() {
		page := b.Memory().Regions()[i].Page(int(target[1].Page))
		page[len(page)/3] ^= 4
		if digest(b, received) == want {
			t.Fatalf("a flipped bit in region %d is not seen", i)
		}
		page[len(page)/3] ^= 4
	}
	for _, other := range []int{1, 2} { // keys against values, layer 0 against layer 1
		first := b.Memory().Regions()[0].Page(int(target[1].Page))
		second := b.Memory().Regions()[other].Page(int(target[1].Page))
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
		if _, err := b.Digest(key, []backend.DigestPage{bad}, 0, 1); !errors.Is(err, backend.ErrPage) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
