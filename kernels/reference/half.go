package reference

import "math"

// narrow stores src as the 16-bit type d, each rounded to the nearest, ties to even.
func narrow(d DType, dst []uint16, src []float32) {
	if d == BFloat16 {
		for i, f := range src {
			dst[i] = toBFloat16(f)
		}
		return
	}
	for i, f := range src {
		dst[i] = toFloat16(f)
	}
}

// widen reads src, of the 16-bit type d. Both types are exact in float32.
//
//go:norace
func widen(d DType, dst []float32, src []uint16) {
	dst = dst[:len(src)]
	if d == BFloat16 {
		for i, h := range src {
			dst[i] = fromBFloat16(h)
		}
		return
	}
	for i, h := range src {
		dst[i] = fromFloat16(h)
	}
}

// toBFloat16 rounds to the nearest, ties to even; a NaN stays a (quiet) NaN.
func toBFloat16(f float32) uint16 {
	u := math.Float32bits(f)
	if f != f {
		return uint16(u>>16) | 0x40
	}
	return uint16((u + 0x7fff + (u>>16)&1) >> 16)
}

func fromBFloat16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// The ends of what float16 holds, as bits of a float32 without its sign.
const (
	infinite32    = 0x7f800000
	overflow16    = 0x477ff000 // rounds to infinity from here on
	subnormal16   = 0x38800000 // below: fewer bits
	exponentMoves = 0x38000000 // the difference of the exponents' biases
)

// toFloat16 rounds to the nearest, ties to even; every NaN becomes 0x7fff, as on a
// GPU.
func toFloat16(f float32) uint16 {
	u := math.Float32bits(f)
	sign := uint16(u >> 16 & 0x8000)
	switch u &= 0x7fffffff; {
	case u > infinite32:
		return 0x7fff
	case u >= overflow16:
		return sign | 0x7c00
	case u < subnormal16: // the addition rounds to the last bit that counts
		return sign | uint16(math.Float32bits(math.Float32frombits(u)+0.5)-math.Float32bits(0.5))
	}
	return sign | uint16((u+0xfff+(u>>13)&1-exponentMoves)>>13)
}

// fromFloat16 lets a product bring the exponent to its place, which is exact.
func fromFloat16(h uint16) float32 {
	u, sign := uint32(h&0x7fff)<<13, uint32(h&0x8000)<<16
	if h&0x7c00 == 0x7c00 {
		return math.Float32frombits(u | infinite32 | sign)
	}
	return math.Float32frombits(math.Float32bits(math.Float32frombits(u)*0x1p112) | sign)
}
