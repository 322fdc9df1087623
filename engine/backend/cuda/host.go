//go:build cuda

package cuda

// #include <cuda.h>
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/kvwitness/kvwitness/kernels"
)

// pinned allocates memory of the host that the GPU reaches by the same address,
// which gorgonia.org/cu has no call for.
func pinned(bytes int) (unsafe.Pointer, error) {
	var p unsafe.Pointer
	r := C.cuMemHostAlloc(&p, C.size_t(bytes), C.CU_MEMHOSTALLOC_PORTABLE|C.CU_MEMHOSTALLOC_DEVICEMAP)
	if r != C.CUDA_SUCCESS {
		return nil, fmt.Errorf("cuMemHostAlloc of %d bytes: driver error %d", bytes, int(r))
	}
	return p, nil
}

// managed allocates memory that both sides reach by the same address.
func managed(bytes int) (unsafe.Pointer, error) {
	p, err := cu.MemAllocManaged(int64(bytes), cu.AttachGlobal)
	if err != nil {
		return nil, fmt.Errorf("cuMemAllocManaged of %d bytes: %w: open a smaller pool", bytes, err)
	}
	return *(*unsafe.Pointer)(unsafe.Pointer(&p)), nil
}

func freeManaged(p unsafe.Pointer) error {
	return failed("cuMemFree", cu.MemFree(cu.DevicePtr(uintptr(p))))
}

// arena hands out pinned memory that is all given back at once. Its errors stay
// until they are asked for, so that one check does for many slices.
type arena struct {
	chunks []chunk // the last is in use
	used   int     // of it
	err    error
}

type chunk struct {
	at    unsafe.Pointer
	bytes int
}

const (
	firstChunk = 1 << 20
	alignment  = 256
)

// bytes returns n zeroed bytes; where there are none, the process's own, and err is
// set.
func (a *arena) bytes(n int) unsafe.Pointer {
	n = (n + alignment - 1) &^ (alignment - 1)
	if len(a.chunks) == 0 || a.chunks[len(a.chunks)-1].bytes-a.used < n {
		a.grow(n)
	}
	if a.err != nil {
		return unsafe.Pointer(unsafe.SliceData(make([]uint64, n/8+1)))
	}
	p := unsafe.Add(a.chunks[len(a.chunks)-1].at, a.used)
	a.used += n
	clear(unsafe.Slice((*byte)(p), n))
	return p
}

func (a *arena) grow(n int) {
	size := firstChunk
	if len(a.chunks) > 0 {
		size = 2 * a.chunks[len(a.chunks)-1].bytes
	}
	size = max(size, n)
	p, err := pinned(size)
	if err != nil {
		a.err = errors.Join(a.err, err)
		return
	}
	a.chunks, a.used = append(a.chunks, chunk{p, size}), 0
}

// reset gives all back; the GPU must have done with it. The largest chunk stays.
func (a *arena) reset() error {
	err := a.err
	a.err, a.used = nil, 0
	for len(a.chunks) > 1 {
		err = errors.Join(err, failed("cuMemFreeHost", cu.MemFreeHost(a.chunks[0].at)))
		a.chunks = a.chunks[1:]
	}
	return err
}

func (a *arena) close() error {
	err := a.reset()
	for _, c := range a.chunks {
		err = errors.Join(err, failed("cuMemFreeHost", cu.MemFreeHost(c.at)))
	}
	a.chunks = nil
	return err
}

// take returns n zeroed elements (at least one, to have an address) and where the
// GPU finds them.
func take[T any](a *arena, n int) ([]T, kernels.Ptr) {
	var one T
	p := a.bytes(max(n, 1) * int(unsafe.Sizeof(one)))
	return unsafe.Slice((*T)(p), max(n, 1))[:n], pointer(p)
}

// put stores a value and returns where the GPU finds it.
func put[T any](a *arena, value T) kernels.Ptr {
	s, p := take[T](a, 1)
	s[0] = value
	return p
}

func pointer(p unsafe.Pointer) kernels.Ptr { return kernels.Ptr(uintptr(p)) }

// pointerTo is where the GPU finds pinned numbers.
func pointerTo[T any](s []T) kernels.Ptr { return pointer(unsafe.Pointer(unsafe.SliceData(s))) }
