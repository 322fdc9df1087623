package zmtp

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// changeWindow is within how long a subscriber may change its subscriptions
// 2 × max times: each change costs the publisher's process a pass over all of
// them.
const changeWindow = 10 * time.Second

// subscriptions are the prefixes that one subscriber asked for. One goroutine,
// the reader of that peer, changes them; any goroutine may match, without a
// lock and in logarithmic time, so that a subscriber with many prefixes does
// not slow the publisher.
type subscriptions struct {
	max      int
	maxBytes int

	count  map[string]int // how often each was asked for
	sorted []string       // each of them once
	total  int

	window  time.Time // when changes began to be counted
	changes int
	// cover holds the prefixes that no other prefix covers, sorted. The one
	// that matches a topic, if any, is then the last that is not above it.
	cover atomic.Pointer[[]string]
}

// change makes the peer's change at now, or says why it may not be made.
func (s *subscriptions) change(now time.Time, on bool, prefix []byte) error {
	if now.Sub(s.window) >= changeWindow {
		s.window, s.changes = now, 0
	}
	if s.changes++; s.changes > 2*s.max {
		return fmt.Errorf("change subscriptions more than %d times in %v: %w", 2*s.max, changeWindow, ErrTooLarge)
	}
	if on {
		return s.add(prefix)
	}
	s.remove(prefix)
	return nil
}

func (s *subscriptions) add(prefix []byte) error {
	if len(prefix) > s.maxBytes {
		return fmt.Errorf("subscribe to a prefix of %d bytes, at most %d: %w", len(prefix), s.maxBytes, ErrTooLarge)
	}
	if s.total == s.max {
		return fmt.Errorf("subscribe more than %d times: %w", s.max, ErrTooLarge)
	}
	if s.count == nil {
		s.count = make(map[string]int)
	}
	p := string(prefix)
	s.total++
	s.count[p]++
	if s.count[p] == 1 {
		at, _ := slices.BinarySearch(s.sorted, p)
		s.sorted = slices.Insert(s.sorted, at, p)
		s.recut()
	}
	return nil
}

// remove takes one subscription back; one that was never made is ignored, as
// libzmq ignores it.
func (s *subscriptions) remove(prefix []byte) {
	p := string(prefix)
	if s.count[p] == 0 {
		return
	}
	s.total--
	s.count[p]--
	if s.count[p] == 0 {
		delete(s.count, p)
		at, _ := slices.BinarySearch(s.sorted, p)
		s.sorted = slices.Delete(s.sorted, at, at+1)
		s.recut()
	}
}

// recut makes the cover anew. In sorted order a prefix stands right before
// all that it covers.
func (s *subscriptions) recut() {
	kept := make([]string, 0, len(s.sorted))
	for _, p := range s.sorted {
		if len(kept) == 0 || !strings.HasPrefix(p, kept[len(kept)-1]) {
			kept = append(kept, p)
		}
	}
	s.cover.Store(&kept)
}

func (s *subscriptions) match(topic []byte) bool {
	cover := s.cover.Load()
	if cover == nil {
		return false
	}
	lo, hi := 0, len(*cover)
	for lo < hi {
		if mid := (lo + hi) / 2; (*cover)[mid] <= string(topic) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return false
	}
	p := (*cover)[lo-1]
	return len(topic) >= len(p) && string(topic[:len(p)]) == p
}
