package zmtp

import (
	"bytes"
	"fmt"
)

// The greeting is 64 bytes: signature (10), version (2), mechanism (20),
// as-server (1), filler (31).
const (
	greetingBytes  = 64
	signatureBytes = 10
	versionMajorAt = 10
	versionMinorAt = 11
	mechanismAt    = 12
	mechanismBytes = 20
	asServerAt     = 32

	signatureFirst = 0xff
	signatureLast  = 0x7f

	// ourMinor is the minor version that sockets announce: 3.1, which has
	// PING and subscription commands.
	ourMinor = 1
)

var nullMechanism = [mechanismBytes]byte{'N', 'U', 'L', 'L'}

// Greeting is what a peer's first 64 bytes say.
type Greeting struct {
	Major, Minor uint8
	AsServer     bool
}

// AppendGreeting appends the greeting of a 3.minor peer with the NULL
// mechanism to dst.
func AppendGreeting(dst []byte, minor uint8) []byte {
	var g [greetingBytes]byte
	g[0] = signatureFirst
	// libzmq puts a 1 here, the length of an identity in ZMTP 1.0, so that an
	// old peer reads a frame header and not garbage.
	g[signatureBytes-2] = 1
	g[signatureBytes-1] = signatureLast
	g[versionMajorAt] = 3
	g[versionMinorAt] = minor
	copy(g[mechanismAt:], nullMechanism[:])
	return append(dst, g[:]...)
}

// checkGreeting refuses a greeting as soon as the bytes seen so far cannot
// become an acceptable one: garbage is not waited for.
func checkGreeting(b []byte) error {
	switch {
	case len(b) > 0 && b[0] != signatureFirst:
		return fmt.Errorf("read greeting: first byte %#02x: %w", b[0], ErrGreeting)
	case len(b) >= signatureBytes && b[signatureBytes-1] != signatureLast:
		return fmt.Errorf("read greeting: signature ends in %#02x: %w", b[signatureBytes-1], ErrGreeting)
	case len(b) > versionMajorAt && b[versionMajorAt] < 3:
		return fmt.Errorf("read greeting: peer speaks ZMTP %d: %w", b[versionMajorAt], ErrGreeting)
	case len(b) >= mechanismAt+mechanismBytes:
		if got := b[mechanismAt : mechanismAt+mechanismBytes]; !bytes.Equal(got, nullMechanism[:]) {
			return fmt.Errorf("read greeting: mechanism %q: %w", bytes.TrimRight(got, "\x00"), ErrMechanism)
		}
	}
	return nil
}

func parseGreeting(b *[greetingBytes]byte) Greeting {
	return Greeting{Major: b[versionMajorAt], Minor: b[versionMinorAt], AsServer: b[asServerAt] == 1}
}
