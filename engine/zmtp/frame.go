package zmtp

import "encoding/binary"

// Bits of a frame's first byte.
const (
	flagMore    = 1 << 0
	flagLong    = 1 << 1
	flagCommand = 1 << 2
	flagsKnown  = flagMore | flagLong | flagCommand

	// maxShort is the longest body whose length fits into one byte.
	maxShort = 255
	// maxHeader is the longest frame header: flags and eight bytes of length.
	maxHeader = 9
)

// Frame is one part of a message as it was seen on the wire.
type Frame struct {
	// Body holds the kept bytes: all of them, or fewer where the decoder's
	// Keep function said so.
	Body []byte
	// Size is the length of the body on the wire, in bytes.
	Size uint64
	// Damaged says that bytes of the body were lost; Body is then empty.
	Damaged bool
}

// appendHeader appends the header of a frame whose body has n bytes.
func appendHeader(dst []byte, flags byte, n int) []byte {
	if n <= maxShort {
		return append(dst, flags, byte(n))
	}
	dst = append(dst, flags|flagLong)
	return binary.BigEndian.AppendUint64(dst, uint64(n))
}

// AppendMessage appends a message of these frames to dst. A message has at
// least one frame; without any, nothing is appended.
func AppendMessage(dst []byte, frames ...[]byte) []byte {
	for i, f := range frames {
		flags := byte(0)
		if i < len(frames)-1 {
			flags = flagMore
		}
		dst = appendHeader(dst, flags, len(f))
		dst = append(dst, f...)
	}
	return dst
}

// wireBytes returns how many bytes AppendMessage would append at most.
func wireBytes(frames [][]byte) int {
	n := 0
	for _, f := range frames {
		n += maxHeader + len(f)
	}
	return n
}
