package peer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// A connection is a sequence of frames each way: 4 bytes length of what follows, 1
// byte kind, 8 bytes number (from 0, one more each), 8 bytes the time of the sender's
// clock at which it was written down, all big-endian, and the content. All that a side
// knew until that time stands before the frame.

// kind says what a frame holds.
type kind uint8

// The kinds of frames. From the server: hello, welcome, instances, pong, fact,
// standing, mark. From the one who dials: hello, instances, follow, ping.
const (
	kindHello     kind = 1 + iota // JSON, greeting
	kindWelcome                   // JSON, welcome
	kindInstances                 // JSON, list: those of the sender's own engines
	kindFollow                    // JSON, list: those whose streams are wanted
	kindPing                      // 8 bytes: when it was asked
	kindPong                      // 16 bytes: that, and when it was heard
	kindFact                      // one fact in msgpack
	kindStanding                  // JSON, standing
	kindMark                      // 8 bytes: how far its probe has come, 0: it has none
	numKinds
)

const (
	headBytes = 4 + 1 + 8 + 8
	// MaxControl bounds the content of all frames but those of facts, in bytes.
	MaxControl = 64 << 10
)

// limits of the content of each kind.
var limits = [numKinds]int{
	kindHello: MaxControl, kindWelcome: MaxControl, kindInstances: MaxControl, kindFollow: MaxControl,
	kindPing: 8, kindPong: 16, kindFact: lifecycle.MaxLine, kindStanding: MaxControl, kindMark: 8,
}

// ErrFrame is wrapped by every error about what a peer sent that is none of the
// protocol.
var ErrFrame = errors.New("not what a peer may send")

// errReplay is of a frame whose number is not the next one.
var errReplay = fmt.Errorf("%w: a frame out of turn", ErrFrame)

// frame is one that came. Its content is valid until the next one is read.
type frame struct {
	kind    kind
	sent    int64 // ns, the sender's clock
	content []byte
}

// frames reads those of one side.
type frames struct {
	in   io.Reader
	head [headBytes]byte
	buf  []byte
	next uint64
}

// Next is the next frame. The memory that it takes grows with what has come, not with
// what is announced.
func (r *frames) Next() (f frame, err error) {
	if _, err := io.ReadFull(r.in, r.head[:]); err != nil {
		return f, err
	}
	length := binary.BigEndian.Uint32(r.head[:])
	f.kind = kind(r.head[4])
	f.sent = int64(binary.BigEndian.Uint64(r.head[13:]))
	size := int64(length) - (headBytes - 4)
	switch {
	case f.kind == 0 || f.kind >= numKinds:
		return f, fmt.Errorf("%w: a frame of kind %d", ErrFrame, f.kind)
	case size < 0 || size > int64(limits[f.kind]):
		return f, fmt.Errorf("%w: a frame of kind %d with %d bytes, at most %d", ErrFrame, f.kind, size, limits[f.kind])
	case f.sent > maxClock || f.sent < -maxClock:
		return f, fmt.Errorf("%w: a frame of the time %d", ErrFrame, f.sent)
	case binary.BigEndian.Uint64(r.head[5:]) != r.next:
		return f, errReplay
	}
	r.next++
	f.content, err = r.read(int(size))
	return f, err
}

// readStep is how much is read before more memory is taken.
const readStep = 64 << 10

func (r *frames) read(size int) ([]byte, error) {
	for have := 0; have < size; {
		n := min(size-have, readStep)
		if cap(r.buf) < have+n {
			grown := make([]byte, min(size, 2*(have+n)))
			copy(grown, r.buf[:have])
			r.buf = grown
		}
		r.buf = r.buf[:cap(r.buf)]
		if _, err := io.ReadFull(r.in, r.buf[have:have+n]); err != nil {
			return nil, fmt.Errorf("read a frame's content: %w", err)
		}
		have += n
	}
	return r.buf[:size], nil
}

// appendFrame writes a frame down; fill appends its content.
func appendFrame(dst []byte, k kind, number uint64, sent int64, fill func([]byte) []byte) []byte {
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0, byte(k))
	dst = binary.BigEndian.AppendUint64(dst, number)
	dst = binary.BigEndian.AppendUint64(dst, uint64(sent))
	if fill != nil {
		dst = fill(dst)
	}
	binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst
}
