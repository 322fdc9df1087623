package zmtp

import (
	"encoding/binary"
	"fmt"
)

// Names of the commands of ZMTP 3.0 and 3.1 that a NULL connection uses.
const (
	CommandReady     = "READY"
	CommandError     = "ERROR"
	CommandSubscribe = "SUBSCRIBE"
	CommandCancel    = "CANCEL"
	CommandPing      = "PING"
	CommandPong      = "PONG"
)

const (
	// maxPingContext is the longest context that a PING may carry.
	maxPingContext = 16
	// maxProperties bounds the metadata of a READY.
	maxProperties = 16
	// maxErrorReason is the longest reason that fits into an ERROR.
	maxErrorReason = 255
)

// Command is a frame that is addressed to the peer's protocol, not to its user.
type Command struct {
	Name string
	Body []byte // what follows the name
}

func parseCommand(b []byte) (Command, error) {
	if len(b) == 0 || int(b[0]) == 0 || len(b) < 1+int(b[0]) {
		return Command{}, fmt.Errorf("read command: name does not fit into %d bytes: %w", len(b), ErrFrame)
	}
	n := int(b[0])
	return Command{Name: string(b[1 : 1+n]), Body: b[1+n:]}, nil
}

// AppendCommand appends a command to dst. The name has 1 to 255 bytes.
func AppendCommand(dst []byte, name string, body ...[]byte) []byte {
	n := 1 + len(name)
	for _, b := range body {
		n += len(b)
	}
	dst = appendHeader(dst, flagCommand, n)
	dst = append(dst, byte(len(name)))
	dst = append(dst, name...)
	for _, b := range body {
		dst = append(dst, b...)
	}
	return dst
}

// Ready is the metadata with which a peer opens a NULL connection.
type Ready struct {
	SocketType string // "PUB", "SUB", …
	Identity   string // routing id that the peer asks for; may be empty
	Unknown    int    // properties that were present and not understood
}

// AppendReady appends a READY command to dst.
func AppendReady(dst []byte, r Ready) []byte {
	var meta []byte
	meta = appendProperty(meta, "Socket-Type", r.SocketType)
	meta = appendProperty(meta, "Identity", r.Identity)
	return AppendCommand(dst, CommandReady, meta)
}

func appendProperty(dst []byte, name, value string) []byte {
	dst = append(dst, byte(len(name)))
	dst = append(dst, name...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(value)))
	return append(dst, value...)
}

// ParseReady reads the body of a READY command. A property name is compared
// without regard to case, as the specification asks.
func ParseReady(b []byte) (Ready, error) {
	var r Ready
	for count := 0; len(b) > 0; count++ {
		if count == maxProperties {
			return r, fmt.Errorf("read READY: more than %d properties: %w", maxProperties, ErrTooLarge)
		}
		name, value, rest, ok := cutProperty(b)
		if !ok {
			return r, fmt.Errorf("read READY: property %d does not fit: %w", count, ErrFrame)
		}
		b = rest
		switch {
		case equalFold(name, "socket-type"):
			r.SocketType = string(value)
		case equalFold(name, "identity"):
			r.Identity = string(value)
		default:
			r.Unknown++
		}
	}
	return r, nil
}

func cutProperty(b []byte) (name, value, rest []byte, ok bool) {
	n := int(b[0])
	if n == 0 || len(b) < 1+n+4 {
		return nil, nil, nil, false
	}
	name, b = b[1:1+n], b[1+n:]
	v := uint64(binary.BigEndian.Uint32(b))
	b = b[4:]
	if v > uint64(len(b)) {
		return nil, nil, nil, false
	}
	return name, b[:v], b[v:], true
}

// equalFold compares ASCII without allocating; lower is in lower case.
func equalFold(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// errorReason returns the reason of an ERROR command, bounded by its format.
func errorReason(b []byte) string {
	if len(b) == 0 || len(b) < 1+int(b[0]) {
		return ""
	}
	return string(b[1 : 1+int(b[0])])
}

func appendError(dst []byte, reason string) []byte {
	if len(reason) > maxErrorReason {
		reason = reason[:maxErrorReason]
	}
	return AppendCommand(dst, CommandError, []byte{byte(len(reason))}, []byte(reason))
}

// pingContext returns what a PONG must repeat of a PING's body.
func pingContext(b []byte) ([]byte, error) {
	const ttlBytes = 2
	if len(b) < ttlBytes || len(b) > ttlBytes+maxPingContext {
		return nil, fmt.Errorf("read PING: body of %d bytes: %w", len(b), ErrFrame)
	}
	return b[ttlBytes:], nil
}
