package zmtp

import (
	"bytes"
	"encoding/binary"
	"testing"
)

func hello() []byte { return AppendReady(AppendGreeting(nil, 1), Ready{SocketType: "PUSH"}) }

// FuzzDecoder holds the decoder to three promises on any bytes: it does not
// panic, it keeps within its limits, and it finds the same events however the
// stream is cut.
func FuzzDecoder(f *testing.F) {
	f.Add(AppendMessage(hello(), []byte("a"), nil, bytes.Repeat([]byte("b"), 300)), uint8(3), false)
	f.Add(AppendCommand(AppendMessage(nil, []byte("a")), CommandPing, []byte{0, 0}), uint8(1), true)
	f.Add(binary.BigEndian.AppendUint64([]byte{flagLong}, 1<<62), uint8(1), true)
	f.Add([]byte("GET / HTTP/1.1"), uint8(2), false)
	limits := Limits{FrameBytes: 1 << 12, MessageBytes: 1 << 13, Frames: 8}
	f.Fuzz(func(t *testing.T, stream []byte, step uint8, joined bool) {
		cut := func(left int) int { return min(left, int(step)+1) }
		one, errOne := feed(NewDecoder(DecoderConfig{Joined: joined, Limits: limits}), stream, whole)
		two, errTwo := feed(NewDecoder(DecoderConfig{Joined: joined, Limits: limits}), stream, cut)
		if len(one) != len(two) || (errOne == nil) != (errTwo == nil) {
			t.Fatalf("%d events and %v at once, %d and %v in pieces of %d", len(one), errOne, len(two), errTwo, int(step)+1)
		}
		for i := range one {
			checkEvent(t, one[i], limits)
		}
		again, got := messages(one), messages(two)
		for i := range again {
			for j := range again[i] {
				if !bytes.Equal(again[i][j], got[i][j]) {
					t.Fatalf("message %d frame %d depends on how the stream is cut", i, j)
				}
			}
		}
	})
}

func checkEvent(t *testing.T, ev Event, limits Limits) {
	t.Helper()
	if ev.Kind != MessageEvent {
		return
	}
	frames, size := bodies(ev.Message)
	if len(frames) == 0 || len(frames) > limits.Frames || size > limits.MessageBytes {
		t.Fatalf("message of %d frames and %d bytes exceeds its limits", len(frames), size)
	}
	evs, err := feed(NewDecoder(DecoderConfig{Joined: true, Limits: limits}), AppendMessage(nil, frames...), whole)
	if err != nil || len(evs) != 1 {
		t.Fatalf("a decoded message does not decode again: %d events, %v", len(evs), err)
	}
}

// FuzzHandshake: whatever a peer opens with, the handshake ends in a peer that
// fits, or in an error, and takes no message for a READY.
func FuzzHandshake(f *testing.F) {
	f.Add(hello())
	f.Add(AppendReady(AppendGreeting(nil, 0), Ready{SocketType: "SUB", Identity: "x"}))
	f.Add(appendError(AppendGreeting(nil, 1), "no"))
	f.Add(AppendMessage(AppendGreeting(nil, 1), []byte{1}))
	f.Fuzz(func(t *testing.T, stream []byte) {
		d, h := NewDecoder(DecoderConfig{}), NewHandshake(PullType)
		for {
			n, ev, err := d.Next(stream)
			stream = stream[n:]
			if err != nil || ev.Kind == NeedMore {
				return
			}
			done, err := h.Step(ev)
			if err != nil {
				return
			}
			if done && (ev.Kind != CommandEvent || !compatible(PullType, h.Info().Type) || len(h.Info().Identity) > maxIdentity) {
				t.Fatalf("handshake accepted %+v after %+v", h.Info(), ev)
			}
			if done {
				return
			}
		}
	})
}
