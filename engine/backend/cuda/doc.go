// Package cuda is the backend whose pages are a GPU's: append, attention, digest and
// scrub run there (kernels), the network's arithmetic around them on the CPU. It
// imports engine/backend, engine/model, kernels, kernels/reference and, under the
// build tag cuda, gorgonia.org/cu; without the tag New says that it was not built.
//
// It promises what backend.Backend promises. Pages and tags are managed memory, so
// that the CPU and a transfer reach them by the addresses of their regions; what a
// pass hands to the GPU is pinned. Any goroutine may call: the context is made
// current on the thread that it is on.
//
// A program built with the tag ends before main where there is no driver or no GPU
// (gorgonia.org/cu sees to that), so it is a binary of its own, which another probes.
package cuda

import (
	"errors"

	"github.com/kvwitness/kvwitness/kernels/reference"
)

// MaxPages is the largest pool that can be opened.
const MaxPages = 1 << 24

var (
	// ErrNotBuilt says that this binary was built without CUDA.
	ErrNotBuilt = errors.New("built without CUDA: build with -tags cuda")
	// ErrHeadDim says that no kernel has this head size.
	ErrHeadDim = errors.New("the CUDA kernels have head sizes 64 and 128")
)

// Config is the pool's size and shape.
type Config struct {
	Pages      int // 1 to MaxPages
	PageTokens int // reference.MinPageTokens to MaxPageTokens
	DType      reference.DType
}
