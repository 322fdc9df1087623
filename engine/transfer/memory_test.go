package transfer

import (
	"bytes"
	"errors"
	"math"
	"sync"
	"testing"
	"time"
)

func TestBytesMoveOnlyWithinARegion(t *testing.T) {
	var m Memory
	arena := make([]byte, 300)
	a, err := m.Register(arena[:100], nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Register(arena[100:200], nil); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		addr, size uint64
		ok         bool
	}{
		"all":                {a.Base, 100, true},
		"last byte":          {a.Base + 99, 1, true},
		"second region":      {a.Base + 100, 100, true},
		"straddles two":      {a.Base + 90, 20, false},
		"straddles the end":  {a.Base + 199, 2, false},
		"one before":         {a.Base - 1, 2, false},
		"after":              {a.Base + 200, 1, false},
		"null":               {0, 1, false},
		"empty":              {a.Base, 0, false},
		"2^63":               {a.Base, 1 << 63, false},
		"wraps":              {a.Base, math.MaxUint64, false},
		"wraps to the start": {a.Base + 1, math.MaxUint64 - a.Base, false},
		"top":                {math.MaxUint64, 1, false},
	} {
		if err := m.Check(c.addr, c.size); (err == nil) != c.ok || !c.ok && !errors.Is(err, ErrOutside) {
			t.Errorf("%s: %v, want ok %v", name, err, c.ok)
		}
	}
	if err := m.Put(a.Base+98, []byte("xyz")); !errors.Is(err, ErrOutside) || !bytes.Equal(arena, make([]byte, 300)) {
		t.Errorf("a write across two regions: %v, and memory changed: %v", err, !bytes.Equal(arena, make([]byte, 300)))
	}
	if err := m.Put(a.Base+10, []byte("xyz")); err != nil || string(arena[10:13]) != "xyz" {
		t.Errorf("write: %v, memory %q", err, arena[10:13])
	}
	got := make([]byte, 3)
	if err := m.Get(a.Base+10, got); err != nil || string(got) != "xyz" {
		t.Errorf("read: %v, %q", err, got)
	}
}

func TestOverlappingRegionsAreRefused(t *testing.T) {
	var m Memory
	arena := make([]byte, 300)
	r, err := m.Register(arena[100:200], nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{arena, arena[100:200], arena[50:101], arena[199:], arena[120:130]} {
		if _, err := m.Register(b, nil); !errors.Is(err, ErrOverlap) {
			t.Errorf("%d bytes at %d: %v, want ErrOverlap", len(b), AddressOf(b)-AddressOf(arena), err)
		}
	}
	if _, err := m.Register(nil, nil); !errors.Is(err, ErrOutside) {
		t.Errorf("nothing: %v", err)
	}
	if err := m.Deregister(r.Base + 1); !errors.Is(err, ErrOutside) {
		t.Errorf("deregister an inner address: %v", err)
	}
	if err := m.Deregister(r.Base); err != nil || len(m.Regions()) != 0 {
		t.Errorf("deregister: %v, left %v", err, m.Regions())
	}
}

// When Deregister has returned, the memory belongs to its owner alone: the
// race detector sees a copy that still runs.
func TestDeregisterWaitsForCopies(t *testing.T) {
	for range 50 {
		var m Memory
		b := make([]byte, 1<<16)
		r, err := m.Register(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			for m.Put(r.Base, bytes.Repeat([]byte{1}, len(b))) == nil {
			}
		})
		time.Sleep(100 * time.Microsecond)
		if err := m.Deregister(r.Base); err != nil {
			t.Fatal(err)
		}
		clear(b)
		wg.Wait()
		if !bytes.Equal(b, make([]byte, len(b))) {
			t.Fatal("a byte was written after Deregister had returned")
		}
	}
}

func TestTheGuardIsHeldWhileBytesAreCopied(t *testing.T) {
	var m Memory
	var guard sync.Mutex
	b := make([]byte, 16)
	r, err := m.Register(b, &guard)
	if err != nil {
		t.Fatal(err)
	}
	guard.Lock()
	done := make(chan error, 1)
	go func() { done <- m.Put(r.Base, []byte("late")) }()
	time.Sleep(20 * time.Millisecond)
	if string(b[:4]) == "late" {
		t.Error("written while the owner held the guard")
	}
	guard.Unlock()
	if err := <-done; err != nil || string(b[:4]) != "late" {
		t.Errorf("%v, memory %q", err, b[:4])
	}
}
