package gguf

import (
	"encoding/binary"
	"fmt"
)

// cursor reads a file from its beginning. After the first error it reads nothing.
type cursor struct {
	data []byte
	at   int
	err  error
}

// fail keeps the first error and where it is.
func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: byte %d: %s", ErrFormat, c.at, fmt.Sprintf(format, args...))
	}
}

// take returns the next n bytes in place.
func (c *cursor) take(n uint64, what string) []byte {
	if c.err != nil {
		return nil
	}
	if left := uint64(len(c.data) - c.at); n > left {
		c.fail("%s of %d bytes, %d are left", what, n, left)
		return nil
	}
	b := c.data[c.at : c.at+int(n) : c.at+int(n)]
	c.at += int(n)
	return b
}

func (c *cursor) u32(what string) uint32 {
	if b := c.take(4, what); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) u64(what string) uint64 {
	if b := c.take(8, what); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// count reads a count that may be at most that.
func (c *cursor) count(most uint64, what string) uint64 {
	from := c.at
	n := c.u64(what)
	if c.err == nil && n > most {
		c.at = from
		c.fail("%d %s, at most %d", n, what, most)
	}
	return n
}

// text reads a string of at most so many bytes.
func (c *cursor) text(most uint64, what string) []byte {
	n := c.count(most, "bytes of "+what)
	if c.err != nil {
		return nil
	}
	return c.take(n, what)
}
