package matrix

import (
	"encoding/binary"
	"math"

	"github.com/kvwitness/kvwitness/engine/model/gguf"
)

// The inner loops in Go. They are left out of the race detector (go:norace), with
// which they would take ten times as long: what they read is a file that nobody
// writes, or scratch of the one goroutine that calls.

// wideners turn stored numbers into float32, by how they are stored. dst is as long
// as src has numbers.
var wideners = map[gguf.Type]func(dst []float32, src []byte){
	gguf.F32:  widenF32,
	gguf.F16:  widenF16,
	gguf.BF16: widenBF16,
	gguf.Q4_1: widenQ4,
	gguf.Q8_0: widenQ8,
}

//go:norace
func widenF32(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

//go:norace
func widenF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = half(binary.LittleEndian.Uint16(src[2*i:]))
	}
}

//go:norace
func widenBF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
	}
}

// widenQ4 reads blocks of 32: a scale, a least value, and 4 bits each, of which the
// low halves of the bytes are the first 16 numbers.
//
//go:norace
func widenQ4(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[20:] {
		scale, least := half(binary.LittleEndian.Uint16(src)), half(binary.LittleEndian.Uint16(src[2:]))
		for i, b := range src[4:20] {
			low, high := float32(b&15)*scale, float32(b>>4)*scale
			dst[i], dst[i+16] = low+least, high+least
		}
	}
}

// widenQ8 reads blocks of 32: a scale, and 8 bits with a sign each.
//
//go:norace
func widenQ8(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[34:] {
		scale := half(binary.LittleEndian.Uint16(src))
		for i, b := range src[2:34] {
			dst[i] = float32(int8(b)) * scale
		}
	}
}

// half is an IEEE 754 number of 16 bits.
func half(h uint16) float32 {
	sign, exponent, fraction := uint32(h>>15)<<31, uint32(h>>10)&31, uint32(h)&1023
	switch exponent {
	case 0: // zero, or too small for an exponent: fraction × 2^-24, which is exact
		return math.Float32frombits(sign | math.Float32bits(float32(fraction)*(1.0/(1<<24))))
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+127-15)<<23 | fraction<<13)
}

// dotsGo sets out to the products of a with each of the quad vectors of b, which lie
// one after the other. Each is a sum of lanes sums, as the assembly has it.
//
//go:norace
func dotsGo(out *[quad]float32, a, b []float32) {
	n := len(a)
	for j := range quad {
		var sum [lanes]float32
		row := b[j*n : (j+1)*n]
		for i := 0; i+lanes <= n; i += lanes {
			x, y := a[i:i+lanes:i+lanes], row[i:i+lanes:i+lanes]
			for l := range lanes {
				sum[l] += x[l] * y[l]
			}
		}
		out[j] = (sum[0] + sum[1] + (sum[2] + sum[3])) + (sum[4] + sum[5] + (sum[6] + sum[7]))
	}
}
