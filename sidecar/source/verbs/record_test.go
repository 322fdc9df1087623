package verbs

import (
	"encoding/binary"
	"errors"
	"testing"
)

// Promise: a record that is shorter than it says, of no known kind, or with
// more entries than the probes write is an error.
func TestBrokenRecordsAreErrors(t *testing.T) {
	record := func(kind Kind, n uint32, size int) []byte {
		data := make([]byte, max(size, headSize))
		binary.LittleEndian.PutUint16(data[16:], uint16(kind))
		binary.LittleEndian.PutUint32(data[20:], n)
		return data[:size]
	}
	for name, data := range map[string][]byte{
		"empty":                 nil,
		"no whole head":         record(KindContext, 0, 10),
		"no known kind":         record(99, 0, 4096),
		"kind 0":                record(0, 0, 4096),
		"short":                 record(KindQP, 0, qpSize-1),
		"fewer extents":         record(KindPosted, 3, postedSize+2*extentSize),
		"more extents":          record(KindPosted, MaxExtents+1, 1<<16),
		"2^32 completions":      record(KindCompleted, 1<<32-1, 1<<16),
		"entries where none is": record(KindRegion, 1, 4096),
	} {
		if r, err := Decode(data); !errors.Is(err, ErrRecord) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	if _, err := Decode(record(KindPosted, 2, postedSize+2*extentSize)); err != nil {
		t.Errorf("a whole record: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(make([]byte, 64))
	posted := make([]byte, postedSize+extentSize)
	posted[16], posted[20] = byte(KindPosted), 1
	f.Add(posted)
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Decode(data)
		if err != nil && !errors.Is(err, ErrRecord) {
			t.Errorf("%v is no ErrRecord", err)
		}
		if p, ok := r.(Posted); ok && len(p.Extents) > MaxExtents {
			t.Errorf("%d extents", len(p.Extents))
		}
	})
}
