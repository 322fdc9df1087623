package probe

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Promise: what is written is read, frame by frame.
func TestWhatIsWrittenIsRead(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	must(t, w.Hello())
	seen := Seen{T: 5, PID: 7, Ended: true, Rule: "exe=x"}
	mark := Mark{T: -1, Counted: -2, Counts: Counts{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}}
	must(t, w.Frame(Process, seen.Append(nil)))
	must(t, w.Frame(Progress, mark.Append(nil)))
	attached := Attached{T: 6, PID: 7, Seen: true, Ends: true, UCX: true, Context: 8, Reason: "none"}
	must(t, w.Frame(Sight, attached.Append(nil)))
	must(t, w.Frame(Control, make([]byte, MaxFrame)))
	if err := w.Frame(Control, make([]byte, MaxFrame+1)); !errors.Is(err, ErrFormat) {
		t.Errorf("a frame that is too long is written: %v", err)
	}
	must(t, w.Flush())
	r, err := NewReader(&b)
	must(t, err)
	k, p, err := r.Next()
	must(t, err)
	if got, err := ParseSeen(p); k != Process || err != nil || got != seen {
		t.Errorf("read %v %+v, %v", k, got, err)
	}
	k, p, err = r.Next()
	must(t, err)
	if got, err := ParseMark(p); k != Progress || err != nil || !reflect.DeepEqual(got, mark) {
		t.Errorf("read %v %+v, %v", k, got, err)
	}
	k, p, err = r.Next()
	must(t, err)
	if got, err := ParseAttached(p); k != Sight || err != nil || got != attached {
		t.Errorf("read %v %+v, %v", k, got, err)
	}
	if k, p, err = r.Next(); k != Control || len(p) != MaxFrame || err != nil {
		t.Errorf("read %v of %d bytes, %v", k, len(p), err)
	}
	if _, _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("the end is %v", err)
	}
}

// Promise: a probe that cannot watch says why, and one of another version is
// refused.
func TestNoHelloIsAnErrorThatSaysWhy(t *testing.T) {
	for text, write := range map[string]func(w *Writer) error{
		"lacks the rights": func(w *Writer) error { return w.Frame(Problem, []byte("lacks the rights")) },
		"one build":        func(w *Writer) error { return w.Frame(Hello, binary.LittleEndian.AppendUint32(nil, Version+1)) },
		"malformed":        func(w *Writer) error { return w.Frame(numKind, nil) },
		"EOF":              func(*Writer) error { return nil },
	} {
		var b bytes.Buffer
		w := NewWriter(&b)
		must(t, errors.Join(write(w), w.Flush()))
		if _, err := NewReader(&b); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("want %q: %v", text, err)
		}
	}
}

// Whatever bytes come, reading ends without a panic, and holds no more than a
// frame.
func FuzzFramesAreBounded(f *testing.F) {
	var b bytes.Buffer
	w := NewWriter(&b)
	must(f, errors.Join(w.Hello(), w.Frame(Process, (&Seen{Rule: "x"}).Append(nil)), w.Frame(Progress, (&Mark{}).Append(nil)), w.Flush()))
	f.Add(b.Bytes())
	f.Add([]byte{255, 255, 255, 255, 2})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := NewReader(bytes.NewReader(b))
		for err == nil {
			var p []byte
			if _, p, err = r.Next(); len(p) > MaxFrame {
				t.Fatalf("%d bytes", len(p))
			}
			if s, err := ParseSeen(p); err == nil && !bytes.Equal(s.Append(nil), p) {
				t.Fatalf("%q is read as %+v", p, s)
			}
			if a, err := ParseAttached(p); err == nil && !bytes.Equal(a.Append(nil), p) {
				t.Fatalf("%q is read as %+v", p, a)
			}
			if m, err := ParseMark(p); err == nil && !bytes.Equal(m.Append(nil), p) {
				t.Fatalf("%q is read as %+v", p, m)
			}
		}
	})
}
