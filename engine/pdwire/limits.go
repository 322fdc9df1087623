package pdwire

import "errors"

var (
	// ErrUnknown is returned for a message whose kind is not known: count it.
	ErrUnknown = errors.New("unknown control message")
	// ErrMalformed is returned for a message of a known kind that cannot be
	// read; the error names the frame.
	ErrMalformed = errors.New("malformed control message")
	// ErrTooLarge is returned where a count or length exceeds its limit.
	ErrTooLarge = errors.New("control message exceeds a limit")
	// ErrIncomplete is returned where a frame that is needed was damaged or cut
	// off by the capture.
	ErrIncomplete = errors.New("control message was not captured whole")
)

// Limits of what is decoded.
const (
	// MaxPages bounds the page indices of one message: 16 MiB of them.
	MaxPages = 4 << 20
	// MaxRegions bounds the base addresses of one list: layers times parts.
	MaxRegions = 8192
	// MaxLists bounds the state components of one message.
	MaxLists = 64
	// MaxListItems bounds the items of one state component.
	MaxListItems = 1 << 20
	// MaxNameBytes bounds a host, a session, an agent's or a request's id.
	MaxNameBytes = 512
	// MaxRequests bounds the requests of one vLLM message.
	MaxRequests = 4096
	// MaxGroups bounds the KV cache groups of one vLLM request.
	MaxGroups = 64
	// MaxReasonBytes bounds a failure's reason where it is read on purpose.
	MaxReasonBytes = 1024
	// MaxBootstrapBytes bounds the body of a bootstrap request or answer.
	MaxBootstrapBytes = 64 << 10
	// MaxRooms bounds the rooms of one query to the bootstrap server.
	MaxRooms = 4096
	// MaxRank bounds ranks and sizes of parallel groups.
	MaxRank = 1 << 16
	// maxFrames bounds the frames of a message, known and unknown.
	maxFrames = 64
)
