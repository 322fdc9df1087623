// Package pdwire puts together what the probe of the control connections saw
// (bpf/pdwire): records with a place in a stream become messages, each with the
// connection it went over and the process that sent or received it.
//
// It is pure. It imports engine/zmtp, engine/pdwire for what of a message may be
// kept, and sidecar/source/socket. What a stream says is hostile input; it
// promises:
//
//  1. A stream that lost bytes goes on where the loss is known to lie within one
//     body; else it says nothing more until a record begins with a message.
//  2. What is not whole is not kept: a message of which bytes are missing has
//     damaged frames, and its reader decides.
//  3. Streams, and the bytes that wait for the end of their message, are bounded.
package pdwire

import (
	"encoding/binary"
	"fmt"

	"github.com/kvwitness/kvwitness/sidecar/source/socket"
)

// Kind says what a record tells.
type Kind uint8

// The kinds of records.
const (
	Data    Kind = 1 + iota // bytes of the stream
	Cut                     // bytes of one body that were not handed on
	Opened                  // a ZMTP greeting ends here
	Joined                  // an open connection is followed from here on
	Blind                   // it is not any more; Reason says why
	Refused                 // ZMTP that cannot be read: encrypted, or an old version
	Closed                  // the other side ended the connection
)

// Reason says why a direction became blind.
type Reason uint8

// The reasons of Blind.
const (
	Hole     Reason = 1 + iota // bytes went by unseen
	Frame                      // what stands where a frame should is none
	Fault                      // the process's memory could not be read
	Segments                   // a call had too many pieces or frames
)

func (r Reason) String() string {
	switch r {
	case Hole:
		return "bytes went by unseen"
	case Frame:
		return "what stands where a frame should is none"
	case Fault:
		return "the process's memory could not be read"
	case Segments:
		return "a call had too many pieces or frames"
	}
	return "unknown reason"
}

const (
	headBytes = 88
	// MaxData is the most data of one record, in bytes.
	MaxData = 16384
	// begins is the flag of a record whose first byte is the first of a message.
	begins = 1
)

// Record is one thing that the probe saw of one direction of a connection.
type Record struct {
	T      int64  // ns, the node's monotonic clock
	Inode  uint64 // of the socket
	Offset uint64 // in the stream
	Length uint64 // bytes, of Data and Cut
	TGID   uint32
	Kind   Kind
	Reason Reason
	Sent   bool // the direction: by the process, else to it
	Begins bool // Offset is where a message begins
	Ends   socket.Ends
	Data   []byte // of Data; the caller's memory
}

// Flow is the record's direction, the same whichever end was watched.
func (r *Record) Flow() socket.Flow {
	if r.Sent {
		return r.Ends.Sent()
	}
	return r.Ends.Received()
}

// Parse reads a record of the probe's ring; its Data lies in b.
func Parse(b []byte) (r Record, err error) {
	if len(b) < headBytes || len(b) > headBytes+MaxData {
		return r, fmt.Errorf("read a record of the control probe: %d bytes", len(b))
	}
	word := func(at int) uint64 { return binary.NativeEndian.Uint64(b[at:]) }
	r = Record{
		T: int64(word(0)), Inode: word(8), Offset: word(16), Length: word(24), TGID: binary.NativeEndian.Uint32(b[32:]),
		Kind: Kind(b[36]), Sent: b[37] == 1, Begins: b[38]&begins != 0, Reason: Reason(b[39]), Data: b[headBytes:],
	}
	if r.Kind < Data || r.Kind > Closed {
		return r, fmt.Errorf("read a record of the control probe: kind %d", r.Kind)
	}
	if r.Kind == Data && uint64(len(r.Data)) < r.Length {
		return r, fmt.Errorf("read a record of the control probe: %d bytes of %d", len(r.Data), r.Length)
	}
	if r.Kind == Data {
		r.Data = r.Data[:r.Length]
	} else {
		r.Data = nil
	}
	r.Ends, err = socket.ParseEnds(b[40:])
	return r, err
}
