package pdwire

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/kvwitness/kvwitness/engine/zmtp"
)

// log is a Reader and what it said.
type log struct {
	*Reader
	messages []*Message
	lost     []string
}

func newLog() *log {
	l := &log{}
	l.Reader = NewReader(func(m *Message) { l.messages = append(l.messages, m) }, func(_ *Record, why string) { l.lost = append(l.lost, why) })
	return l
}

func data(inode, offset uint64, begins bool, b []byte) *Record {
	return &Record{Kind: Data, Inode: inode, Offset: offset, Length: uint64(len(b)), Begins: begins, Data: b}
}

func message(frames ...string) []byte {
	bodies := make([][]byte, len(frames))
	for i, f := range frames {
		bodies[i] = []byte(f)
	}
	return zmtp.AppendMessage(nil, bodies...)
}

// Promise: a message is the same however its bytes are spread over records, and
// streams do not touch each other.
func TestMessagesAreSpreadOverRecordsAnyhow(t *testing.T) {
	stream := append(message("17", "4", "0"), message("ABORT", "17", "host", "1")...)
	for n := 1; n <= len(stream); n++ {
		l := newLog()
		for at := 0; at < len(stream); at += n {
			part := stream[at:min(at+n, len(stream))]
			l.Take(data(1, uint64(at), at == 0, part))
			l.Take(data(2, uint64(at), at == 0, part))
		}
		if len(l.messages) != 4 || len(l.lost) > 0 || string(l.messages[3].Frames[0].Body) != "ABORT" || l.messages[3].End != uint64(len(stream)) {
			t.Fatalf("in parts of %d: %d messages, lost %q", n, len(l.messages), l.lost)
		}
		if s := l.Stats(); s.Records != s.Handled || s.Waiting != 0 || s.Streams != 2 {
			t.Fatalf("in parts of %d: %+v", n, s)
		}
	}
}

// Promise: a hole within a body damages that frame; one elsewhere ends the
// stream, which goes on at a record that begins with a message.
func TestAHoleDamagesWhatItIsIn(t *testing.T) {
	first, second := message("17", "0123456789", "0"), message("ABORT", "17", "host", "1")
	l := newLog()
	l.Take(data(1, 0, true, first[:7])) // the body of the second frame begins at 6
	l.Take(data(1, 10, false, first[10:]))
	if len(l.messages) != 1 || !l.messages[0].Frames[1].Damaged || l.messages[0].Frames[2].Damaged || l.Stats().Holes != 1 {
		t.Fatalf("%+v, %+v", l.messages, l.Stats())
	}
	at := uint64(len(first))
	l.Take(data(1, at+2, false, second[2:]))
	if len(l.lost) != 1 || l.Stats().Unplaced != 1 {
		t.Fatalf("lost %q, %+v", l.lost, l.Stats())
	}
	at += uint64(len(second))
	l.Take(data(1, at, true, second))
	if len(l.messages) != 2 || string(l.messages[1].Frames[0].Body) != "ABORT" {
		t.Errorf("after the hole: %+v", l.messages)
	}
	if s := l.Stats(); s.Records != s.Handled+s.Unplaced+s.Refused {
		t.Errorf("%+v", s)
	}
}

// Promise: what the kernel cut damages its frame, at its true length.
func TestACutFrameHasItsLengthAndNoBody(t *testing.T) {
	whole := message("AUX_DATA", "17", "0", "1", "\x00\x00\x00\x05", "abcde")
	body := len(whole) - 5
	l := newLog()
	l.Take(data(1, 0, true, whole[:body]))
	l.Take(&Record{Kind: Cut, Inode: 1, Offset: uint64(body), Length: 5})
	if len(l.messages) != 1 {
		t.Fatalf("%d messages, lost %q", len(l.messages), l.lost)
	}
	if f := l.messages[0].Frames[5]; !f.Damaged || f.Size != 5 || len(f.Body) > 0 {
		t.Errorf("%+v", f)
	}
}

// Promise: streams and waiting bytes are bounded; beyond that things are counted.
func TestWhatWaitsIsBounded(t *testing.T) {
	l := newLog()
	for inode := range uint64(MaxStreams + 10) {
		l.Take(data(inode, 0, true, message("1", "1", "1")))
	}
	if s := l.Stats(); s.Streams != MaxStreams || s.Refused != 10 {
		t.Errorf("%+v", s)
	}
	l = newLog()
	head := binary.BigEndian.AppendUint64([]byte{2}, MaxFrame)
	body := bytes.Repeat([]byte{1}, MaxData)
	for inode := uint64(0); inode < 2*MaxWaiting/MaxFrame; inode++ {
		l.Take(data(inode, 0, true, head))
		for n := range uint64(MaxFrame/MaxData - 1) {
			l.Take(data(inode, 9+n*MaxData, false, body))
			if s := l.Stats(); s.Waiting > MaxWaiting {
				t.Fatalf("%d bytes wait", s.Waiting)
			}
		}
	}
	if s := l.Stats(); s.Overfull == 0 {
		t.Errorf("%+v", s)
	}
}

// Whatever records come: no panic, and every record is counted once.
func FuzzReaderHoldsItsBounds(f *testing.F) {
	f.Add([]byte("\x01\x00\x01\x04None"), uint64(3))
	f.Add([]byte{1, 1, 1, 2, 255, 255, 255, 255, 255, 255, 255, 255}, uint64(1))
	f.Fuzz(func(t *testing.T, b []byte, step uint64) {
		l := newLog()
		at := uint64(0)
		for len(b) > 3 {
			n := min(int(b[2])+1, len(b)-3)
			r := &Record{Kind: Kind(b[0]%8 + 1), Inode: uint64(b[1] % 3), Begins: b[1]&4 != 0, Sent: b[1]&8 != 0, Offset: at, Length: uint64(n), Data: b[3 : 3+n]}
			if r.Kind == Cut {
				r.Length = step
			}
			if r.Kind <= Closed {
				l.Take(r)
			}
			at += r.Length
			b = b[3+n:]
		}
		if s := l.Stats(); s.Records != s.Handled+s.Unplaced+s.Refused || s.Waiting < 0 || s.Waiting > MaxWaiting {
			t.Fatalf("%+v", s)
		}
	})
}

// Whatever bytes a record has: no panic, no read beyond it.
func FuzzRecordsAreRead(f *testing.F) {
	b := make([]byte, headBytes+4)
	b[24], b[36], b[44] = 4, 1, 2
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := Parse(b); err == nil && r.Kind == Data && uint64(len(r.Data)) != r.Length {
			t.Fatalf("%+v", r)
		}
	})
}
