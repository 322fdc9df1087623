package ucp

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The processes of the tests: the owner of memory, and who moves bytes.
const (
	owner, mover    = 11, 22
	ownWorker       = 0x100
	worker          = 0x200
	endpoint, other = 0x300, 0x301
)

func id(n byte) ID { return ID{0x20, n} }

// world is what is known, and what was said to be over.
type world struct {
	*Paths
	over []string
}

func newWorld(ends bool) *world {
	w := &world{Paths: NewPaths()}
	for _, pid := range []uint32{owner, mover} {
		w.Attached(pid, "", ends)
	}
	w.take(Worker{Head{PID: owner}, ownWorker, id(1)})
	w.take(Made{Head{PID: mover}, endpoint, worker, true, id(1)})
	w.take(Made{Head{PID: mover}, other, worker, true, id(1)})
	return w
}

func (w *world) take(r any) {
	take(w.Paths, r, func(e *Endpoint, x Extent, ok bool) {
		w.over = append(w.over, fmt.Sprintf("%x:%d:%v", e.Endpoint, x.Remote, ok))
	})
}

func (w *world) move(e uint64, at uint64, op Op, returned Returned) {
	w.take(Moved{Head{PID: mover}, e, at, 0, 8, returned, op})
}

func (w *world) flush(what uint64, ofWorker bool, returned Returned) {
	w.take(Flushed{Head{PID: mover}, what, ofWorker, returned})
}

func (w *world) done(request uint64, failed bool) { w.take(Done{Head{PID: mover}, request, failed}) }

const failed = Returned(1<<64 - 3)

// Promise: an endpoint leads to the process that was told the address from which it
// was made, and only if that is one; else it is said why it is not known.
func TestAnEndpointLeadsWhereItsAddressComesFrom(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(*world)
		pid  uint32
		says string
	}{
		"as it is":                    {func(*world) {}, owner, ""},
		"asked for again":             {func(w *world) { w.take(Worker{Head{PID: owner}, ownWorker, id(1)}) }, owner, ""},
		"made unseen":                 {func(w *world) { w.take(About{Head{PID: mover}, KindEndpointGone, endpoint}) }, 0, "made unseen"},
		"its worker ended":            {func(w *world) { w.take(About{Head{PID: mover}, KindWorkerGone, worker}) }, 0, "made unseen"},
		"records were lost":           {func(w *world) { w.Distrust() }, 0, "made unseen"},
		"the owner's worker ended":    {func(w *world) { w.take(About{Head{PID: owner}, KindWorkerGone, ownWorker}) }, 0, "another node"},
		"the owner ended":             {func(w *world) { w.Gone(owner) }, 0, "another node"},
		"another tells that address":  {func(w *world) { w.take(Worker{Head{PID: 33}, 1, id(1)}) }, 0, "several"},
		"and has ended":               {func(w *world) { w.take(Worker{Head{PID: 33}, 1, id(1)}); w.Gone(33) }, owner, ""},
		"an address that nobody told": {func(w *world) { w.take(Made{Head{PID: mover}, endpoint, worker, true, id(9)}) }, 0, "another node"},
		"of a socket":                 {func(w *world) { w.take(Made{Head{PID: mover}, endpoint, worker, false, ID{}}) }, 0, "socket"},
		"of an address that is not there": {func(w *world) {
			w.take(Made{Head{PID: mover, Flags: Unreadable}, endpoint, worker, true, ID{}})
		}, 0, "could not be read"},
		"two workers tell one address, and one ends": {func(w *world) {
			w.take(Worker{Head{PID: owner}, 5, id(1)})
			w.take(About{Head{PID: owner}, KindWorkerGone, 5})
		}, owner, ""},
	} {
		w := newWorld(false)
		c.do(w)
		pid, why := w.Leads(w.Find(mover, endpoint))
		if pid != c.pid || (why == "") != (c.says == "") || !strings.Contains(why, c.says) {
			t.Errorf("%s: leads to %d, %q, want %d, %q", name, pid, why, c.pid, c.says)
		}
	}
}

// Promise: a process with UCX is blind until all of it is attached to, and for good
// once it has a way around; one without is not.
func TestAProcessIsBlindWithItsReason(t *testing.T) {
	w := newWorld(false)
	if why := w.Blind(33); why != "" || w.Uses(33) {
		t.Errorf("a process without UCX: %q", why)
	}
	w.take(Made{Head{PID: 33}, 1, 2, true, id(1)})
	if why := w.Blind(33); why != unattached || !w.Uses(33) {
		t.Errorf("one that is not attached to: %q", why)
	}
	w.Attached(33, "", false)
	if why := w.Blind(33); why != "" {
		t.Errorf("one that is: %q", why)
	}
	w.Attached(33, "no right to", false)
	if why := w.Blind(33); why != "no right to" {
		t.Errorf("one that cannot be: %q", why)
	}
	w.Bypassed(33)
	w.Attached(33, "", false)
	if why := w.Blind(33); !strings.Contains(why, "by itself") {
		t.Errorf("one with a way around: %q", why)
	}
	w.Gone(33)
	if w.Uses(33) {
		t.Error("one that has ended is remembered")
	}
}

// Promise: what was put is over when a flush that began after it has ended, of its
// endpoint or worker; what was got when its request is; what failed is told as
// failed, and nothing is over twice.
func TestBytesAreOverWhenTheyAre(t *testing.T) {
	for name, c := range map[string]struct {
		blind bool // completions are not seen
		do    func(*world)
		want  []string
	}{
		"a put that returned at once": {false, func(w *world) { w.move(endpoint, 1, Put, 0) }, nil},
		"a get that returned at once": {false, func(w *world) { w.move(endpoint, 1, Get, 0); w.flush(endpoint, false, 0) }, nil}, // it was told so
		"one that failed":             {false, func(w *world) { w.move(endpoint, 1, Put, failed); w.flush(endpoint, false, 0) }, nil},
		"a flush at once": {true, func(w *world) {
			w.move(endpoint, 1, Put, 0)
			w.move(endpoint, 2, Put, 70)
			w.move(other, 3, Put, 0)
			w.flush(endpoint, false, 0)
			w.flush(endpoint, false, 0)
		}, []string{"300:1:true", "300:2:true"}},
		"a worker's flush at once": {true, func(w *world) {
			w.move(other, 3, Put, 0)
			w.move(endpoint, 1, Put, 0)
			w.flush(worker, true, 0)
		}, []string{"300:1:true", "301:3:true"}},
		"another worker's":    {true, func(w *world) { w.move(endpoint, 1, Put, 0); w.flush(ownWorker, true, 0) }, nil},
		"a flush that failed": {true, func(w *world) { w.move(endpoint, 1, Put, 0); w.flush(endpoint, false, failed) }, nil},
		"a flush that is under way": {false, func(w *world) {
			w.move(endpoint, 1, Put, 0)
			w.flush(endpoint, false, 80)
		}, nil},
		"and has ended, with what came before it": {false, func(w *world) {
			w.move(endpoint, 1, Put, 0)
			w.flush(endpoint, false, 80)
			w.move(endpoint, 2, Put, 0)
			w.done(80, false)
			w.done(80, false)
		}, []string{"300:1:true"}},
		"and has failed": {false, func(w *world) {
			w.move(endpoint, 1, Put, 0)
			w.flush(endpoint, false, 80)
			w.done(80, true)
		}, nil},
		"and nobody sees it end": {true, func(w *world) {
			w.move(endpoint, 1, Put, 0)
			w.flush(endpoint, false, 80)
			w.done(80, false)
			w.flush(endpoint, false, 0)
		}, nil},
		"a put's request":  {false, func(w *world) { w.move(endpoint, 1, Put, 70); w.done(70, false) }, nil},
		"and then a flush": {false, func(w *world) { w.move(endpoint, 1, Put, 70); w.done(70, false); w.flush(endpoint, false, 0) }, []string{"300:1:true"}},
		"that failed": {false, func(w *world) {
			w.move(endpoint, 1, Put, 70)
			w.done(70, true)
			w.flush(endpoint, false, 0)
		}, []string{"300:1:false"}},
		"a get's request": {false, func(w *world) {
			w.move(endpoint, 1, Get, 70)
			w.move(endpoint, 2, Get, 71)
			w.done(71, false)
			w.done(70, false)
			w.flush(endpoint, false, 0)
		}, []string{"300:2:true", "300:1:true"}},
		"a request of another kind": {false, func(w *world) { w.move(endpoint, 1, Get, 70); w.done(99, false) }, nil},
	} {
		w := newWorld(!c.blind)
		c.do(w)
		if !slices.Equal(w.over, c.want) {
			t.Errorf("%s: over are %q, want %q", name, w.over, c.want)
		}
	}
}

// Promise: all that is remembered is bounded, and what was beyond is counted.
func TestWhatIsRememberedIsBounded(t *testing.T) {
	w := newWorld(true)
	for i := range uint64(2 * MaxOutstanding) {
		w.move(endpoint, i, Put, Returned(1<<20+i))
	}
	if n := len(w.Find(mover, endpoint).waiting); n > MaxOutstanding {
		t.Errorf("%d moves wait", n)
	}
	for i := range uint64(2 * MaxRequests) {
		w.flush(endpoint, false, Returned(1<<20+i))
	}
	if n := len(w.processes[mover].requests); n > MaxRequests {
		t.Errorf("%d requests wait", n)
	}
	for i := range uint64(2 * MaxWorkers) {
		w.take(Worker{Head{PID: owner}, i, ID{1, byte(i), byte(i >> 8)}})
	}
	if n := len(w.told); n > MaxWorkers {
		t.Errorf("%d addresses are known", n)
	}
	for i := range uint64(MaxEndpoints) {
		w.take(Made{Head{PID: mover}, 1<<20 + i, worker, true, id(1)})
	}
	if n := len(w.processes[mover].endpoints); n > MaxEndpoints || !strings.Contains(w.Blind(mover), "endpoints") {
		t.Errorf("%d endpoints are known, blind: %q", n, w.Blind(mover))
	}
	for pid := range uint32(MaxProcesses + 1) {
		w.Attached(1000+pid, "", false)
	}
	if len(w.processes) > MaxProcesses {
		t.Errorf("%d processes are known", len(w.processes))
	}
	if w.Forgotten() == 0 {
		t.Error("nothing is counted")
	}
}
