package tcpxfer

import "testing"

// Whatever bytes a record has: no panic, and no kind that is not known.
func FuzzRecordsAreRead(f *testing.F) {
	b := make([]byte, RecordBytes)
	b[44], b[52] = 1, 2
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := Parse(b); err == nil && (r.Kind < Moved || r.Kind > Closed || r.Ends.Local.Port() != uint16(b[54])|uint16(b[55])<<8) {
			t.Fatalf("%+v", r)
		}
	})
}

// Promise: every reason has its words.
func TestReasonsHaveWords(t *testing.T) {
	said := map[string]bool{}
	for r := Hole; r <= Segments; r++ {
		said[r.String()] = true
	}
	if len(said) != int(Segments) || said[Reason(0).String()] {
		t.Errorf("%v", said)
	}
}
