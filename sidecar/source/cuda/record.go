// Package cuda reads what the probe of the CUDA driver saw (bpf/cuda) and keeps the
// books of it: what each process got of the driver and has not given back, and who
// opened memory of another.
//
// It is pure and imports the standard library. A record comes from the kernel, but its
// content is what the watched process told the driver, and hostile. It promises:
//
//  1. What a process holds adds up to the byte, in whatever order threads that hand
//     the same address to each other are told of, and whatever function of the driver
//     calls another.
//  2. A process of which not all was seen is not known, and why is said: [Account.Why].
//     It stays so until it ends.
//  3. Everything that is kept is bounded by a named limit; beyond it a process is not
//     known.
//
// Bytes are those that were asked for; the driver rounds them up, and keeps memory of
// its own beside. What a pool of the driver keeps of memory that was given back to it
// is not counted.
package cuda

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrRecord says that a record is not one that the probe writes.
var ErrRecord = errors.New("not a record of the CUDA probe")

// Kind is what a call did.
type Kind uint16

// The kinds, as in bpf/cuda/probe.bpf.c: what a function of the driver is attached to
// as, but for the last.
const (
	Alloc          Kind = 1 + iota // memory of the device
	Managed                        // memory that moves between device and host
	Pitched                        // memory in rows
	Pooled                         // memory of a pool, in the order of a stream
	Free                           // of all these
	Create                         // physical memory, by a handle
	Import                         // a handle to memory of others, or what was lent
	Group                          // a handle to memory of several GPUs
	Retain                         // another reference on physical memory that is mapped
	Release                        // of a handle
	Map                            // physical memory at an address
	Unmap                          //
	Reserve                        // addresses without memory
	Unreserve                      //
	Export                         // a handle by which others may open memory
	Open                           // memory of another process
	Close                          //
	Lend                           // a descriptor or handle by which others may import physical memory
	LendPool                       // the same of a pool
	ImportPool                     // of another process, or what was lent
	ContextEnd                     // with all memory in it
	ContextRetain                  // a reference on the primary context of a device
	ContextRelease                 // the last one ends it
	Unfollowed                     // memory came or went in a way that is not followed
	Copy                           // of memory: to Base, from Other; not taken in by Books, see Copies
	CopyPeer                       // the same between contexts
	CopyUnfollowed                 // a copy of which it is not followed what it copies
	Unknown                        // a call that ended without having been seen to begin
	endKind
)

// Flags say what a record lacks.
type Flags uint16

// Unreadable: memory of the process that a pointer named could not be read.
const Unreadable Flags = 2

// RecordBytes is the length of a record.
const RecordBytes = 64

// Where a record says its processes.
const (
	ProcessAt = 8
	OwnerAt   = 56
)

// Record is one call of the driver that succeeded.
type Record struct {
	T       int64 // ns, the node's monotonic clock: when it returned
	Entered int64
	PID     uint32
	TID     uint32
	Kind    Kind
	Flags   Flags
	Owner   uint32 // of Open, Close, Import and ImportPool: the process whose memory it is; 0: not known
	Base    uint64 // an address, a handle, or the number of a device
	Bytes   uint64
	// Other is of Map the handle, of Retain the address, of Create where the memory is
	// (see OnDevice), of Open the address in its owner, of Import and ImportPool the T of
	// its owner's Lend or LendPool, of Copy and CopyPeer the source.
	Other uint64
}

// Parse reads a record of the probe's ring.
func Parse(b []byte) (r Record, err error) {
	if len(b) != RecordBytes {
		return r, fmt.Errorf("%w: %d bytes, want %d", ErrRecord, len(b), RecordBytes)
	}
	word := func(at int) uint64 { return binary.NativeEndian.Uint64(b[at:]) }
	half := func(at int) uint32 { return binary.NativeEndian.Uint32(b[at:]) }
	r = Record{
		T: int64(word(0)), PID: half(ProcessAt), TID: half(12),
		Kind: Kind(binary.NativeEndian.Uint16(b[16:])), Flags: Flags(binary.NativeEndian.Uint16(b[18:])),
		Entered: int64(word(24)), Base: word(32), Bytes: word(40), Other: word(48), Owner: half(OwnerAt),
	}
	if r.Kind < Alloc || r.Kind >= endKind {
		return r, fmt.Errorf("%w: kind %d", ErrRecord, r.Kind)
	}
	return r, nil
}

// OnDevice reports whether physical memory that was created is of a GPU
// (CUmemLocation: the type, and its number).
func (r *Record) OnDevice() bool { return uint32(r.Other) == 1 }
