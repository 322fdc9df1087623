// Package kernels holds the CUDA kernels of the engine as PTX, and the structures
// by which they are called. What each computes is defined by kernels/reference; the
// sources beside this file compile for a GPU and, in test/fakecuda, for a CPU.
//
// It imports the standard library only. The PTX is committed and made by go generate
// with clang-16; it needs a GPU of compute capability 8.0 or newer.
package kernels

import (
	_ "embed"
	"errors"
	"fmt"
)

//go:generate ./generate.sh

var (
	//go:embed ptx/sm_80.ptx
	ptx80 string
	//go:embed ptx/sm_90.ptx
	ptx90 string
)

// ErrOldGPU says that the kernels need a newer GPU.
var ErrOldGPU = errors.New("the kernels need a GPU of compute capability 8.0 or newer")

// PTX returns the module for a GPU of this compute capability. Errors: ErrOldGPU.
func PTX(major, minor int) (string, error) {
	switch {
	case major >= 9:
		return ptx90, nil
	case major == 8:
		return ptx80, nil
	}
	return "", fmt.Errorf("%w: this one has %d.%d", ErrOldGPU, major, minor)
}
