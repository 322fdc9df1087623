// Package verbs reads what the probe of RDMA verbs saw (bpf/verbs) and keeps what
// of it lasts: which contexts and queue pairs a process has, where each queue
// pair leads, which of its posts have completed, and what of a process goes by
// unseen.
//
// It is pure and imports the standard library. A record comes from the kernel,
// but its content is the watched process's memory, and hostile. It promises:
//
//  1. Every record is checked for its length, and everything that is kept is
//     bounded by a named limit; beyond it a process is blind, with the reason.
//  2. A queue pair leads to a process of this node only where that process has
//     one that leads back and the destination's GID is of this node; elsewhere it
//     leads to an address, or it is not known where.
//  3. A process is blind, and says why, while it has a context whose provider is
//     not attached to, a way around post_send, or completions of requests that
//     nobody saw posted.
//
// What an address means, and whose instance a process is, is for
// sidecar/source/proven.
package verbs

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Bounds of a record, as in verbs.h.
const (
	MaxExtents     = 64 // of one Posted
	MaxCompletions = 64 // of one Completed
)

// ErrRecord says that a record is not one that the probes write.
var ErrRecord = errors.New("not a record of the verbs probes")

// Flags say what a record lacks.
type Flags uint16

const (
	// Truncated: a chain, a list or a poll was longer than is followed, or a
	// request carried its bytes inline. What was left out was not seen.
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

// Context is a device that was opened, or the context of a QP.
type Context struct {
	Head
	Context          uint64
	PostSend, PollCQ uint64 // addresses in the process, hostile
	Known            bool   // the context has the layout that the probes read
	FD               int32  // of the device's file
}

// QP is a queue pair that was modified.
type QP struct {
	Context
	QP        uint64
	Number    uint32
	Mask      uint32 // ibv_qp_attr_mask: which of the following were set
	State     uint32
	DestQP    uint32
	DestGID   [16]byte
	DestLID   uint32
	GlobalGID bool // DestGID counts
}

// Bits of QP.Mask.
const (
	AttrState  = 1 << 0
	AttrAV     = 1 << 7  // DestGID, DestLID
	AttrDestQP = 1 << 20 // DestQP
)

// Extended is a QP that was asked for its extended API, with the functions of
// struct ibv_qp_ex from wr_rdma_read on: addresses in the process, hostile.
type Extended struct {
	Head
	QP, Context uint64
	Number      uint32
	Functions   [15]uint64
}

// About is a context, QP or registration that ended, or a way around post_send.
type About struct {
	Head
	What Kind
	ID   uint64 // of KindBypass the address from which it was called
}

// Region is memory that was registered.
type Region struct {
	Head
	MR     uint64
	Addr   uint64 // as remote sides name it (iova)
	Bytes  uint64
	RKey   uint32
	LKey   uint32
	DMABuf bool // device memory, by file descriptor
}

// Op is what a work request does.
type Op uint8

// The one-sided operations (enum ibv_wr_opcode).
const (
	OpWrite    Op = 0
	OpWriteImm Op = 1
	OpRead     Op = 4
)

// Extent is bytes that are contiguous on both sides, of one request or of
// several that follow each other.
type Extent struct {
	Remote, Local uint64
	Bytes         uint64
	WRID          uint64 // of its last request
	RKey          uint32
	Requests      uint32 // that begin in it
	Op            Op
	Signaled      bool
}

// Posted is what one call handed to a QP, or a part of it.
type Posted struct {
	Head
	Context, QP uint64
	Number      uint32
	Requests    uint32 // all of them, those without an extent too
	Site        uint64 // the attachment that saw it
	Extents     []Extent
}

// Completion is the end of a request.
type Completion struct {
	WRID   uint64
	Number uint32 // of the QP
	Status uint16 // enum ibv_wc_status; 0 is success
	Opcode uint16 // enum ibv_wc_opcode, where the status is 0
}

// Completed is what one poll found.
type Completed struct {
	Head
	Context uint64
	All     []Completion
}

// Kind is what a record tells of.
type Kind uint16

// The kinds, as in verbs.h.
const (
	KindContext Kind = iota + 1
	KindExtended
	KindQP
	KindQPGone
	KindContextGone
	KindRegion
	KindRegionGone
	KindPosted
	KindCompleted
	KindBypass // the process gets at a QP whose doorbell it rings itself
)

// Sizes in bytes.
const (
	headSize       = 24
	contextSize    = headSize + 40
	extendedSize   = headSize + 24 + 15*8
	qpSize         = headSize + 40 + 16 + 16 + 8 + 8
	aboutSize      = headSize + 8
	regionSize     = headSize + 24 + 16
	postedSize     = headSize + 32
	extentSize     = 48
	completedSize  = headSize + 8
	completionSize = 16
)

// Decode reads a record: a Context, QP, Extended, About, Region, Posted or
// Completed. What it returns shares nothing with data.
func Decode(data []byte) (any, error) {
	if len(data) < headSize {
		return nil, fmt.Errorf("%w: %d bytes", ErrRecord, len(data))
	}
	r := reader{data: data}
	h := Head{Time: int64(r.u64()), PID: r.u32(), TID: r.u32()}
	kind := Kind(r.u16())
	h.Flags = Flags(r.u16())
	n := r.u32()
	fixed, each, most := shape(kind)
	if fixed == 0 || n > most || len(data) < fixed+int(n)*each {
		return nil, fmt.Errorf("%w: kind %d with %d entries in %d bytes", ErrRecord, kind, n, len(data))
	}
	switch kind {
	case KindContext:
		c := r.context(h)
		c.FD = int32(r.u32())
		return c, nil
	case KindExtended:
		return r.extended(h), nil
	case KindQP:
		return r.qp(h), nil
	case KindQPGone, KindContextGone, KindRegionGone, KindBypass:
		return About{Head: h, What: kind, ID: r.u64()}, nil
	case KindRegion:
		return r.region(h), nil
	case KindPosted:
		return r.posted(h, n), nil
	default:
		return r.completed(h, n), nil
	}
}

// Glance is what the probe itself looks at of a record.
type Glance struct {
	Head
	Kind     Kind
	Requests uint32 // of a Posted
	Site     uint64 // of a Posted
}

// Peek reads that of a record whose rest it does not look at.
func Peek(data []byte) (g Glance, err error) {
	if len(data) < headSize {
		return g, fmt.Errorf("%w: %d bytes", ErrRecord, len(data))
	}
	r := reader{data: data}
	g.Head = Head{Time: int64(r.u64()), PID: r.u32(), TID: r.u32()}
	g.Kind, g.Flags = Kind(r.u16()), Flags(r.u16())
	if g.Kind != KindPosted {
		return g, nil
	}
	if len(data) < postedSize {
		return g, fmt.Errorf("%w: %d bytes of what was posted", ErrRecord, len(data))
	}
	r.at = postedSize - 12
	g.Requests, g.Site = r.u32(), r.u64()
	return g, nil
}

// shape is how long a record of a kind is: fixed bytes, then entries.
func shape(k Kind) (fixed, each int, most uint32) {
	switch k {
	case KindContext:
		return contextSize, 0, 0
	case KindExtended:
		return extendedSize, 0, 0
	case KindQP:
		return qpSize, 0, 0
	case KindQPGone, KindContextGone, KindRegionGone, KindBypass:
		return aboutSize, 0, 0
	case KindRegion:
		return regionSize, 0, 0
	case KindPosted:
		return postedSize, extentSize, MaxExtents
	case KindCompleted:
		return completedSize, completionSize, MaxCompletions
	}
	return 0, 0, 0
}

// reader takes numbers off a record whose length was checked.
type reader struct {
	data []byte
	at   int
}

func (r *reader) u64() uint64 { r.at += 8; return binary.LittleEndian.Uint64(r.data[r.at-8:]) }
func (r *reader) u32() uint32 { r.at += 4; return binary.LittleEndian.Uint32(r.data[r.at-4:]) }
func (r *reader) u16() uint16 { r.at += 2; return binary.LittleEndian.Uint16(r.data[r.at-2:]) }

func (r *reader) context(h Head) Context {
	c := Context{Head: h, Context: r.u64(), PostSend: r.u64(), PollCQ: r.u64()}
	c.Known = r.u64() == ^uint64(0)
	return c
}

func (r *reader) extended(h Head) Extended {
	x := Extended{Head: h, QP: r.u64(), Context: r.u64(), Number: r.u32()}
	r.at += 4
	for i := range x.Functions {
		x.Functions[i] = r.u64()
	}
	return x
}

func (r *reader) qp(h Head) QP {
	q := QP{QP: r.u64()}
	q.Context = r.context(h)
	q.Number, q.Mask, q.State, q.DestQP = r.u32(), r.u32(), r.u32(), r.u32()
	r.at += copy(q.DestGID[:], r.data[r.at:r.at+16])
	q.GlobalGID = r.u32() != 0
	q.DestLID = r.u32()
	q.FD = int32(r.u32())
	return q
}

func (r *reader) region(h Head) Region {
	return Region{
		Head: h, MR: r.u64(), Addr: r.u64(), Bytes: r.u64(),
		RKey: r.u32(), LKey: r.u32(), DMABuf: r.u32() != 0,
	}
}

func (r *reader) posted(h Head, n uint32) Posted {
	p := Posted{Head: h, Context: r.u64(), QP: r.u64(), Number: r.u32(), Requests: r.u32(), Site: r.u64()}
	p.Extents = make([]Extent, n)
	for i := range p.Extents {
		e := Extent{Remote: r.u64(), Local: r.u64(), Bytes: r.u64(), WRID: r.u64(), RKey: r.u32(), Requests: r.u32()}
		e.Op, e.Signaled = Op(r.data[r.at]), r.data[r.at+1] != 0
		r.at += 8
		p.Extents[i] = e
	}
	return p
}

func (r *reader) completed(h Head, n uint32) Completed {
	c := Completed{Head: h, Context: r.u64(), All: make([]Completion, n)}
	for i := range c.All {
		c.All[i] = Completion{WRID: r.u64(), Number: r.u32(), Status: r.u16(), Opcode: r.u16()}
	}
	return c
}
