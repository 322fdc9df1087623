package target

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
)

// MaxFunctions bounds the functions of an object that are looked at.
const MaxFunctions = 1 << 21

// Errors that callers tell apart.
var (
	ErrNoFunctionTable = errors.New("the object has no table of functions (.eh_frame_hdr)")
	ErrNotAFunction    = errors.New("no function starts there")
	ErrNoSymbol        = errors.New("no such symbol")
)

// Object is a mapped ELF object.
type Object struct {
	file  *elf.File
	start []uint64 // file offsets at which functions start, sorted
}

// Open reads an object. The reader must stay open as long as the Object is used.
func Open(r io.ReaderAt) (o *Object, err error) {
	defer func() {
		// debug/elf is not hardened against hostile files.
		if p := recover(); p != nil {
			o, err = nil, fmt.Errorf("read the object: %v", p)
		}
	}()
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, fmt.Errorf("read the object: %w", err)
	}
	o = &Object{file: f}
	if o.start, err = o.functions(); err != nil {
		return nil, err
	}
	return o, nil
}

// Starts reports whether a function starts at that offset of the file.
func (o *Object) Starts(offset uint64) bool {
	_, found := slices.BinarySearch(o.start, offset)
	return found
}

// Symbol is the file offset of an exported function. version "" takes the
// default version of that name: a name may have several, of which old programs
// use the others.
func (o *Object) Symbol(name, version string) (uint64, error) {
	symbols, err := o.file.DynamicSymbols()
	if err != nil {
		return 0, fmt.Errorf("read the symbols: %w", err)
	}
	for _, s := range symbols {
		if s.Name != name || s.Section == elf.SHN_UNDEF || elf.ST_TYPE(s.Info) != elf.STT_FUNC {
			continue
		}
		if version == "" && s.VersionIndex.IsHidden() || version != "" && s.Version != version {
			continue
		}
		offset, ok := o.offset(s.Value)
		if !ok {
			return 0, fmt.Errorf("%s: address %#x lies in no part of the file", name, s.Value)
		}
		return offset, nil
	}
	return 0, fmt.Errorf("%s: %w", name, ErrNoSymbol)
}

// offset turns an address of the object into one of the file.
func (o *Object) offset(addr uint64) (uint64, bool) {
	for _, p := range o.file.Progs {
		if p.Type == elf.PT_LOAD && addr >= p.Vaddr && addr-p.Vaddr < p.Filesz {
			return addr - p.Vaddr + p.Off, true
		}
	}
	return 0, false
}

// functions reads where functions start out of .eh_frame_hdr, which stripping
// leaves in place (Linux Standard Base, "Exception Frames"): version, three
// encodings, a pointer, a count, and pairs of start and frame, both as signed
// 32 bits from the header's own address.
func (o *Object) functions() ([]uint64, error) {
	hdr := o.file.Section(".eh_frame_hdr")
	if hdr == nil || hdr.Type == elf.SHT_NOBITS || hdr.Size > 16*MaxFunctions {
		return nil, ErrNoFunctionTable
	}
	data, err := hdr.Data()
	if err != nil {
		return nil, fmt.Errorf("read .eh_frame_hdr: %w", err)
	}
	const version, ptr, count, table = 1, 0x1b, 0x03, 0x3b
	if len(data) < 12 || data[0] != version || data[1] != ptr || data[2] != count || data[3] != table {
		return nil, ErrNoFunctionTable
	}
	order := o.file.ByteOrder
	n := uint64(order.Uint32(data[8:]))
	pairs := data[12:]
	if n > MaxFunctions || n*8 > uint64(len(pairs)) {
		return nil, fmt.Errorf("%w: it says %d functions in %d bytes", ErrNoFunctionTable, n, len(pairs))
	}
	return o.starts(hdr.Addr, n, pairs, order), nil
}

func (o *Object) starts(base, n uint64, pairs []byte, order binary.ByteOrder) []uint64 {
	start := make([]uint64, 0, n)
	for i := range n {
		rel := int64(int32(order.Uint32(pairs[i*8:])))
		if base > math.MaxInt64 {
			continue
		}
		if offset, ok := o.offset(uint64(int64(base) + rel)); ok {
			start = append(start, offset)
		}
	}
	sort.Slice(start, func(a, b int) bool { return start[a] < start[b] })
	return start
}
