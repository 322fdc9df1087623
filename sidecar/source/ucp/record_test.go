package ucp

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"
)

// record is a record as the kernel lays it out.
func record(t testing.TB, k Kind, flags Flags, fields ...any) []byte {
	t.Helper()
	order := binary.LittleEndian
	b := order.AppendUint64(nil, 1000)
	b = order.AppendUint32(order.AppendUint32(b, 7), 8)
	b = order.AppendUint16(order.AppendUint16(b, uint16(k)), uint16(flags))
	b = order.AppendUint32(b, 0)
	for _, f := range fields {
		var err error
		if b, err = binary.Append(b, order, f); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

var anID = ID{0x20, 1, 2, 3, 4, 5, 6, 7, 8}

// one of each kind, and what it is read as.
func each(t testing.TB) (all [][]byte, want []any) {
	head := Head{Time: 1000, PID: 7, TID: 8}
	cut := head
	cut.Flags = Truncated
	for _, c := range []struct {
		b    []byte
		want any
	}{
		{record(t, KindWorker, 0, uint64(1), anID), Worker{head, 1, anID}},
		{record(t, KindEndpoint, 0, uint64(2), uint64(1), anID, uint32(1), uint32(0)), Made{head, 2, 1, true, anID}},
		{record(t, KindRegion, 0, uint64(3), uint64(4096), uint64(512), uint32(1), uint32(1)), Region{head, 3, 4096, 512, true}},
		{record(t, KindRegion, 0, uint64(3), uint64(4096), uint64(512), uint32(9), uint32(0)), Region{head, 3, 4096, 512, false}},
		{record(t, KindMoved, Truncated, uint64(2), uint64(10), uint64(20), uint64(30), uint64(40), uint32(1), uint32(0)), Moved{cut, 2, 10, 20, 30, 40, Get}},
		{record(t, KindFlushed, 0, uint64(1), uint64(50), uint32(1), uint32(0)), Flushed{head, 1, true, 50}},
		{record(t, KindDone, 0, uint64(40), int64(-3)), Done{head, 40, true}},
		{record(t, KindDone, 0, uint64(40), int64(0)), Done{head, 40, false}},
		{record(t, KindEndpointGone, 0, uint64(2)), About{head, KindEndpointGone, 2}},
		{record(t, KindBypass, 0, uint64(0)), About{head, KindBypass, 0}},
	} {
		all, want = append(all, c.b), append(want, c.want)
	}
	return all, want
}

// Promise: each kind of record is read as it was written, and one of another length
// is refused.
func TestRecordsAreReadAsTheyWereWritten(t *testing.T) {
	all, want := each(t)
	for i, b := range all {
		got, err := Decode(b)
		if err != nil || got != want[i] {
			t.Errorf("read %+v, %v, want %+v", got, err, want[i])
		}
		for _, other := range [][]byte{b[:len(b)-1], append(slices.Clone(b), 0), b[:10], nil} {
			if _, err := Decode(other); !errors.Is(err, ErrRecord) {
				t.Errorf("%d bytes of %d: %v, want ErrRecord", len(other), len(b), err)
			}
		}
	}
	if _, err := Decode(record(t, 99, 0, uint64(0))); !errors.Is(err, ErrRecord) {
		t.Errorf("of an unknown kind: %v", err)
	}
}

// Promise: what a call returned is nothing, a request or an error, as UCX has them.
func TestWhatACallReturnsIsToldApart(t *testing.T) {
	minus := func(n int64) Returned { return Returned(-n) }
	for r, want := range map[Returned]struct {
		atOnce, failed bool
		request        uint64
	}{
		0: {true, false, 0}, 0x7f0012345678: {false, false, 0x7f0012345678}, minus(1): {false, true, 0}, minus(100): {false, true, 0},
	} {
		if r.AtOnce() != want.atOnce || r.Failed() != want.failed || r.Request() != want.request {
			t.Errorf("%#x: at once %v, failed %v, request %#x, want %+v", uint64(r), r.AtOnce(), r.Failed(), r.Request(), want)
		}
	}
}

// FuzzDecode: no record, whatever is in it, does more than give an error, and what is
// read leaves what is known within its bounds.
func FuzzDecode(f *testing.F) {
	all, _ := each(f)
	for _, b := range all {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Decode(data)
		if err != nil {
			return
		}
		ps := NewPaths()
		take(ps, r, func(*Endpoint, Extent, bool) {})
		if len(ps.processes) > 1 {
			t.Errorf("a record is of %d processes", len(ps.processes))
		}
	})
}

// take takes a record in as the sidecar does.
func take(ps *Paths, record any, ended Ends) {
	switch r := record.(type) {
	case Worker:
		ps.Told(&r)
	case Made:
		ps.Made(&r)
	case Moved:
		if e := ps.Find(r.PID, r.Endpoint); e != nil {
			ps.Move(e, &r)
		}
	case Flushed:
		ps.Flush(&r, ended)
	case Done:
		ps.Done(&r, ended)
	case About:
		ps.Ended(&r, func(uint64) {})
	}
}
