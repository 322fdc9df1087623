package stream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// TopicPrefix begins the topic of every stream of format v1.
const TopicPrefix = "kvw1@"

// snapshotRequest asks the ROUTER for a snapshot. It is longer than a number,
// so that no other subscriber of KV events asks for one by mistake.
const snapshotRequest = "kvw1.snapshot"

// End is in place of the number in the frame that ends an answer.
const End = ^uint64(0)

var (
	// ErrFrame is returned for frames that are not of this stream.
	ErrFrame = errors.New("not a frame of a lifecycle stream")
	// ErrBatch is returned for a payload that is no batch.
	ErrBatch = errors.New("not a batch of lifecycle facts")
)

// Topic is the topic of an instance's stream.
func Topic(inst string) []byte { return append([]byte(TopicPrefix), inst...) }

// Message is one batch with its number, as it came. Payload is that of the
// frames.
type Message struct {
	Seq     uint64
	Payload []byte
}

// ParseMessage reads what a PUB socket sent, and returns the instance too.
func ParseMessage(frames [][]byte) (inst string, m Message, err error) {
	if len(frames) != 3 {
		return "", m, fmt.Errorf("%w: %d frames, want 3", ErrFrame, len(frames))
	}
	inst, ours := strings.CutPrefix(string(frames[0]), TopicPrefix)
	if !ours || inst == "" || len(inst) > lifecycle.MaxID {
		return "", m, fmt.Errorf("%w: topic of %d bytes, want %s and an instance", ErrFrame, len(frames[0]), TopicPrefix)
	}
	m.Seq, err = number(frames[1])
	m.Payload = frames[2]
	return inst, m, err
}

func number(frame []byte) (uint64, error) {
	if len(frame) != 8 {
		return 0, fmt.Errorf("%w: a number of %d bytes, want 8", ErrFrame, len(frame))
	}
	return binary.BigEndian.Uint64(frame), nil
}

// Request is what is asked of the ROUTER.
type Request struct {
	Snapshot bool
	From     uint64 // the first batch wanted, where it is no snapshot
}

// Frames are the request's, delimiter included.
func (r Request) Frames() [][]byte {
	if r.Snapshot {
		return [][]byte{nil, []byte(snapshotRequest)}
	}
	return [][]byte{nil, binary.BigEndian.AppendUint64(nil, r.From)}
}

// ParseRequest reads what a ROUTER received.
func ParseRequest(frames [][]byte) (Request, error) {
	if len(frames) != 2 || len(frames[0]) != 0 {
		return Request{}, fmt.Errorf("%w: a request of %d frames, want an empty one and one more", ErrFrame, len(frames))
	}
	if string(frames[1]) == snapshotRequest {
		return Request{Snapshot: true}, nil
	}
	from, err := number(frames[1])
	return Request{From: from}, err
}

// ParseAnswer reads one message of an answer. A Seq of [End] is its last. SGLang
// answers in this form; vLLM puts its topic before the number, which is taken too.
func ParseAnswer(frames [][]byte) (m Message, err error) {
	if len(frames) == 4 {
		frames = append([][]byte{frames[0]}, frames[2:]...)
	}
	if len(frames) != 3 || len(frames[0]) != 0 {
		return m, fmt.Errorf("%w: an answer of %d frames, want an empty one, a number and a batch", ErrFrame, len(frames))
	}
	m.Seq, err = number(frames[1])
	m.Payload = frames[2]
	return m, err
}
