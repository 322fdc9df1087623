package gguf

import (
	"bytes"
	"errors"
	"fmt"
	"math/bits"
	"os"

	"golang.org/x/sys/unix"
)

const (
	magic            = "GGUF"
	alignmentKey     = "general.alignment"
	defaultAlignment = 32
)

// File is a file that was read. It may be used from several goroutines.
type File struct {
	data    []byte
	keys    map[string]value
	tensors map[string]*Tensor
	order   []*Tensor
	mapped  bool
}

// Open maps a file and reads it. Errors: ErrFormat, or the system's.
func Open(path string) (*File, error) {
	data, err := mapFile(path)
	if err != nil {
		return nil, fmt.Errorf("open the model file %s: %w", path, err)
	}
	f, err := Parse(data)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the model file %s: %w", path, err), unix.Munmap(data))
	}
	f.mapped = true
	return f, nil
}

func mapFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // the mapping stays
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%w: it is no regular file", ErrFormat)
	case info.Size() < int64(len(magic)) || info.Size() > MaxFileBytes:
		return nil, fmt.Errorf("%w: it has %d bytes, want %d to %d", ErrFormat, info.Size(), len(magic), int64(MaxFileBytes))
	}
	return unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_PRIVATE)
}

// Close gives the mapping back; no tensor's bytes may be used any more.
func (f *File) Close() error {
	if !f.mapped {
		return nil
	}
	f.mapped = false
	if err := unix.Munmap(f.data); err != nil {
		return fmt.Errorf("unmap the model file: %w", err)
	}
	return nil
}

// Parse reads a file that lies in memory, which must stay as it is. Errors: ErrFormat.
func Parse(data []byte) (*File, error) {
	f := &File{data: data, keys: map[string]value{}, tensors: map[string]*Tensor{}}
	c := &cursor{data: data}
	tensors, keys := c.header()
	for i := uint64(0); i < keys && c.err == nil; i++ {
		f.readKey(c)
	}
	for i := uint64(0); i < tensors && c.err == nil; i++ {
		f.readTensor(c)
	}
	if c.err == nil {
		f.place(c)
	}
	if c.err != nil {
		return nil, c.err
	}
	return f, nil
}

func (c *cursor) header() (tensors, keys uint64) {
	if m := c.take(4, "magic"); c.err == nil && !bytes.Equal(m, []byte(magic)) {
		c.at = 0
		c.fail("it begins with %q, want %q", m, magic)
	}
	if v := c.u32("version"); c.err == nil && v != 2 && v != 3 {
		c.fail("version %d, want 2 or 3, little-endian", v)
	}
	return c.count(MaxTensors, "tensors"), c.count(MaxKeys, "keys")
}

func (f *File) readKey(c *cursor) {
	key := string(c.text(MaxNameBytes, "a key"))
	v := c.value(fmt.Sprintf("%.64q", key))
	if _, twice := f.keys[key]; twice {
		c.fail("key %.64q stands there twice", key)
	}
	f.keys[key] = v
}

func (f *File) readTensor(c *cursor) {
	t := &Tensor{Name: string(c.text(MaxNameBytes, "a tensor's name"))}
	dims := c.u32("number of dimensions")
	if c.err == nil && (dims < 1 || dims > MaxDims) {
		c.fail("tensor %.64q has %d dimensions, want 1 to %d", t.Name, dims, MaxDims)
	}
	elements := uint64(1)
	for i := uint32(0); i < dims && c.err == nil; i++ {
		side := c.u64("a dimension")
		over, product := bits.Mul64(elements, side)
		if c.err == nil && (side < 1 || side > MaxSide || over != 0 || product > MaxFileBytes) {
			c.fail("dimension %d of tensor %.64q is %d: too large, or zero", i, t.Name, side)
		}
		elements = product
		t.Dims = append(t.Dims, int(side))
	}
	t.Type = Type(c.u32("type of a tensor"))
	t.offset = c.u64("offset of a tensor")
	if c.err != nil {
		return
	}
	block, size := t.Type.Block()
	switch {
	case block == 0:
		c.fail("tensor %.64q is of %v, which is not supported", t.Name, t.Type)
	case t.Dims[0]%block != 0:
		c.fail("tensor %.64q has rows of %d numbers, %v wants a multiple of %d", t.Name, t.Dims[0], t.Type, block)
	case f.tensors[t.Name] != nil:
		c.fail("tensor %.64q stands there twice", t.Name)
	}
	t.size = elements / uint64(max(block, 1)) * uint64(size)
	f.tensors[t.Name] = t
	f.order = append(f.order, t)
}

// place finds the bytes of each tensor, which follow the header.
func (f *File) place(c *cursor) {
	alignment := uint64(defaultAlignment)
	if f.Has(alignmentKey) {
		n, err := f.Uint(alignmentKey)
		if err != nil || n < 8 || n > MaxAlignment || n&(n-1) != 0 {
			c.fail("%s is not a power of two from 8 to %d", alignmentKey, MaxAlignment)
			return
		}
		alignment = n
	}
	start := (uint64(c.at) + alignment - 1) &^ (alignment - 1)
	for _, t := range f.order {
		room := uint64(len(f.data))
		switch {
		case t.offset%alignment != 0:
			c.fail("tensor %.64q begins at offset %d, which is no multiple of %d", t.Name, t.offset, alignment)
			return
		case start > room || t.offset > room-start || t.size > room-start-t.offset:
			c.fail("tensor %.64q has %d bytes from offset %d, beyond the end of the file: is it whole?", t.Name, t.size, t.offset)
			return
		}
		t.Data = f.data[start+t.offset : start+t.offset+t.size : start+t.offset+t.size]
	}
}
