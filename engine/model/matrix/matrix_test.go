package matrix

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kvwitness/kvwitness/engine/model/gguf"
	"github.com/kvwitness/kvwitness/engine/team"
)

var allTypes = []gguf.Type{gguf.F32, gguf.F16, gguf.BF16, gguf.Q4_1, gguf.Q8_0}

func random(t testing.TB) *rand.Rand {
	seed := rand.Uint64()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 1))
}

// stored is n random numbers of a type as a file has them, none of them infinite.
func stored(r *rand.Rand, kind gguf.Type, n int) []byte {
	numbers, size := kind.Block()
	out := make([]byte, n/numbers*size)
	for i := range out {
		out[i] = byte(r.Uint32())
	}
	for at := 0; at < len(out); at += size {
		switch kind {
		case gguf.F32:
			binary.LittleEndian.PutUint32(out[at:], math.Float32bits(float32(r.NormFloat64())))
		case gguf.BF16:
			binary.LittleEndian.PutUint16(out[at:], uint16(math.Float32bits(float32(r.NormFloat64()))>>16))
		case gguf.Q4_1:
			out[at+1], out[at+3] = out[at+1]&0xbf, out[at+3]&0xbf
		default:
			out[at+1] &= 0xbf
		}
	}
	return out
}

func tensor(r *rand.Rand, kind gguf.Type, in, out int) *gguf.Tensor {
	return &gguf.Tensor{Name: "t", Type: kind, Dims: []int{in, out}, Data: stored(r, kind, in*out)}
}

// Promise: float16 is what IEEE 754 says, at every one of its values.
func TestHalfIsExact(t *testing.T) {
	for h := range 1 << 16 {
		sign, e, f := 1-2*float64(h>>15), h>>10&31, float64(h&1023)
		want := sign * math.Ldexp(1024+f, e-25)
		switch {
		case e == 0:
			want = sign * math.Ldexp(f, -24)
		case e == 31 && f == 0:
			want = math.Inf(int(sign))
		case e == 31:
			want = math.NaN()
		}
		got := float64(half(uint16(h)))
		if got != want && !(math.IsNaN(got) && math.IsNaN(want)) || math.Signbit(got) != (sign < 0) {
			t.Fatalf("%#04x is %g, want %g", h, got, want)
		}
	}
}

// Promise: blocks hold what the format says: low halves first, then high ones.
func TestBlocksAreWidenedByTheFormat(t *testing.T) {
	four := make([]byte, 20)
	binary.LittleEndian.PutUint16(four, 0x3800)     // a scale of 0.5
	binary.LittleEndian.PutUint16(four[2:], 0xbc00) // from -1 on
	eight := make([]byte, 34)
	binary.LittleEndian.PutUint16(eight, 0x4000) // a scale of 2
	for i := range 16 {
		four[4+i] = byte(i | (15-i)<<4)
		eight[2+i], eight[18+i] = byte(i), byte(-i)
	}
	m4, err4 := New(&gguf.Tensor{Type: gguf.Q4_1, Dims: []int{32, 1}, Data: four})
	m8, err8 := New(&gguf.Tensor{Type: gguf.Q8_0, Dims: []int{32, 1}, Data: eight})
	if err := errors.Join(err4, err8); err != nil {
		t.Fatal(err)
	}
	row := make([]float32, 32)
	m4.Row(0, row)
	for i := range 16 {
		if row[i] != float32(i)/2-1 || row[16+i] != float32(15-i)/2-1 {
			t.Fatalf("of four bits: %v", row)
		}
	}
	m8.Row(0, row)
	for i := range 16 {
		if row[i] != float32(2*i) || row[16+i] != float32(-2*i) {
			t.Fatalf("of eight bits: %v", row)
		}
	}
}

// Promise: on a processor that has the instructions, they give what Go gives.
func TestAssemblyAgreesWithGo(t *testing.T) {
	r := random(t)
	for _, kind := range allTypes {
		for _, n := range []int{32, 64, 576} {
			src := stored(r, kind, n)
			got, want := make([]float32, n), make([]float32, n)
			widener(kind)(got, src)
			wideners[kind](want, src)
			if !slices.Equal(got, want) {
				t.Fatalf("%v: %v, want %v", kind, got, want)
			}
		}
	}
	for n := lanes; n < 20*lanes; n += lanes {
		a, b := floats(r, n), floats(r, quad*n)
		var got, want [quad]float32
		dots(&got, a, b)
		dotsGo(&want, a, b)
		for j := range quad {
			if d := math.Abs(float64(got[j] - want[j])); d > 1e-5 {
				t.Fatalf("product %d of %d numbers: %g, want %g", j, n, got[j], want[j])
			}
		}
	}
}

func floats(r *rand.Rand, n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(r.NormFloat64())
	}
	return out
}

// Promise: products are those of float64, for every type and number of rows, and
// each is the same to the last bit whether it is computed alone or with others.
func TestProductsAreRightAndDoNotDependOnTheirNeighbours(t *testing.T) {
	r, workers := random(t), team.New()
	defer workers.Close()
	const in = 96
	m := NewMultiplier(workers, in)
	for _, kind := range allTypes {
		for _, out := range []int{1, 4, 7, 130} {
			w, err := New(tensor(r, kind, in, out))
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range []int{1, 3, 4, 9} {
				x, y, alone := floats(r, n*in), make([]float32, n*out), make([]float32, out)
				m.Multiply(w, x, n, y)
				for i := range n {
					m.Multiply(w, x[i*in:(i+1)*in], 1, alone)
					if !slices.Equal(alone, y[i*out:(i+1)*out]) {
						t.Fatalf("%v, %d × %d: vector %d of %d: %v, alone %v", kind, out, in, i, n, y[i*out:(i+1)*out], alone)
					}
					compare(t, w, x[i*in:(i+1)*in], alone)
				}
			}
		}
	}
}

// compare holds one vector's products against float64.
func compare(t *testing.T, w *Matrix, x, y []float32) {
	t.Helper()
	row := make([]float32, w.In)
	for o := range w.Out {
		w.Row(o, row)
		var want, size float64
		for i := range row {
			want += float64(row[i]) * float64(x[i])
			size += math.Abs(float64(row[i]) * float64(x[i]))
		}
		if math.Abs(float64(y[o])-want) > 1e-6*size {
			t.Fatalf("row %d: %g, want %g", o, y[o], want)
		}
	}
}

// Promise: a tensor that cannot be multiplied by is refused.
func TestShapesThatCannotBeMultipliedAreRefused(t *testing.T) {
	for _, dims := range [][]int{{8}, {7, 2}, {8, 2, 2}} {
		if _, err := New(&gguf.Tensor{Name: "t", Type: gguf.F32, Dims: dims}); !errors.Is(err, gguf.ErrTensor) {
			t.Errorf("%v: %v", dims, err)
		}
	}
}

// BenchmarkMultiply is a matrix of the small model, for a token and for a block.
func BenchmarkMultiply(b *testing.B) {
	const in, out = 576, 1536
	workers := team.New()
	defer workers.Close()
	r := random(b)
	m := NewMultiplier(workers, in)
	for _, kind := range allTypes {
		w, err := New(tensor(r, kind, in, out))
		if err != nil {
			b.Fatal(err)
		}
		for _, n := range []int{1, 128} {
			x, y := floats(r, n*in), make([]float32, n*out)
			b.Run(kind.String()+map[int]string{1: "/token", 128: "/block"}[n], func(b *testing.B) {
				for b.Loop() {
					m.Multiply(w, x, n, y)
				}
				b.ReportMetric(float64(b.N)*float64(n)*in*out/b.Elapsed().Seconds()/1e9, "Gmul/s")
			})
		}
	}
}
