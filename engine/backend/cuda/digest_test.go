//go:build cuda

package cuda

import (
	"testing"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/kernels/reference"
)

// Promise: the digest is the reference's, of pages of every type and of any length,
// position, generation and key; a flipped bit in what counts of a page, in any layer,
// changes it, one in what does not count leaves it.
func TestTheDigestIsTheReferences(t *testing.T) {
	r := random(t)
	for round := range 6 {
		pageTokens := 16 + r.IntN(20)
		d := newDigester(t, newRig(t, newScript(r, 2, 2, 64, 2), r, Config{Pages: 3, PageTokens: pageTokens, DType: reference.DType(round % 3)}))
		want := d.want()
		if got := d.digest(t); got != want {
			t.Fatalf("%+v: %016x, the reference's is %016x", d.page, got, want)
		}
		for range 300 {
			d.flip(t, r.IntN(d.bits()), want)
		}
	}
}

// digester is about the digest of one page.
type digester struct {
	*rig
	key  [2]uint64
	page backend.DigestPage
}

func newDigester(t *testing.T, g *rig) *digester {
	t.Helper()
	r := g.r
	return &digester{g, [2]uint64{r.Uint64(), r.Uint64()}, backend.DigestPage{
		Page: r.IntN(3), Position: r.IntN(1 << 20), Tokens: r.IntN(g.memory.layout.PageTokens + 1), Generation: r.Uint64() >> 24,
	}}
}

// bits of the page in all regions.
func (d *digester) bits() int { return len(d.memory.regions) * 8 * d.memory.layout.PageBytes() }

func (d *digester) digest(t *testing.T) uint64 {
	sum, err := d.Digest(d.key, []backend.DigestPage{d.page}, 0, len(d.script.spec.Layers))
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// want is the reference's.
func (d *digester) want() (sum uint64) {
	for i := range d.memory.regions {
		region := &d.memory.regions[i]
		sum += d.memory.layout.Digest(region.Page(d.page.Page), d.page.Tokens, reference.Binding{
			Key: d.key, Position: d.page.Position, Layer: region.Layer, Part: region.Part, Generation: d.page.Generation,
		})
	}
	return sum
}

// flip flips one bit of all regions' bytes of the page, and back.
func (d *digester) flip(t *testing.T, bit int, want uint64) {
	l := d.memory.layout
	region, at := bit/8/l.PageBytes(), bit/8%l.PageBytes()
	b := &d.memory.regions[region].Page(d.page.Page)[at]
	*b ^= 1 << (bit % 8)
	counts := at%l.HeadBytes() < d.page.Tokens*l.RowBytes()
	if got := d.digest(t); (got != want) != counts {
		t.Fatalf("%+v: region %d, byte %d, which counts: %v; digest %016x after %016x", d.page, region, at, counts, got, want)
	}
	*b ^= 1 << (bit % 8)
}
