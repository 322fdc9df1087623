// Package ucp reads what the probe of UCX saw (bpf/ucp) and keeps what of it lasts:
// which workers and endpoints a process has, where each endpoint leads, what of what
// was put or got is over, and what of a process goes by unseen.
//
// It is pure and imports the standard library. A record comes from the kernel, but
// its content is the watched process's memory, and hostile. It promises:
//
//  1. Every record is checked for its length, and everything that is kept is bounded
//     by a named limit; beyond it a process is blind, or its endpoint leads nowhere
//     that is known, with the reason.
//  2. An endpoint leads to a process of this node only where that process was seen to
//     ask for the address of the worker from whose address the endpoint was made,
//     and no other did.
//  3. A process is blind, and says why, while it has UCX that is not attached to, or
//     once it has a way around puts and gets.
//
// Bytes that were put are over (`ok`) when a flush of their endpoint or worker that
// began after them has ended: only a flush says that they have arrived. Bytes that
// were got are over when their call, or their request, is. Whether a request has
// ended is seen where the process asks for its status, and only if the probe is told
// to look (--completions): who waits for a callback instead leaves them `posted`.
//
// What an address means, and whose instance a process is, is for
// sidecar/source/proven.
package ucp

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrRecord says that a record is not one that the probe writes.
var ErrRecord = errors.New("not a record of the UCX probe")

// Flags say what a record lacks.
type Flags uint16

const (
	// Truncated: it was of a list or another shape that is not followed.
	Truncated Flags = 1 << iota
	// Unreadable: memory that a pointer named could not be read.
	Unreadable
)

// Head is what every record begins with.
type Head struct {
	Time  int64 // CLOCK_MONOTONIC, ns
	PID   uint32
	TID   uint32
	Flags Flags
}

// ID is how a worker's address begins: a byte about its format, and a number that is
// random for each worker.
type ID [16]byte

// Worker is a worker whose address was asked for.
type Worker struct {
	Head
	Worker uint64
	ID     ID
}

// Made is an endpoint that was made.
type Made struct {
	Head
	Endpoint, Worker uint64
	ByAddress        bool // from a worker's address, which is ID
	ID               ID
}

// Region is memory that was registered.
type Region struct {
	Head
	Handle, Addr, Bytes uint64
	Device              bool // it was said to be no memory of the host
}

// Op is what a call does.
type Op uint8

// The operations.
const (
	Put Op = iota
	Get
)

// Moved is what one call put or got.
type Moved struct {
	Head
	Endpoint             uint64
	Remote, Local, Bytes uint64
	Returned             Returned
	Op                   Op
}

// Returned is what a call that does not wait returned.
type Returned uint64

// Failed reports whether it is an error.
func (r Returned) Failed() bool { return int64(r) < 0 && int64(r) > -maxError }

// maxError is beyond all errors, which are small negative numbers.
const maxError = 4096

// Request is the request that it is, 0: none.
func (r Returned) Request() uint64 {
	if r.Failed() {
		return 0
	}
	return uint64(r)
}

// AtOnce reports whether the call had done what it could when it returned.
func (r Returned) AtOnce() bool { return r == 0 }

// Flushed is a flush of an endpoint or of a worker that was begun.
type Flushed struct {
	Head
	What     uint64
	OfWorker bool
	Returned Returned
}

// Done is a request whose status was asked for and was not that it is under way.
type Done struct {
	Head
	Request uint64
	Failed  bool
}

// About is a worker, endpoint or registration that ended, or a way around.
type About struct {
	Head
	What Kind
	ID   uint64 // 0 for KindBypass
}

// Kind is what a record tells of.
type Kind uint16

// The kinds, as in ucp.h.
const (
	KindWorker Kind = iota + 1
	KindWorkerGone
	KindEndpoint
	KindEndpointGone
	KindRegion
	KindRegionGone
	KindMoved
	KindFlushed
	KindDone
	KindBypass
)

// lengths of records, in bytes.
var lengths = map[Kind]int{
	KindWorker: 48, KindWorkerGone: 32, KindEndpoint: 64, KindEndpointGone: 32, KindRegion: 56, KindRegionGone: 32,
	KindMoved: 72, KindFlushed: 48, KindDone: 40, KindBypass: 32,
}

const headBytes = 24

// Peek reads the head of a record and what it tells of.
func Peek(data []byte) (h Head, k Kind, err error) {
	if len(data) < headBytes {
		return h, 0, fmt.Errorf("%w: %d bytes", ErrRecord, len(data))
	}
	order := binary.LittleEndian
	h = Head{Time: int64(order.Uint64(data)), PID: order.Uint32(data[8:]), TID: order.Uint32(data[12:]), Flags: Flags(order.Uint16(data[18:]))}
	return h, Kind(order.Uint16(data[16:])), nil
}

// Decode reads a record: a Worker, Made, Region, Moved, Flushed, Done or About. What
// it returns shares nothing with data.
func Decode(data []byte) (any, error) {
	h, kind, err := Peek(data)
	if err != nil {
		return nil, err
	}
	if n := lengths[kind]; n == 0 || len(data) != n {
		return nil, fmt.Errorf("%w: kind %d in %d bytes", ErrRecord, kind, len(data))
	}
	word := func(n int) uint64 { return binary.LittleEndian.Uint64(data[headBytes+8*n:]) }
	half := func(n int) uint32 { return binary.LittleEndian.Uint32(data[headBytes+4*n:]) }
	switch kind {
	case KindWorker:
		return Worker{Head: h, Worker: word(0), ID: ID(data[headBytes+8:])}, nil
	case KindEndpoint:
		return Made{Head: h, Endpoint: word(0), Worker: word(1), ID: ID(data[headBytes+16:]), ByAddress: half(8) != 0}, nil
	case KindRegion:
		const host = 0 // UCS_MEMORY_TYPE_HOST
		return Region{Head: h, Handle: word(0), Addr: word(1), Bytes: word(2), Device: half(7) != 0 && half(6) != host}, nil
	case KindMoved:
		return Moved{Head: h, Endpoint: word(0), Remote: word(1), Local: word(2), Bytes: word(3), Returned: Returned(word(4)), Op: Op(half(10))}, nil
	case KindFlushed:
		return Flushed{Head: h, What: word(0), Returned: Returned(word(1)), OfWorker: half(4) != 0}, nil
	case KindDone:
		return Done{Head: h, Request: word(0), Failed: int64(word(1)) < 0}, nil
	default:
		return About{Head: h, What: kind, ID: word(0)}, nil
	}
}
