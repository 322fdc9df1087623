package cuda

import "testing"

// Promise: a copy within another of the same memory is the same copy, whichever ways the
// driver's functions go; two of the same memory one after the other are two.
func TestACopyWithinAnotherIsTheSameCopy(t *testing.T) {
	copies := func(thread uint32, entered, returned int64, to uint64) *Record {
		return &Record{T: returned, Entered: entered, PID: own, TID: thread, Kind: Copy, Base: to, Other: 0x9000, Bytes: 64}
	}
	var c Copies
	for n, of := range []struct {
		r    *Record
		same bool // as one that was told
	}{
		{copies(1, 12, 14, 0x1000), false},
		{copies(2, 11, 15, 0x1000), false}, // another thread's
		{copies(1, 11, 16, 0x1000), true},
		{copies(1, 11, 17, 0x1000), true}, // by a jump
		{copies(1, 20, 22, 0x1000), false},
		{copies(1, 19, 24, 0x2000), false}, // of other memory
	} {
		if c.New(of.r) == of.same {
			t.Errorf("%d, %+v: the same %v", n, *of.r, !of.same)
		}
	}
	c.New(copies(1, 30, 35, 0x1000))
	for thread := range uint32(MaxThreads + 10) {
		c.New(copies(10+thread, 40, 50, 1))
	}
	if c.New(copies(1, 29, 60, 0x1000)) || len(c.last) > MaxThreads || len(c.before) > MaxThreads {
		t.Errorf("forgotten after %d threads, of %d and %d kept", MaxThreads+10, len(c.last), len(c.before))
	}
}
