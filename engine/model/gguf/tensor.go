package gguf

import (
	"fmt"
	"slices"
)

// Type is how a tensor's numbers are stored, by the format's numbers.
type Type uint32

// The types that can be read.
const (
	F32  Type = 0
	F16  Type = 1
	Q4_1 Type = 3
	Q8_0 Type = 8
	BF16 Type = 30
)

// String returns the format's name.
func (t Type) String() string {
	switch t {
	case F32:
		return "F32"
	case F16:
		return "F16"
	case Q4_1:
		return "Q4_1"
	case Q8_0:
		return "Q8_0"
	case BF16:
		return "BF16"
	}
	return fmt.Sprintf("tensor type %d", uint32(t))
}

// Block returns how many numbers are stored together, and in how many bytes; zero
// for a type that cannot be read.
func (t Type) Block() (numbers, bytes int) {
	switch t {
	case F32:
		return 1, 4
	case F16, BF16:
		return 1, 2
	case Q4_1: // scale and least value as float16, then 32 times 4 bits
		return 32, 20
	case Q8_0: // scale as float16, then 32 times 8 bits
		return 32, 34
	}
	return 0, 0
}

// Tensor is one tensor. Dims[0] is the length of a row, whose numbers lie side by
// side. Data is in the file.
type Tensor struct {
	Name string
	Type Type
	Dims []int
	Data []byte

	offset, size uint64
}

// RowBytes is the size of one row.
func (t *Tensor) RowBytes() int {
	numbers, bytes := t.Type.Block()
	return t.Dims[0] / numbers * bytes
}

// Tensor returns a tensor of exactly those dimensions. Errors: ErrTensor.
func (f *File) Tensor(name string, dims ...int) (*Tensor, error) {
	t := f.tensors[name]
	if t == nil {
		return nil, fmt.Errorf("%w: %s is missing", ErrTensor, name)
	}
	if !slices.Equal(t.Dims, dims) {
		return nil, fmt.Errorf("%w: %s is of shape %v, want %v", ErrTensor, name, t.Dims, dims)
	}
	return t, nil
}

// Names of all tensors, in the order of the file.
func (f *File) Names() []string {
	out := make([]string, len(f.order))
	for i, t := range f.order {
		out[i] = t.Name
	}
	return out
}
