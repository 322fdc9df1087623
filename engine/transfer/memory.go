// Package transfer holds what every way of moving KV bytes shares: the memory
// that peers may reach, at its real addresses, and what a [Way] must do. Its
// subpackages are the ways: tcp speaks Mooncake's protocol over TCP, verbs
// writes with RDMA.
//
// It imports the standard library only, and promises that no byte is written
// or read outside a registered region, and that none is after Deregister has
// returned.
package transfer

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"unsafe"
)

var (
	// ErrOutside is returned for an address range that no registered region
	// holds whole.
	ErrOutside = errors.New("address is outside every registered region")
	// ErrOverlap is returned for memory that is registered already, wholly or
	// in part.
	ErrOverlap = errors.New("memory is registered already")
	// ErrTooMany is returned where a limit on regions is reached.
	ErrTooMany = errors.New("too many regions")
)

// MaxRegions bounds the regions of one [Memory]: layers times parts times
// pools.
const MaxRegions = 16384

// Region is one registered piece of memory.
type Region struct {
	Base  uint64 // virtual address of its first byte in this process
	Bytes uint64
}

type region struct {
	Region
	bytes []byte
	guard sync.Locker
}

// end is the address after the last byte; it cannot wrap, since the bytes are
// there.
func (r region) end() uint64 { return r.Base + r.Bytes }

// Memory is the memory of this process that peers may write to and read from,
// by its virtual addresses. It is safe for use by any goroutines.
type Memory struct {
	mu      sync.RWMutex
	regions []region // by base, without overlap
}

// AddressOf returns the virtual address of a slice's first byte. Memory of the
// Go heap does not move, but is freed when nothing refers to it: hold the
// slice for as long as the address is used.
func AddressOf(b []byte) uint64 {
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

// Register makes b reachable and returns its region. guard, if not nil, is
// held while bytes are copied in or out, 64 KiB at most at a time: an engine
// that reads the same memory while a peer may write to it, as a late write
// does, shares a lock here instead of racing.
func (m *Memory) Register(b []byte, guard sync.Locker) (Region, error) {
	if len(b) == 0 {
		return Region{}, fmt.Errorf("register memory of 0 bytes: %w", ErrOutside)
	}
	r := region{Region: Region{Base: AddressOf(b), Bytes: uint64(len(b))}, bytes: b, guard: guard}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.regions) == MaxRegions {
		return Region{}, fmt.Errorf("register region %d: %w", MaxRegions+1, ErrTooMany)
	}
	i, _ := slices.BinarySearchFunc(m.regions, r.Base, compareBase)
	if i > 0 && m.regions[i-1].end() > r.Base || i < len(m.regions) && m.regions[i].Base < r.end() {
		return Region{}, fmt.Errorf("register %d bytes at %#x: %w", r.Bytes, r.Base, ErrOverlap)
	}
	m.regions = slices.Insert(m.regions, i, r)
	return r.Region, nil
}

func compareBase(r region, base uint64) int {
	switch {
	case r.Base < base:
		return -1
	case r.Base > base:
		return 1
	}
	return 0
}

// Deregister takes the region at base away. When it returns, no peer's copy
// into it or out of it is under way, and none will begin.
func (m *Memory) Deregister(base uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, ok := slices.BinarySearchFunc(m.regions, base, compareBase)
	if !ok {
		return fmt.Errorf("deregister %#x: %w", base, ErrOutside)
	}
	m.regions = slices.Delete(m.regions, i, i+1)
	return nil
}

// Regions returns what is registered, by address.
func (m *Memory) Regions() []Region {
	m.mu.RLock()
	defer m.mu.RUnlock()
	out := make([]Region, len(m.regions))
	for i, r := range m.regions {
		out[i] = r.Region
	}
	return out
}

// Pin keeps the garbage collector away from all regions for as long as hardware may
// write there: until the pinner is unpinned.
func (m *Memory) Pin(p *runtime.Pinner) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, r := range m.regions {
		p.Pin(unsafe.SliceData(r.bytes))
	}
}

// Check returns [ErrOutside] unless one region holds all of [addr, addr+size).
func (m *Memory) Check(addr, size uint64) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	_, err := m.find(addr, size)
	return err
}

// Put copies p to addr. The range is looked up anew each time, so that a
// transfer which outlives its region stops at the next piece.
func (m *Memory) Put(addr uint64, p []byte) error {
	return m.copy(addr, uint64(len(p)), func(b []byte) { copy(b, p) })
}

// Get fills p from addr.
func (m *Memory) Get(addr uint64, p []byte) error {
	return m.copy(addr, uint64(len(p)), func(b []byte) { copy(p, b) })
}

func (m *Memory) copy(addr, size uint64, do func([]byte)) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	r, err := m.find(addr, size)
	if err != nil {
		return err
	}
	if r.guard != nil {
		r.guard.Lock()
		defer r.guard.Unlock()
	}
	do(r.bytes[addr-r.Base:][:size])
	return nil
}

func (m *Memory) find(addr, size uint64) (region, error) {
	i, exact := slices.BinarySearchFunc(m.regions, addr, compareBase)
	if !exact {
		i--
	}
	// No sum of what a peer says is formed: it could wrap.
	if size == 0 || i < 0 || addr >= m.regions[i].end() || size > m.regions[i].end()-addr {
		return region{}, fmt.Errorf("reach %d bytes at %#x: %w", size, addr, ErrOutside)
	}
	return m.regions[i], nil
}
