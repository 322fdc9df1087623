package cuda

import "testing"

// lending is a process that is known, and what it lends.
type lending struct {
	*Books
	t   *testing.T
	now int64
}

func lends(t *testing.T) *lending { return &lending{Books: books(), t: t} }

// calls has a process make a call, and returns its record.
func (l *lending) calls(pid uint32, kind Kind, base, other uint64) (*Record, *Opened) {
	l.now += 10
	r := &Record{T: l.now + 5, Entered: l.now, PID: pid, TID: pid, Kind: kind, Base: base, Bytes: 4096, Other: other}
	return r, l.Take(r)
}

// creates has the process create memory, and lend it; lent names that.
func (l *lending) creates(handle, where uint64) (lent uint64) {
	l.calls(own, Create, handle, where)
	r, _ := l.calls(own, Lend, handle, 0)
	return uint64(r.T)
}

// imports has another process import what was lent, and expects how much it has open
// then; 0: nothing is told.
func (l *lending) imports(what string, kind Kind, handle, lent, want uint64) {
	l.t.Helper()
	l.now += 10
	o := l.Take(&Record{T: l.now + 5, Entered: l.now, PID: other, TID: other, Kind: kind, Owner: own, Base: handle, Other: lent})
	switch {
	case want == 0 && o != nil:
		l.t.Errorf("%s: told %+v", what, *o)
	case want != 0 && (o == nil || *o != Opened{own, other, want}):
		l.t.Errorf("%s: told %+v, want %d bytes", what, o, want)
	}
}

const onGPU, onHost = 1, 2

// Promise: physical memory that another process imports is told with its size, each piece
// once, also when its owner has let go of it.
func TestLentPhysicalMemoryIsTold(t *testing.T) {
	l := lends(t)
	first, second := l.creates(7, onGPU), l.creates(8, onGPU)
	l.imports("one", Import, 1, first, 4096)
	l.imports("the same again", Import, 2, first, 4096)
	l.calls(own, Release, 8, 0)
	l.imports("another", Import, 3, second, 8192)
	pool, _ := l.calls(own, LendPool, 9, 0)
	l.imports("a pool, of at least one byte", ImportPool, 4, uint64(pool.T), 8193)
	if l.Ended(other); len(l.processes[own].loans) != 0 {
		t.Error("who has ended has loans")
	}
}

// Promise: what is not known to be the process's own memory of a GPU accuses nobody:
// another's that it passed on, memory elsewhere, what it lent while not all of it was
// seen, and what is not known to have been lent.
func TestMemoryThatIsNotKnownToBeItsOwnAccusesNobody(t *testing.T) {
	l := lends(t)
	l.calls(own, Import, 7, 0)
	r, _ := l.calls(own, Lend, 7, 0)
	l.imports("memory of others", Import, 1, uint64(r.T), 0)
	l.calls(own, ImportPool, 9, 0)
	r, _ = l.calls(own, LendPool, 9, 0)
	l.imports("a pool of others", ImportPool, 2, uint64(r.T), 0)
	l.calls(own, Group, 10, 0)
	r, _ = l.calls(own, Lend, 10, 0)
	l.imports("a group", Import, 3, uint64(r.T), 0)
	l.imports("memory of the host", Import, 4, l.creates(11, onHost), 0)
	l.imports("at another time", Import, 5, l.creates(12, onGPU)+1, 0)
	r, _ = l.calls(own, Lend, 99, 0)
	l.imports("a handle that it was not seen to get", Import, 6, uint64(r.T), 0)
	for n := range uint64(MaxPools) {
		l.calls(own, ImportPool, 100+n, 0)
	}
	r, _ = l.calls(own, LendPool, 5000, 0)
	l.imports("a pool, where it has more of others than are followed", ImportPool, 7, uint64(r.T), 0)
	if a := l.Account(own); a.Why != "" {
		t.Errorf("%+v", a)
	}
	before := l.creates(13, onGPU)
	l.Lost("lost")
	l.imports("lent while it was known", Import, 8, before, 4096)
	l.imports("lent when it was not", Import, 9, l.creates(14, onGPU), 0)
	r, _ = l.calls(own, LendPool, 15, 0)
	l.imports("a pool then", ImportPool, 10, uint64(r.T), 0)
}

// Promise: memory that a process imports is its own only where it lent it itself, and then
// it is the same memory; of watched processes it is borrowed.
func TestImportedMemoryIsCountedOnce(t *testing.T) {
	l := lends(t)
	l.Watched(other)
	l.Attached(other, "")
	lent := l.creates(7, onGPU)
	for _, pid := range []uint32{own, other} {
		l.now += 10
		l.Take(&Record{T: l.now + 5, Entered: l.now, PID: pid, TID: pid, Kind: Import, Owner: own, Base: 8, Other: lent})
	}
	l.calls(own, Release, 7, 0)
	if a := l.Account(own); a.VRAM() != 4096 || a.Allocated != 4096 || a.Freed != 0 || a.Why != "" {
		t.Errorf("%+v", a)
	}
	if a := l.Account(other); a.VRAM() != 0 || a.Held[Borrowed] != 4096 || a.Allocated != 0 || a.Why != "" {
		t.Errorf("%+v", a)
	}
	l.calls(own, Release, 8, 0)
	l.calls(other, Release, 8, 0)
	if a, b := l.Account(own), l.Account(other); a.VRAM() != 0 || a.Freed != 4096 || b.Held[Borrowed] != 0 || a.Why != "" || b.Why != "" {
		t.Errorf("%+v, %+v", a, b)
	}
}

// Promise: what was lent is remembered to a bound, the oldest least.
func TestWhatWasLentIsBounded(t *testing.T) {
	l := lends(t)
	oldest := l.creates(7, onGPU)
	var last *Record
	for range 2 * MaxLent {
		last, _ = l.calls(own, Lend, 7, 0)
	}
	if n := len(l.processes[own].lent); n > MaxLent {
		t.Errorf("%d are remembered", n)
	}
	l.imports("the oldest", Import, 1, oldest, 0)
	l.imports("the last", Import, 2, uint64(last.T), 4096)
}
