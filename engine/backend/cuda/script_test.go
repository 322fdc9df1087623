//go:build cuda

package cuda

import (
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/kernels/reference"
)

// script is a network of any shape whose keys, values and queries are a function of
// the token, its position and the layer, and which keeps what was attended to.
type script struct {
	spec      model.Spec
	seed      uint64
	positions []int // of the layer at hand
	seen      func(layer int, tokens []float32, positions []int, attended []float32)
	before    func() // an attention
}

func (s *script) Spec() model.Spec { return s.spec }

// number is between -2 and 2.
func (s *script) number(kind, layer, token, position, i int) float32 {
	r := rand.NewPCG(s.seed^uint64(kind)<<56^uint64(layer)<<48^uint64(token)<<32, uint64(position)<<20|uint64(i))
	return float32(int64(r.Uint64())>>40) / (1 << 22)
}

func (s *script) fill(kind, layer, width int, x []float32, positions []int, out []float32) {
	for row, position := range positions {
		for i := range width {
			out[row*width+i] = s.number(kind, layer, int(x[row]), position, i)
		}
	}
}

func (s *script) Embed(tokens []model.Token, _ []int, x []float32) {
	for i, t := range tokens {
		x[i] = float32(t)
	}
}

func (s *script) Keys(layer int, positions []int, x, keys, values []float32) {
	s.fill(0, layer, s.spec.KVHeads*s.spec.HeadDim, x, positions, keys)
	s.fill(1, layer, s.spec.KVHeads*s.spec.HeadDim, x, positions, values)
}

func (s *script) Queries(layer int, positions []int, x, queries []float32) {
	s.positions = positions
	s.fill(2, layer, s.spec.Heads*s.spec.HeadDim, x, positions, queries)
	if s.before != nil {
		s.before()
	}
}

func (s *script) Combine(layer int, x, attended []float32) {
	if s.seen != nil {
		s.seen(layer, x, s.positions, attended[:len(s.positions)*s.spec.Heads*s.spec.HeadDim])
	}
}

func (s *script) Logits(_, logits []float32) { clear(logits) }

// rig is a backend of a script, and the numbers that its pages should hold.
type rig struct {
	*Backend
	script *script
	r      *rand.Rand
}

func newScript(r *rand.Rand, heads, kvHeads, dim, layers int) *script {
	s := &script{seed: r.Uint64(), spec: model.Spec{
		Name: "script", Vocab: 4096, Dim: 1, Heads: heads, KVHeads: kvHeads, HeadDim: dim,
		MaxContext: 1 << 17, Scale: float32(1 / math.Sqrt(float64(dim))),
	}}
	for range layers {
		l := model.LayerSpec{Sinks: make([]float32, heads)}
		for h := range l.Sinks {
			l.Sinks[h] = float32(math.Inf(-1))
		}
		s.spec.Layers = append(s.spec.Layers, l)
	}
	return s
}

// newRig opens pages full of NaN.
func newRig(t testing.TB, s *script, r *rand.Rand, c Config) *rig {
	t.Helper()
	b, err := open(s, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	for i := range b.memory.regions {
		fill(b.memory.regions[i].Bytes, 0xff)
	}
	s.before = func() { fill(bytesOf(b.pass.Attended), 0xff) }
	return &rig{b, s, r}
}

func fill(b []byte, x byte) {
	for i := range b {
		b[i] = x
	}
}

func bytesOf(f []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(f))), len(f)*4)
}

// random is a source whose seed every failure prints.
func random(t testing.TB) *rand.Rand {
	seed := rand.Uint64()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 1))
}

// table hands out the pages from first on, as generation 7.
func table(first, pages int) []backend.Block {
	out := make([]backend.Block, pages)
	for i := range out {
		out[i] = backend.Block{Page: int32(first + i), Tag: reference.NewTag(7, uint32(first))}
	}
	return out
}

// tokens is n times the same token: what a sequence's numbers are a function of.
func tokens(token, n int) []model.Token {
	out := make([]model.Token, n)
	for i := range out {
		out[i] = model.Token(token)
	}
	return out
}

func (r *rig) forward(t testing.TB, batch ...backend.Sequence) []backend.Result {
	t.Helper()
	results := make([]backend.Result, len(batch))
	if err := r.Forward(batch, results); err != nil {
		t.Fatal(err)
	}
	return results
}

// row is what the reference stores of a token's keys or values of one kv head, as
// numbers.
func (r *rig) row(kind, layer, token, position, head int) []float64 {
	l := r.memory.layout
	one := reference.Layout{DType: l.DType, PageTokens: reference.MinPageTokens, KVHeads: 1, HeadDim: l.HeadDim}
	numbers := make([]float32, l.HeadDim)
	for i := range numbers {
		numbers[i] = r.script.number(kind, layer, token, position, head*l.HeadDim+i)
	}
	page := make([]float32, one.PageBytes()/4)
	one.Append(bytesOf(page), 0, numbers)
	out := make([]float64, l.HeadDim)
	for i := range out {
		out[i] = stored(l.DType, bytesOf(page), i)
	}
	return out
}

// rowOf gives a token's keys (kind 0) or values (1) of one kv head.
type rowOf func(kind, layer, token, position, head int) []float64

// unrounded is row before it was stored.
func (r *rig) unrounded(kind, layer, token, position, head int) []float64 {
	dim := r.memory.layout.HeadDim
	out := make([]float64, dim)
	for i := range out {
		out[i] = float64(r.script.number(kind, layer, token, position, head*dim+i))
	}
	return out
}

// stored reads number i as the type's definition says.
func stored(d reference.DType, b []byte, i int) float64 {
	if d == reference.Float32 {
		return float64(math.Float32frombits(uint32(b[4*i]) | uint32(b[4*i+1])<<8 | uint32(b[4*i+2])<<16 | uint32(b[4*i+3])<<24))
	}
	h := uint32(b[2*i]) | uint32(b[2*i+1])<<8
	if d == reference.BFloat16 {
		return float64(math.Float32frombits(h << 16))
	}
	exponent, fraction := int(h>>10&31), float64(h&1023)/1024
	x := math.Ldexp(1+fraction, exponent-15)
	if exponent == 0 {
		x = math.Ldexp(fraction, -14)
	}
	if h>>15 == 1 {
		x = -x
	}
	return x
}
