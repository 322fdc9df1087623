package zmtp

import "errors"

// What a [Decoder] may refuse. Each error ends the stream: after it the
// position within the bytes is unknown.
var (
	// ErrGreeting is returned for a stream that does not open as ZMTP 3.x.
	ErrGreeting = errors.New("not a ZMTP 3 greeting")
	// ErrMechanism is returned for a security mechanism other than NULL.
	ErrMechanism = errors.New("unsupported security mechanism")
	// ErrFrame is returned for a frame header or command that breaks the format.
	ErrFrame = errors.New("malformed frame")
	// ErrTooLarge is returned where a length or a count exceeds its limit.
	ErrTooLarge = errors.New("limit exceeded")
	// ErrLostSync is returned by [Decoder.Gap] where a frame header was lost.
	ErrLostSync = errors.New("frame boundary lost")
)

// Default limits of a stream.
const (
	// DefaultFrameBytes bounds one frame's body. SGLang's largest control
	// frame is a list of 4 bytes a page, so that this holds 4 million pages.
	DefaultFrameBytes = 16 << 20
	// DefaultMessageBytes bounds the kept bytes of all frames of a message.
	DefaultMessageBytes = 16 << 20
	// DefaultFrames bounds the frames of a message.
	DefaultFrames = 64
	// maxCommandBytes bounds a command's body: the largest that is defined, a
	// READY with its metadata, stays far below.
	maxCommandBytes = 4096
	// growStep is the most that is allocated for a frame before its bytes
	// arrive.
	growStep = 64 << 10
)

// Limits bounds what one stream may hold. A zero field means its default.
type Limits struct {
	FrameBytes   int // bytes of one frame's body, as it is on the wire
	MessageBytes int // kept bytes of one message
	Frames       int // frames of one message
}

func (l Limits) withDefaults() Limits {
	if l.FrameBytes <= 0 {
		l.FrameBytes = DefaultFrameBytes
	}
	if l.MessageBytes <= 0 {
		l.MessageBytes = DefaultMessageBytes
	}
	if l.Frames <= 0 {
		l.Frames = DefaultFrames
	}
	return l
}
