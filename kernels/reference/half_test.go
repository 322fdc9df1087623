package reference

import (
	"math"
	"testing"
)

// Promise: bfloat16 storage rounds to the nearest and keeps NaN a NaN.
func TestBFloat16RoundsToNearest(t *testing.T) {
	r := random(t)
	for range 100_000 {
		f := math.Float32frombits(r.Uint32())
		got := fromBFloat16(toBFloat16(f))
		if f != f {
			if got == got {
				t.Fatalf("NaN became %g", got)
			}
			continue
		}
		low := math.Float32frombits(math.Float32bits(f) &^ 0xffff)
		high := math.Float32frombits(math.Float32bits(low) + 0x10000)
		if math.IsInf(float64(high), 0) || math.IsInf(float64(f), 0) {
			continue
		}
		near := math.Min(math.Abs(float64(f)-float64(low)), math.Abs(float64(high)-float64(f)))
		if math.Abs(float64(got)-float64(f)) != near {
			t.Fatalf("%g became %g, neighbours %g and %g", f, got, low, high)
		}
	}
}

// Promise: every float16 is read exactly, and stored again it is the same.
func TestEveryFloat16IsItself(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		f := fromFloat16(h)
		exponent, fraction := int(h>>10&31), float64(h&1023)/1024
		want := math.Ldexp(1+fraction, exponent-15)
		switch {
		case exponent == 0:
			want = math.Ldexp(fraction, -14)
		case exponent == 31 && fraction == 0:
			want = math.Inf(1)
		case exponent == 31:
			if f == f {
				t.Fatalf("%04x is a NaN and became %g", h, f)
			}
			continue
		}
		if h>>15 == 1 {
			want = -want
		}
		if float64(f) != want || math.Signbit(float64(f)) != (h>>15 == 1) || toFloat16(f) != h {
			t.Fatalf("%04x is %g, want %g; again it is %04x", h, f, want, toFloat16(f))
		}
	}
}

// Promise: float16 storage rounds to the nearest, ties to even, keeps NaN a NaN and
// turns what is too large into infinity.
func TestFloat16RoundsToNearest(t *testing.T) {
	r := random(t)
	for range 200_000 {
		low := uint16(r.IntN(0x7c00)) // and the next above
		a, b := float64(fromFloat16(low)), float64(fromFloat16(low+1))
		if low+1 == 0x7c00 {
			b = 65536
		}
		f := float32(a + (b-a)*float64(r.IntN(9))/8)
		middle, want := (a+b)/2, low
		if float64(f) > middle || float64(f) == middle && low&1 == 1 {
			want = low + 1
		}
		if got := toFloat16(f); got != want {
			t.Fatalf("%g became %04x, want %04x", f, got, want)
		}
		if got := toFloat16(-f); got != want|0x8000 {
			t.Fatalf("%g became %04x, want %04x", -f, got, want|0x8000)
		}
	}
	for f, want := range map[float32]uint16{1e30: 0x7c00, float32(math.Inf(-1)): 0xfc00, float32(math.NaN()): 0x7fff, 1e-30: 0} {
		if got := toFloat16(f); got != want {
			t.Fatalf("%g became %04x, want %04x", f, got, want)
		}
	}
}
