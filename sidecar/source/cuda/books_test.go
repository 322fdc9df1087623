package cuda

import (
	"encoding/binary"
	"strings"
	"testing"
)

const own, other = 11, 22

// told is a call of a thread, from when to when.
func told(thread uint32, entered, t int64, kind Kind, base, bytes uint64) *Record {
	return &Record{T: t, Entered: entered, PID: own, TID: thread, Kind: kind, Base: base, Bytes: bytes}
}

// books are those of a process that is known, after some calls.
func books(all ...*Record) *Books {
	b := NewBooks()
	b.Watched(own)
	b.Attached(own, "")
	for _, r := range all {
		b.Take(r)
	}
	return b
}

// Promise: an address that one thread frees and another gets is counted once each,
// whichever of the two is told of first.
func TestThreadsMayHandAnAddressToEachOther(t *testing.T) {
	// The free begins at 30 and returns at 60; meanwhile another thread gets the address.
	first, free, second := told(1, 10, 20, Alloc, 0x1000, 100), told(1, 30, 60, Free, 0x1000, 0), told(2, 40, 50, Alloc, 0x1000, 7)
	for _, order := range [][]*Record{{first, free, second}, {first, second, free}} {
		b := books(order...)
		if a := b.Account(own); a.Why != "" || a.VRAM() != 7 || a.Allocated != 107 || a.Freed != 100 || b.From(own, 0x1000) != 7 {
			t.Errorf("%+v, %d bytes there", a, b.From(own, 0x1000))
		}
	}
	if a := books(first, second).Account(own); a.Why == "" {
		t.Errorf("while the free has not returned it is known: %+v", a)
	}
	if a := books(first, second, told(2, 70, 80, Free, 0x1000, 0)).Account(own); a.Why == "" || a.VRAM() != 100 {
		t.Errorf("a free that was never told of goes unnoticed: %+v", a)
	}
}

// Promise: so may three and more of them, where several calls that free have not returned;
// up to a bound, beyond which a process is not known, and stays so.
func TestManyThreadsMayHandAnAddressToEachOther(t *testing.T) {
	// Each gets the address at 10n and begins to free it at 10n+5; none has returned yet.
	b := books()
	for n := range int64(MaxOverlap) {
		b.Take(told(uint32(2*n), 10*n, 10*n+1, Alloc, 0x1000, uint64(n+1)))
	}
	if a := b.Account(own); !strings.Contains(a.Why, "has not returned") {
		t.Errorf("%+v", a)
	}
	for n := int64(MaxOverlap - 2); n >= 0; n-- { // the last to begin is the first to return
		b.Take(told(uint32(2*n+1), 10*n+5, 10*MaxOverlap+100-n, Free, 0x1000, 0))
	}
	const all = MaxOverlap * (MaxOverlap + 1) / 2
	if a := b.Account(own); a.Why != "" || a.Allocated != all || a.VRAM() != MaxOverlap {
		t.Errorf("%+v, want %d of %d held", a, MaxOverlap, all)
	}
	for n := range int64(MaxOverlap) {
		b.Take(told(uint32(2*n), 2000+10*n, 2001+10*n, Alloc, 0x1000, 1))
	}
	if a := b.Account(own); !strings.Contains(a.Why, "given an address anew") || b.kept != MaxOverlap {
		t.Errorf("%d kept: %+v", b.kept, a)
	}
}

// Promise: a function that the driver's own function calls is not counted again; the
// outer one knows more.
func TestAFunctionWithinAnotherIsTheSameCall(t *testing.T) {
	b := books(told(1, 12, 14, Alloc, 0x1000, 4096), told(1, 10, 20, Managed, 0x1000, 4000))
	if a := b.Account(own); a.Held[Unified] != 4000 || a.VRAM() != 4000 || a.Allocated != 4000 || a.Why != "" {
		t.Errorf("%+v", a)
	}
	// Freed by a function within another; meanwhile the address is somebody else's.
	for _, r := range []*Record{told(1, 32, 34, Free, 0x1000, 0), told(2, 36, 38, Alloc, 0x1000, 5), told(1, 30, 40, Free, 0x1000, 0)} {
		b.Take(r)
	}
	if a := b.Account(own); a.VRAM() != 5 || a.Allocated != 4005 || a.Freed != 4000 || a.Why != "" {
		t.Errorf("%+v", a)
	}
	b.Take(told(1, 50, 60, Free, 0x1000, 0))
	b.Take(told(1, 70, 80, Free, 0x1000, 0))
	if a := b.Account(own); a.Why == "" || a.VRAM() != 0 {
		t.Errorf("freed twice, one after the other: %+v", a)
	}
}

// Promise: clocks of processors that differ a little make nobody unknown.
func TestClocksMayDifferALittle(t *testing.T) {
	b := books(told(1, 1000, 5000, Alloc, 0x1000, 100), told(2, 4990, 6000, Free, 0x1000, 0))
	if a := b.Account(own); a.Why != "" || a.VRAM() != 0 || a.Freed != 100 {
		t.Errorf("%+v", a)
	}
	b = books(told(1, 2*skew, 2*skew+1, Alloc, 0x1000, 100), told(2, 10, 20, Free, 0x1000, 0))
	if a := b.Account(own); a.Why == "" || a.VRAM() != 100 {
		t.Errorf("a free of long before is taken for one of this: %+v", a)
	}
}

// Promise: physical memory outlives its handle while it is mapped, also where its handle
// was given out anew, and what is not of a GPU is none of it.
func TestPhysicalMemoryOutlivesItsHandle(t *testing.T) {
	create := func(from int64, handle, bytes, where uint64) *Record {
		r := told(1, from, from+5, Create, handle, bytes)
		r.Other = where
		return r
	}
	mapped := told(1, 20, 25, Map, 0x1000, 100)
	mapped.Other = 7
	b := books(create(10, 7, 100, 1), mapped, told(1, 30, 35, Release, 7, 0), create(40, 7, 50, 1), create(50, 8, 30, 2))
	if a := b.Account(own); a.Held[Physical] != 150 || a.Held[Hosted] != 30 || a.VRAM() != 150 || a.Why != "" {
		t.Errorf("%+v", a)
	}
	b.Take(told(1, 60, 65, Unmap, 0x1000, 100))
	b.Take(told(1, 70, 75, Release, 8, 0))
	if a := b.Account(own); a.VRAM() != 50 || a.Held[Hosted] != 0 || a.Allocated != 180 || a.Freed != 130 || a.Why != "" {
		t.Errorf("%+v", a)
	}
	if n := b.From(own, 0x1000); n != 0 {
		t.Errorf("%d bytes where nothing is mapped", n)
	}
}

// Promise: memory from an address on is counted over what touches, and no further.
func TestMemoryFromAnAddressOn(t *testing.T) {
	b := books(told(1, 10, 20, Alloc, 0x1000, 0x1000), told(1, 30, 40, Alloc, 0x2000, 0x800), told(1, 50, 60, Alloc, 0x3000, 1), told(1, 70, 80, Reserve, 0x8000, 1<<40))
	for at, want := range map[uint64]uint64{0xfff: 0, 0x1000: 0x1800, 0x17ff: 0x1001, 0x27ff: 1, 0x2800: 0, 0x3000: 1, 0x3001: 0, 0x8000: 0, 1 << 63: 0} {
		if n := b.From(own, at); n != want {
			t.Errorf("%#x bytes from %#x on, want %#x", n, at, want)
		}
	}
	b.Take(told(1, 90, 95, Free, 0x2000, 0))
	if n := b.From(own, 0x1000); n != 0x1000 {
		t.Errorf("%#x bytes once its neighbour is freed", n)
	}
}

// Promise: a process is not known until it is said that all of it is seen, and never
// again once something of it was not; one that begins anew is.
func TestWhatWasNotSeenIsNotKnown(t *testing.T) {
	b := NewBooks()
	b.Watched(own)
	b.Take(told(1, 10, 20, Alloc, 0x1000, 1))
	if a := b.Account(own); a.Why == "" || a.VRAM() != 1 {
		t.Errorf("before it is said: %+v", a)
	}
	if b.Attached(own, ""); b.Account(own).Why != "" {
		t.Errorf("once it is said: %+v", b.Account(own))
	}
	b.Attached(own, "another copy of the driver is not attached to")
	b.Attached(own, "")
	if a := b.Account(own); !strings.HasPrefix(a.Why, "another copy") {
		t.Errorf("%+v", a)
	}
	for _, kind := range []Kind{Unfollowed, Unknown, ContextEnd} {
		if b := books(told(1, 10, 20, Alloc, 1, 1), told(1, 30, 40, kind, 0, 0)); b.Account(own).Why == "" {
			t.Errorf("kind %d leaves it known", kind)
		}
	}
	if b := books(told(1, 10, 20, ContextEnd, 0, 0)); b.Account(own).Why != "" {
		t.Errorf("a context without memory: %+v", b.Account(own))
	}
	b.Lost("lost")
	b.Watched(own)
	if b.Attached(own, ""); b.Account(own).Why != "lost" {
		t.Errorf("watched while something may be lost: %+v", b.Account(own))
	}
	b.Trust()
	b.Watched(own)
	b.Attached(own, "")
	if a := b.Account(own); a.Why != "" || a.VRAM() != 0 || b.kept != 0 {
		t.Errorf("begun anew: %+v, %d kept", a, b.kept)
	}
}

// Promise: memory that another process opens is told with its size as its owner's books
// have it, and no more once that process has ended.
func TestLentMemoryIsTold(t *testing.T) {
	b := books(told(1, 10, 20, Alloc, 0x1000, 4096))
	open := Record{T: 30, PID: other, Kind: Open, Owner: own, Base: 0x9000, Other: 0x1000}
	if o := b.Take(&open); o == nil || *o != (Opened{own, other, 4096}) {
		t.Errorf("%+v", o)
	}
	shut := open
	shut.Kind = Close
	if o := b.Take(&shut); o == nil || o.Bytes != 0 {
		t.Errorf("%+v", o)
	}
	open.Other = 0x5000 // it is not known how large that is
	if o := b.Take(&open); o == nil || o.Bytes != 1 {
		t.Errorf("%+v", o)
	}
	b.Ended(other)
	if n := len(b.processes[own].loans); n != 0 {
		t.Errorf("%d loans to who has ended", n)
	}
	if open.Owner = 99; b.Take(&open) != nil || len(b.processes) != 1 {
		t.Error("who is not watched has books")
	}
}

// Promise: what is kept is bounded.
func TestTheBooksAreBounded(t *testing.T) {
	b := books()
	for n := range uint64(MaxKept + 10) {
		b.Take(told(uint32(n), int64(n), int64(n), Alloc, n, 1))
	}
	if a := b.Account(own); b.kept != MaxKept || !strings.Contains(a.Why, "more memory than can be followed") || len(b.processes[own].last) > MaxThreads {
		t.Errorf("%d kept, %d threads: %+v", b.kept, len(b.processes[own].last), a)
	}
	for pid := range uint32(2 * MaxProcesses) {
		b.Watched(pid)
	}
	if len(b.processes) != MaxProcesses {
		t.Errorf("%d processes", len(b.processes))
	}
}

// Whatever records there are: no panic, nothing beyond the bounds, and what is kept is
// what is counted.
func FuzzBooks(f *testing.F) {
	seed := make([]byte, 3*RecordBytes)
	for i, kind := range []Kind{Create, Map, Unmap} {
		binary.NativeEndian.PutUint16(seed[i*RecordBytes+16:], uint16(kind))
		binary.NativeEndian.PutUint32(seed[i*RecordBytes+ProcessAt:], own)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, data []byte) {
		b := books()
		b.Watched(other)
		for ; len(data) >= RecordBytes; data = data[RecordBytes:] {
			r, err := Parse(data[:RecordBytes])
			if err != nil {
				continue
			}
			r.PID = own + (r.PID&1)*(other-own) // else nobody has books
			b.Take(&r)
			b.From(r.PID, r.Base)
		}
		kept := 0
		for _, p := range b.processes {
			for _, lives := range p.live {
				kept += len(lives)
			}
			if len(p.lent) > MaxLent || len(p.loans) > MaxLoans || len(p.foreign) > MaxPools {
				t.Errorf("%d lent, %d loans, %d pools of others", len(p.lent), len(p.loans), len(p.foreign))
			}
		}
		if kept != b.kept || kept > MaxKept {
			t.Errorf("%d kept, %d counted", kept, b.kept)
		}
	})
}
