package zmtp

import (
	"encoding/binary"
	"fmt"
)

// EventKind says what a [Decoder] found.
type EventKind uint8

// The kinds of an event.
const (
	NeedMore      EventKind = iota // the bytes given end before anything is whole
	GreetingEvent                  // Event.Greeting is set
	CommandEvent                   // Event.Command is set
	MessageEvent                   // Event.Message is set
)

// Event is one thing found in a stream. What it holds belongs to the caller.
type Event struct {
	Kind     EventKind
	Greeting Greeting
	Command  Command
	Message  []Frame
}

// Keep decides how many bytes of a frame's body are kept, at its header, so
// that content is dropped before it is ever stored. first is the kept body of
// the message's first frame (nil for that frame itself), index the frame's
// position from 0, size the body's length on the wire. A negative answer
// keeps nothing; more than size keeps all.
type Keep func(first []byte, index int, size uint64) int64

// DecoderConfig says where a stream begins and what of it is kept.
type DecoderConfig struct {
	Limits Limits
	// Joined says that the first byte is the header of a frame: the greeting
	// went by before the decoder was there.
	Joined bool
	// Keep is asked at each message frame's header; nil keeps everything.
	Keep Keep
}

type decoderState uint8

const (
	inGreeting decoderState = iota
	inHeader
	inBody
)

// Decoder reads one direction of a ZMTP 3 stream, incrementally. It does no
// I/O, holds at most one message, and is not safe for use by two goroutines.
type Decoder struct {
	limits Limits
	keep   Keep
	state  decoderState
	err    error

	head    [greetingBytes]byte // greeting, or the header of a frame
	headLen int

	flags byte
	frame Frame
	left  uint64 // bytes of the body still to come
	want  uint64 // bytes of the body still to keep

	msg      []Frame
	msgBytes uint64
}

// NewDecoder returns a decoder at the beginning of a stream.
func NewDecoder(c DecoderConfig) *Decoder {
	d := &Decoder{limits: c.Limits.withDefaults(), keep: c.Keep}
	if c.Joined {
		d.state = inHeader
	}
	return d
}

// Idle says that the stream stands at the beginning of a message: nothing is
// half read.
func (d *Decoder) Idle() bool {
	return d.state == inHeader && d.headLen == 0 && len(d.msg) == 0
}

// Next consumes bytes of p up to the end of the next event and says how many.
// With [NeedMore] it has consumed all of p. An error is final: every later
// call returns it. After [Decoder.Gap], call it with an empty p to take an
// event that the gap completed.
func (d *Decoder) Next(p []byte) (n int, ev Event, err error) {
	if d.err != nil {
		return 0, Event{}, d.err
	}
	for {
		var used int
		var done bool
		switch d.state {
		case inGreeting:
			used, ev, done, err = d.readGreeting(p[n:])
		case inHeader:
			used, done, err = d.readHeader(p[n:])
		case inBody:
			used, ev, done, err = d.readBody(p[n:])
		}
		n += used
		if err != nil {
			d.err = err
			return n, Event{}, err
		}
		if ev.Kind != NeedMore || !done {
			return n, ev, nil
		}
	}
}

// Gap tells the decoder that the next n bytes of the stream are lost. Within
// a frame's body that damages one frame; elsewhere the boundary is lost, and
// the stream ends with [ErrLostSync].
func (d *Decoder) Gap(n uint64) error {
	switch {
	case d.err != nil:
		return d.err
	case n == 0:
		return nil
	case d.state != inBody || n > d.left:
		d.err = fmt.Errorf("skip %d lost bytes: %w", n, ErrLostSync)
		return d.err
	}
	d.left -= n
	if d.flags&flagCommand == 0 {
		d.msgBytes -= uint64(len(d.frame.Body)) + d.want
	}
	d.want = 0
	d.frame.Body = nil
	d.frame.Damaged = true
	return nil
}

// fill copies bytes into the head until it holds want, and says how many and
// whether it does.
func (d *Decoder) fill(p []byte, want int) (used int, full bool) {
	used = copy(d.head[d.headLen:want], p)
	d.headLen += used
	return used, d.headLen == want
}

func (d *Decoder) readGreeting(p []byte) (used int, ev Event, done bool, err error) {
	used, full := d.fill(p, greetingBytes)
	if err := checkGreeting(d.head[:d.headLen]); err != nil || !full {
		return used, Event{}, false, err
	}
	d.state, d.headLen = inHeader, 0
	return used, Event{Kind: GreetingEvent, Greeting: parseGreeting(&d.head)}, true, nil
}

func (d *Decoder) readHeader(p []byte) (used int, done bool, err error) {
	if d.headLen == 0 {
		if used, _ = d.fill(p, 1); used == 0 {
			return 0, false, nil
		}
		if f := d.head[0]; f&^flagsKnown != 0 || f&(flagCommand|flagMore) == flagCommand|flagMore {
			return used, false, fmt.Errorf("read frame: flags %#02x: %w", f, ErrFrame)
		}
	}
	want := 2
	if d.head[0]&flagLong != 0 {
		want = maxHeader
	}
	more, full := d.fill(p[used:], want)
	used += more
	if !full {
		return used, false, nil
	}
	size := uint64(d.head[1])
	if want == maxHeader {
		size = binary.BigEndian.Uint64(d.head[1:maxHeader])
	}
	d.flags, d.headLen = d.head[0], 0
	return used, true, d.beginBody(size)
}

// beginBody judges a frame by its header alone, before a byte of it is stored.
func (d *Decoder) beginBody(size uint64) error {
	limit, kept := uint64(d.limits.FrameBytes), size
	if d.flags&flagCommand != 0 {
		limit = maxCommandBytes
	}
	if size > limit {
		return fmt.Errorf("read frame: %d bytes, at most %d: %w", size, limit, ErrTooLarge)
	}
	if d.flags&flagCommand == 0 {
		if len(d.msg) == d.limits.Frames {
			return fmt.Errorf("read message: more than %d frames: %w", d.limits.Frames, ErrTooLarge)
		}
		kept = d.keptBytes(size)
		if d.msgBytes+kept > uint64(d.limits.MessageBytes) {
			return fmt.Errorf("read message: more than %d bytes: %w", d.limits.MessageBytes, ErrTooLarge)
		}
		d.msgBytes += kept
	}
	d.state, d.left, d.want = inBody, size, kept
	d.frame = Frame{Size: size, Body: make([]byte, 0, min(kept, growStep))}
	return nil
}

func (d *Decoder) keptBytes(size uint64) uint64 {
	if d.keep == nil {
		return size
	}
	var first []byte
	if len(d.msg) > 0 {
		first = d.msg[0].Body
	}
	k := d.keep(first, len(d.msg), size)
	if k < 0 {
		return 0
	}
	return min(uint64(k), size)
}

func (d *Decoder) readBody(p []byte) (used int, ev Event, done bool, err error) {
	n := min(uint64(len(p)), d.left)
	if k := min(n, d.want); k > 0 {
		d.frame.Body = append(d.frame.Body, p[:k]...)
		d.want -= k
	}
	d.left -= n
	if d.left > 0 {
		return int(n), Event{}, false, nil
	}
	d.state = inHeader
	ev, err = d.endFrame()
	return int(n), ev, true, err
}

func (d *Decoder) endFrame() (Event, error) {
	f := d.frame
	d.frame = Frame{}
	if d.flags&flagCommand != 0 {
		if f.Damaged {
			// What was lost cannot be said, and nothing of the message
			// around it is: the stream goes on.
			return Event{}, nil
		}
		c, err := parseCommand(f.Body)
		return Event{Kind: CommandEvent, Command: c}, err
	}
	d.msg = append(d.msg, f)
	if d.flags&flagMore != 0 {
		return Event{}, nil
	}
	ev := Event{Kind: MessageEvent, Message: d.msg}
	d.msg, d.msgBytes = nil, 0
	return ev, nil
}
