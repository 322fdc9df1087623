package matrix

import (
	"unsafe"

	"golang.org/x/sys/cpu"

	"github.com/kvwitness/kvwitness/engine/model/gguf"
)

// vector says whether the assembly may be used.
var vector = cpu.X86.HasAVX2 && cpu.X86.HasFMA && features()&f16c != 0

// f16c is the bit of the instructions that widen float16; the system keeps their
// registers where it keeps those of AVX.
const f16c = 1 << 29

// features is what the processor says that it can, of leaf 1 in ecx.
func features() uint32

// The assembly: n numbers, or blocks of 32 of them; n is not zero, numbers are a
// multiple of lanes.

//go:noescape
func dotsAVX2(out *[quad]float32, a, b *float32, n int)

//go:noescape
func widenF16AVX2(dst *float32, src *byte, n int)

//go:noescape
func widenBF16AVX2(dst *float32, src *byte, n int)

//go:noescape
func widenQ4AVX2(dst *float32, src *byte, blocks int)

//go:noescape
func widenQ8AVX2(dst *float32, src *byte, blocks int)

// widener picks the fastest. That of F32 is a copy, in Go as well.
func widener(t gguf.Type) func(dst []float32, src []byte) {
	if f, ok := vectorWideners[t]; ok && vector {
		return f
	}
	return wideners[t]
}

var vectorWideners = map[gguf.Type]func(dst []float32, src []byte){
	gguf.F32: func(dst []float32, src []byte) {
		copy(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(dst))), 4*len(dst)), src)
	},
	gguf.F16: func(dst []float32, src []byte) {
		widenF16AVX2(&dst[0], &src[:2*len(dst)][0], len(dst))
	},
	gguf.BF16: func(dst []float32, src []byte) {
		widenBF16AVX2(&dst[0], &src[:2*len(dst)][0], len(dst))
	},
	gguf.Q4_1: func(dst []float32, src []byte) {
		widenQ4AVX2(&dst[0], &src[:len(dst)/32*20][0], len(dst)/32)
	},
	gguf.Q8_0: func(dst []float32, src []byte) {
		widenQ8AVX2(&dst[0], &src[:len(dst)/32*34][0], len(dst)/32)
	},
}

func dots(out *[quad]float32, a, b []float32) {
	if !vector {
		dotsGo(out, a, b)
		return
	}
	_ = b[:quad*len(a)]
	dotsAVX2(out, &a[0], &b[0], len(a))
}
