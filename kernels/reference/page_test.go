package reference

import (
	"bytes"
	"errors"
	"testing"
	"unsafe"
)

func bytesOf(f []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(f))), 4*len(f))
}

// region returns n pages of random bytes, each followed by a gap up to the stride.
func region(t *testing.T, l Layout, n, stride int) []byte {
	r := random(t)
	b := aligned(n * stride)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// Promise: a scrub zeroes the whole page and nothing else: not the page before,
// not the page after, not the padding between pages.
func TestScrubZeroesItsPageAndNoNeighbour(t *testing.T) {
	r := random(t)
	for range 100 {
		l := randomLayout(r)
		stride := l.PageBytes() + 16*r.IntN(3)
		const pages = 4
		b := region(t, l, pages, stride)
		before := bytes.Clone(b)
		p := r.IntN(pages)
		l.Scrub(b, stride, p)
		from, to := p*stride, p*stride+l.PageBytes()
		if !bytes.Equal(b[:from], before[:from]) || !bytes.Equal(b[to:], before[to:]) {
			t.Fatalf("%+v: scrubbing page %d of stride %d changed bytes outside of it", l, p, stride)
		}
		if !bytes.Equal(b[from:to], make([]byte, to-from)) {
			t.Fatalf("%+v: page %d is not zero after the scrub", l, p)
		}
	}
}

// Promise: an append stores one row per head, exactly as rounded, and no other.
func TestAppendStoresItsRowAndNoOther(t *testing.T) {
	r := random(t)
	for range 100 {
		l := randomLayout(r)
		page := region(t, l, 1, l.PageBytes())
		before := bytes.Clone(page)
		slot, kv := r.IntN(l.PageTokens), normals(r, l.KVHeads*l.HeadDim)
		l.Append(page, slot, kv)
		for h := range l.KVHeads {
			for i := range l.HeadDim {
				want := float64(kv[h*l.HeadDim+i])
				switch l.DType {
				case BFloat16:
					want = float64(fromBFloat16(toBFloat16(kv[h*l.HeadDim+i])))
				case Float16:
					want = float64(fromFloat16(toFloat16(kv[h*l.HeadDim+i])))
				}
				if got := l.exact(page, h, slot, i); got != want {
					t.Fatalf("%+v: head %d number %d is %g, want %g", l, h, i, got, want)
				}
			}
			row := l.Head(page, h)[slot*l.RowBytes() : (slot+1)*l.RowBytes()]
			copy(row, l.Head(before, h)[slot*l.RowBytes():])
		}
		if !bytes.Equal(page, before) {
			t.Fatalf("%+v: appending row %d changed another row", l, slot)
		}
	}
}

// Promise: what may be read and what may be appended to, as a table.
func TestTagRules(t *testing.T) {
	one, two, other := NewTag(1, 7), NewTag(2, 7), NewTag(2, 8)
	for _, c := range []struct {
		name               string
		handedOut, written Tag
		read, first, later bool
	}{
		{"never handed out, never written", 0, 0, false, false, false},
		{"never handed out, written", 0, one, false, false, false},
		{"handed out, never written", one, 0, false, true, false},
		{"handed out again, not yet written", two, one, false, true, false},
		{"written in its generation", two, two, true, true, true},
		{"a reader of an older generation", one, two, false, false, false},
		{"another domain's", two, other, false, false, false},
	} {
		if got := Readable(c.handedOut, c.written); got != c.read {
			t.Errorf("%s: readable is %v", c.name, got)
		}
		if got := MayAppend(c.handedOut, c.written, 0); got != c.first {
			t.Errorf("%s: first row may be appended: %v", c.name, got)
		}
		if got := MayAppend(c.handedOut, c.written, 3); got != c.later {
			t.Errorf("%s: later row may be appended: %v", c.name, got)
		}
	}
}

// Promise: a tag carries its generation and its domain apart.
func TestTagKeepsGenerationAndDomainApart(t *testing.T) {
	tag := NewTag(1<<40-1, 0xff_abcdef)
	if tag.Generation() != 1<<40-1 || tag.Domain() != 0xabcdef {
		t.Fatalf("got %v", tag)
	}
	if NewTag(5, 0).Domain() != 0 || NewTag(1<<40, 3).Generation() != 0 {
		t.Fatal("generation and domain run into one another")
	}
}

// Promise: a shape outside the bounds is refused with ErrLayout.
func TestLayoutBounds(t *testing.T) {
	good := Layout{PageTokens: 64, KVHeads: 2, HeadDim: 64}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(*Layout){
		func(l *Layout) { l.DType = Float16 + 1 },
		func(l *Layout) { l.PageTokens = MinPageTokens - 1 },
		func(l *Layout) { l.PageTokens = MaxPageTokens + 1 },
		func(l *Layout) { l.KVHeads = 0 },
		func(l *Layout) { l.KVHeads = MaxKVHeads + 1 },
		func(l *Layout) { l.HeadDim = 0 },
		func(l *Layout) { l.HeadDim = 6 },
		func(l *Layout) { l.HeadDim = MaxHeadDim + 8 },
	} {
		bad := good
		change(&bad)
		if err := bad.Validate(); !errors.Is(err, ErrLayout) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
