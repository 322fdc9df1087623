package publish

import (
	"testing"

	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/scheduler"
)

// Promise: what was told is sent at once when the engine pauses; where there is nothing
// to tell, or the goroutine that tells was woken already, nobody is woken.
func TestAFlushWakesWhoTellsOnce(t *testing.T) {
	tell := newTeller(Identity{QueueEvents: 8, QueueRuns: 8})
	woken := func() bool {
		select {
		case <-tell.q.wake:
			return true
		default:
			return false
		}
	}
	if tell.Flush(); woken() {
		t.Error("it is woken for nothing")
	}
	for range 2 {
		tell.PeerGone(kvcache.At{}, scheduler.Peer("p"))
		if woken() {
			t.Fatal("it is woken by an event alone, while it comes by itself")
		}
		if tell.Flush(); !woken() {
			t.Error("it is not woken")
		}
		if tell.Flush(); woken() {
			t.Error("it is woken a second time for the same")
		}
		tell.q.swap(events{})
	}
	if tell.q.sleep(); !tell.q.asleep {
		t.Fatal("it does not sleep")
	}
	tell.PeerGone(kvcache.At{}, scheduler.Peer("p"))
	if !woken() {
		t.Error("who sleeps is not woken by an event")
	}
}
