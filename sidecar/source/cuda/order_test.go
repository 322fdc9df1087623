package cuda

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// step is how far a thread of a schedule is within its call.
type step uint8

const (
	idle   step = iota
	begun       // the driver has done nothing yet
	acted       // it has, and the call has not returned
	within      // it has within a function that another called, which has not returned
)

// caller is a thread of a schedule.
type caller struct {
	step    step
	call    Record
	entered int64 // of the function that called it, if one did
}

// schedule is a driver that gives out again at once what is freed, and threads that are
// held up anywhere in their calls.
type schedule struct {
	*rand.Rand
	books   *Books
	now     int64
	threads []caller
	free    []uint64 // addresses, the last freed at the end
	held    map[uint64]uint64
	mine    []uint64 // what a program may free: its allocation has returned

	allocated, freed uint64
}

// run lets one thread go one step.
func (s *schedule) run(id int) {
	c := &s.threads[id]
	s.now += 1 + s.Int64N(50)
	switch c.step {
	case idle:
		s.begin(id, c)
	case begun:
		s.act(c)
		c.step = acted
	case acted:
		s.tell(c)
		if c.entered == 0 {
			s.end(c)
			return
		}
		c.call.Entered, c.entered, c.step = c.entered, 0, within
	case within:
		s.tell(c)
		s.end(c)
	}
}

func (s *schedule) begin(id int, c *caller) {
	c.call = Record{PID: own, TID: uint32(id), Kind: Alloc, Bytes: 1 + s.Uint64N(1000), Entered: s.now}
	if s.Int64N(2) == 0 && len(s.mine) > 0 {
		i := s.IntN(len(s.mine))
		c.call.Kind, c.call.Base, c.call.Bytes = Free, s.mine[i], 0
		s.mine = slices.Delete(s.mine, i, i+1)
	} else if len(s.free) == 0 {
		return
	}
	if c.step = begun; s.Int64N(3) == 0 {
		c.entered = s.now
		s.now++
		c.call.Entered = s.now
	}
}

// act is what the driver does.
func (s *schedule) act(c *caller) {
	if c.call.Kind == Free {
		s.freed += s.held[c.call.Base]
		delete(s.held, c.call.Base)
		s.free = append(s.free, c.call.Base)
		return
	}
	if len(s.free) == 0 {
		c.call.Kind = Export // it was in want of addresses, and failed: no record of memory
		return
	}
	c.call.Base = s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	s.held[c.call.Base] = c.call.Bytes
	s.allocated += c.call.Bytes
}

func (s *schedule) tell(c *caller) {
	r := c.call
	r.T = s.now
	s.books.Take(&r)
}

func (s *schedule) end(c *caller) {
	if c.step = idle; c.call.Kind == Alloc {
		s.mine = append(s.mine, c.call.Base)
	}
	c.entered = 0
}

// Promise: however threads are held up in their calls, over few addresses, what they hold
// adds up to the byte once those that free have returned, and is told unknown for nothing
// but those.
func TestWhereverThreadsAreHeldUpItAddsUp(t *testing.T) {
	for seed := range uint64(40) {
		s := schedule{Rand: rand.New(rand.NewPCG(seed, 1)), books: books(), threads: make([]caller, 8), held: map[uint64]uint64{}}
		for n := range 1 + s.Uint64N(12) {
			s.free = append(s.free, 0x1000*(n+1))
		}
		for range 500 {
			id := s.IntN(len(s.threads))
			for range 1 + s.IntN(40) { // the others are held up
				s.run(id)
			}
			if why := s.books.Account(own).Why; why != "" && why != unreturned {
				t.Fatalf("seed %d: %s", seed, why)
			}
		}
		for id := range s.threads {
			for s.threads[id].step != idle {
				s.run(id)
			}
		}
		if a := s.books.Account(own); a.Why != "" || a.Allocated != s.allocated || a.Freed != s.freed || a.VRAM() != s.allocated-s.freed {
			t.Fatalf("seed %d: %+v; %d bytes allocated and %d freed", seed, a, s.allocated, s.freed)
		}
	}
}
