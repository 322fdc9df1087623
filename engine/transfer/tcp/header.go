package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Opcode says what a header asks for.
type Opcode uint8

// The opcodes of Mooncake's transport.
const (
	Read  Opcode = 0
	Write Opcode = 1

	// acknowledged is the bit with which a sender asks for status frames: the
	// second version of the protocol.
	acknowledged = 0x80
)

// HeaderBytes is the length of a header on the wire, padding included.
const HeaderBytes = 24

// Status frames of the second version: 8 bytes, little-endian.
const (
	statusBytes          = 8
	statusMagic   uint64 = 0x4d435456 << 32
	statusOK             = statusMagic
	statusRefused        = statusMagic | 1
)

// ErrOpcode is returned for a header whose opcode is neither READ nor WRITE.
var ErrOpcode = errors.New("unknown opcode")

// Header announces one piece.
type Header struct {
	Size    uint64 // bytes that follow (WRITE) or are asked for (READ)
	Address uint64 // in the server's memory
	Opcode  Opcode
	// Acknowledged asks for status frames.
	Acknowledged bool
}

// AppendHeader appends the header's 24 bytes to dst.
func AppendHeader(dst []byte, h Header) []byte {
	op := byte(h.Opcode)
	if h.Acknowledged {
		op |= acknowledged
	}
	dst = binary.LittleEndian.AppendUint64(dst, h.Size)
	dst = binary.LittleEndian.AppendUint64(dst, h.Address)
	return append(dst, op, 0, 0, 0, 0, 0, 0, 0)
}

// ParseHeader reads a header. The padding is whatever the sender's stack held
// and is not looked at.
func ParseHeader(b *[HeaderBytes]byte) (Header, error) {
	h := Header{
		Size:         binary.LittleEndian.Uint64(b[0:]),
		Address:      binary.LittleEndian.Uint64(b[8:]),
		Opcode:       Opcode(b[16] &^ acknowledged),
		Acknowledged: b[16]&acknowledged != 0,
	}
	if h.Opcode > Write {
		return h, fmt.Errorf("read header: opcode %#02x: %w", b[16], ErrOpcode)
	}
	return h, nil
}
