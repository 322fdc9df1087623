package publish

import (
	"slices"
	"testing"

	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/lifecycle"
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

// heard is an output that keeps which events were said.
type heard []lifecycle.Ev

func (h *heard) say(f *lifecycle.Fact) { *h = append(*h, f.Ev) }

// Promise: pages that are released while a transfer names them are told as released
// once the engine pauses, and do not wait for what it says next; but where the pool
// keeps them until the drain, they are held until then.
func TestAReleaseWithoutADrainIsToldWhenTheEnginePauses(t *testing.T) {
	for name, drains := range map[string]bool{"without": false, "with a drain": true} {
		id := Identity{Instance: "e", Now: func() int64 { return 1 }}
		if err := id.complete(); err != nil {
			t.Fatal(err)
		}
		tell, said := newTeller(id), heard{}
		pool, err := tell.PoolEvents("kv", lifecycle.PoolSpec{Pages: 8, PageTokens: 16})
		if err != nil {
			t.Fatal(err)
		}
		enc := newEncoder(id, &said)
		listen := func() {
			tell.Flush()
			half := tell.q.swap(events{})
			enc.tellAll(&half)
		}
		r, pages := scheduler.Info{Req: 1, Room: 1}, []kvcache.Run{{First: 1, Count: 2}}
		tell.Admitted(kvcache.At{}, r, 0)
		pool.Reserved(kvcache.At{}, 1, pages)
		tell.TransferStarted(kvcache.At{}, r, 1, scheduler.Receiver, "p", []kvcache.PageID{1, 2})
		listen()
		pool.Released(kvcache.At{}, 1, pages)
		if drains {
			tell.Protected(kvcache.At{}, scheduler.DrainBeforeRelease, false)
		}
		listen()
		if told := slices.Contains(said, lifecycle.PagesReleased); told == drains {
			t.Errorf("%s: the release is told: %v", name, told)
		}
		tell.TransferDrained(kvcache.At{}, 1, 1, scheduler.Receiver, "p")
		listen()
		if n := len(said) - len(slices.DeleteFunc(slices.Clone(said), func(ev lifecycle.Ev) bool { return ev == lifecycle.PagesReleased })); n != 1 {
			t.Errorf("%s: the release is told %d times: %v", name, n, said)
		}
	}
}
