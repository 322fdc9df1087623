package reference

import (
	"math"
	"math/rand/v2"
	"testing"
)

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

func randomLayout(r *rand.Rand) Layout {
	return Layout{
		DType:      DType(r.IntN(3)),
		PageTokens: MinPageTokens + r.IntN(MaxPageTokens-MinPageTokens+1),
		KVHeads:    1 + r.IntN(3),
		HeadDim:    8 * (1 + r.IntN(16)),
	}
}

func normals(r *rand.Rand, n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(r.NormFloat64())
	}
	return out
}

// aligned returns n bytes that may be viewed as float32.
func aligned(n int) []byte {
	return bytesOf(make([]float32, (n+3)/4))[:n]
}

// exact reads one stored number as float64.
func (l Layout) exact(page []byte, head, slot, i int) float64 {
	row := l.Head(page, head)[slot*l.RowBytes() : (slot+1)*l.RowBytes()]
	switch l.DType {
	case BFloat16:
		return float64(fromBFloat16(halves(row)[i]))
	case Float16:
		return float64(fromFloat16(halves(row)[i]))
	}
	return float64(floats(row)[i])
}

// attendExactly is attention in float64 over the stored numbers, with no paging:
// the definition that the paged one is held against.
func attendExactly(l Layout, k, v [][]byte, head, from, to int, q []float32, scale, sink float64) []float64 {
	scores, top := make([]float64, to-from), sink
	for t := from; t < to; t++ {
		var s float64
		for i := range l.HeadDim {
			s += float64(q[i]) * l.exact(k[t/l.PageTokens], head, t%l.PageTokens, i)
		}
		scores[t-from] = s * scale
		top = math.Max(top, s*scale)
	}
	out, sum := make([]float64, l.HeadDim), math.Exp(sink-top)
	for t := from; t < to; t++ {
		w := math.Exp(scores[t-from] - top)
		sum += w
		for i := range out {
			out[i] += w * l.exact(v[t/l.PageTokens], head, t%l.PageTokens, i)
		}
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}

// Promise: paged attention is attention, to a relative error of 1e-5, whatever
// the page size, type, window, group and odd length, with and without a sink.
func TestPagedAttentionAgreesWithFloat64(t *testing.T) {
	r := random(t)
	for range 80 {
		l := randomLayout(r)
		heads, tokens := 1+r.IntN(4), 1+r.IntN(500)
		pages := (tokens + l.PageTokens - 1) / l.PageTokens
		k, v := make([][]byte, pages), make([][]byte, pages)
		for p := range pages {
			k[p], v[p] = aligned(l.PageBytes()), aligned(l.PageBytes())
			poison(k[p])
			poison(v[p])
		}
		for i := range tokens {
			l.Append(k[i/l.PageTokens], i%l.PageTokens, normals(r, l.KVHeads*l.HeadDim))
			l.Append(v[i/l.PageTokens], i%l.PageTokens, normals(r, l.KVHeads*l.HeadDim))
		}
		from, sink := r.IntN(tokens), math.Inf(-1)
		if r.IntN(2) == 0 {
			sink = r.NormFloat64()
		}
		scale := 1 / math.Sqrt(float64(l.HeadDim))
		a := NewAttention(l, heads)
		for h := range l.KVHeads {
			q := normals(r, heads*l.HeadDim)
			got := attendPaged(a, l, k, v, h, from, tokens, q, float32(scale), float32(sink))
			for g := range heads {
				want := attendExactly(l, k, v, h, from, tokens, q[g*l.HeadDim:(g+1)*l.HeadDim], float64(float32(scale)), float64(float32(sink)))
				if e := relativeError(got[g*l.HeadDim:(g+1)*l.HeadDim], want); e > 1e-5 {
					t.Fatalf("%+v, %d heads, tokens %d to %d: relative error %g", l, heads, from, tokens, e)
				}
			}
		}
	}
}

// attendPaged runs the paged algorithm over rows from up to to of one kv head.
func attendPaged(a *Attention, l Layout, k, v [][]byte, head, from, to int, q []float32, scale, sink float32) []float32 {
	a.Reset(q, scale)
	for p := from / l.PageTokens; p*l.PageTokens < to; p++ {
		first := max(from-p*l.PageTokens, 0)
		last := min(to-p*l.PageTokens, l.PageTokens)
		a.Page(l.Head(k[p], head), l.Head(v[p], head), first, last)
		a.Commit()
	}
	sinks := make([]float32, a.heads)
	for i := range sinks {
		sinks[i] = sink
	}
	out := normals(rand.New(rand.NewPCG(1, 1)), a.heads*l.HeadDim)
	a.Finish(sinks, out)
	return out
}

// poison fills a page with NaN, so that a row read by mistake is seen.
func poison(b []byte) {
	for i := range b {
		b[i] = 0xff
	}
}

// relativeError is the largest difference over the largest wanted number.
func relativeError(got []float32, want []float64) float64 {
	var diff, size float64
	for i := range want {
		if math.IsNaN(float64(got[i])) {
			return math.Inf(1)
		}
		diff = math.Max(diff, math.Abs(float64(got[i])-want[i]))
		size = math.Max(size, math.Abs(want[i]))
	}
	return diff / size
}

// Promise: a page that is not committed leaves no trace, even if it holds NaN.
func TestAPageThatIsNotCommittedLeavesNoTrace(t *testing.T) {
	r := random(t)
	l := Layout{PageTokens: 16, KVHeads: 1, HeadDim: 8}
	good, bad := aligned(l.PageBytes()), aligned(l.PageBytes())
	poison(bad)
	for i := range l.PageTokens {
		l.Append(good, i, normals(r, 8))
	}
	q, sinks := normals(r, 8), []float32{0}
	want, got := make([]float32, 8), make([]float32, 8)
	a := NewAttention(l, 1)
	a.Reset(q, 1)
	a.Page(good, good, 0, 16)
	a.Commit()
	a.Finish(sinks, want)

	a.Reset(q, 1)
	a.Page(bad, bad, 0, 16)
	a.Page(good, good, 0, 16)
	a.Commit()
	a.Page(bad, bad, 0, 16)
	a.Finish(sinks, got)
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("number %d is %g with a skipped page beside it, %g without", i, got[i], want[i])
		}
	}
}

// Promise: attention to nothing is zero, not 0/0, with or without a sink.
func TestEmptySoftmaxIsZero(t *testing.T) {
	l := Layout{PageTokens: 16, KVHeads: 1, HeadDim: 8}
	a := NewAttention(l, 2)
	out := make([]float32, 16)
	poison(bytesOf(out))
	a.Reset(make([]float32, 16), 1)
	a.Finish([]float32{float32(math.Inf(-1)), 3}, out)
	for i, x := range out {
		if x != 0 {
			t.Fatalf("number %d is %g", i, x)
		}
	}
}
