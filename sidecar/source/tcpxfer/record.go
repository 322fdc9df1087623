// Package tcpxfer reads what the probe of Mooncake's TCP transport saw
// (bpf/tcpxfer): which bytes arrived at which address of which process, and
// where its sight of a connection ended.
//
// It is pure. It imports sidecar/source/socket. A record comes from the kernel,
// but its content, the header of a transfer, is whatever a peer wrote: nothing
// here trusts it, and its meaning is for sidecar/source/proven to judge.
package tcpxfer

import (
	"encoding/binary"
	"fmt"

	"github.com/kvwitness/kvwitness/sidecar/source/socket"
)

// Kind says what a record tells.
type Kind uint8

// The kinds of records.
const (
	Moved    Kind = 1 + iota // a WRITE's payload has wholly been taken from the socket
	Asked                    // a READ's header has arrived
	Client                   // the process writes to the other end of the connection
	Joined                   // an open connection is followed from here on
	Blind                    // it is not any more; Reason says why
	Stranger                 // it was open before, and what it carries is not known
	Closed                   // the other side ended it
)

// Reason says why a connection became blind.
type Reason uint8

// The reasons of Blind.
const (
	Hole     Reason = 1 + iota // bytes went by unseen where a header could be
	NoHeader                   // what stands where a header should is none
	Fault                      // the process's memory could not be read
	Segments                   // a call with too many pieces or headers
)

func (r Reason) String() string {
	switch r {
	case Hole:
		return "bytes went by unseen"
	case NoHeader:
		return "what stands where a header should is none"
	case Fault:
		return "the process's memory could not be read"
	case Segments:
		return "a call had too many pieces or headers"
	}
	return "unknown reason"
}

// The bits of a record's flags.
const (
	afterJoin = 1 << iota
	holed
	acknowledged
)

// opcodeWrite is Mooncake's WRITE, without the bit of its second version.
const opcodeWrite = 1

// RecordBytes is the length of a record.
const RecordBytes = 96

// Record is one thing that the probe saw.
type Record struct {
	T       int64  // ns, the node's monotonic clock
	Inode   uint64 // of the socket
	Offset  uint64 // of the header in the stream
	Address uint64 // in the memory of the process
	Bytes   uint64
	TGID    uint32
	Kind    Kind
	Reason  Reason
	Write   bool // the header's opcode
	// AfterJoin: the connection was open before; where its headers stand was
	// taken from how the process reads.
	AfterJoin bool
	// Holed: some of the payload was taken from the socket unseen.
	Holed bool
	// Acknowledged: the second version of the protocol.
	Acknowledged bool
	Ends         socket.Ends
}

// Parse reads a record of the probe's ring.
func Parse(b []byte) (r Record, err error) {
	if len(b) != RecordBytes {
		return r, fmt.Errorf("read a record of the TCP probe: %d bytes, want %d", len(b), RecordBytes)
	}
	word := func(at int) uint64 { return binary.NativeEndian.Uint64(b[at:]) }
	flags := b[46]
	r = Record{
		T: int64(word(0)), Inode: word(8), Offset: word(16), Address: word(24), Bytes: word(32),
		TGID: binary.NativeEndian.Uint32(b[40:]), Kind: Kind(b[44]), Reason: Reason(b[47]), Write: b[45]&0x7f == opcodeWrite,
		AfterJoin: flags&afterJoin != 0, Holed: flags&holed != 0, Acknowledged: flags&acknowledged != 0,
	}
	if r.Kind < Moved || r.Kind > Closed {
		return r, fmt.Errorf("read a record of the TCP probe: kind %d", r.Kind)
	}
	r.Ends, err = socket.ParseEnds(b[48:])
	return r, err
}
