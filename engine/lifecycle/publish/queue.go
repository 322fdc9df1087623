package publish

import (
	"sync"

	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/scheduler"
)

// What a queue holds at most between two visits of the goroutine that empties
// it. It doubles in memory, since one half is filled while the other is read.
const (
	// DefaultQueueEvents bounds the events.
	DefaultQueueEvents = 1 << 15
	// DefaultQueueRuns bounds the runs of pages, and the keys, of those events.
	DefaultQueueRuns = 1 << 20
)

// kind is what an event is about.
type kind uint8

const (
	poolOpened kind = iota
	pagesReserved
	pagesShared
	pagesWritten
	pagesRead
	pagesCopied
	pagesCached
	pagesReleased
	pagesEvicted
	poolAudit
	requestAdmitted
	requestRejected
	requestAborted
	requestFinished
	transferStarted
	transferCompleted
	transferDrained
	peerGone
	protection
	contentDigest
	afterRelease // the scheduler said that DrainBeforeRelease ran
	pause        // and that it has no more to say for now
)

// part is a stretch of one of a queue's lists.
type part struct{ at, n int }

// event is one call, as it was made. Strings are the caller's: immutable, and
// let go when the event has been told.
type event struct {
	kind  kind
	side  scheduler.Side
	by    kvcache.Writer
	state lifecycle.State
	yes   bool // ok, synthetic
	last  bool
	has   bool // the extent is known
	pool  *Pool
	at    kvcache.At
	req   kvcache.Req
	room  scheduler.Room
	xfer  kvcache.Xfer
	n     [5]int64 // tokens, status, counts
	runs  part
	to    part // of a copy
	keys  part
	name  string // domain, peer, protection
	text  string // reason, digest
}

// events is one half of a queue.
type events struct {
	list []event
	runs []lifecycle.Run
	keys []kvcache.Key
	lost uint64 // events that came after these and did not fit
}

func (e *events) reset() {
	clear(e.list) // lets the strings go
	e.list, e.runs, e.keys, e.lost = e.list[:0], e.runs[:0], e.keys[:0], 0
}

// queue takes events from the engine without waiting.
type queue struct {
	maxEvents, maxRuns int
	wake               chan struct{} // holds one token

	mu     sync.Mutex
	in     events
	asleep bool // nobody looks until wake
	urged  bool // wake was rung, and what is queued not taken yet
	closed bool
	total  uint64 // events accepted
	last   kind   // of the latest of them
	lost   uint64 // events that did not fit, or came after the end
}

func newQueue(maxEvents, maxRuns int) *queue {
	return &queue{maxEvents: maxEvents, maxRuns: maxRuns, wake: make(chan struct{}, 1)}
}

// put queues an event with its pages. Once one does not fit, none does until the
// queue is emptied: what is missing is then one stretch at the end.
func (q *queue) put(e *event, pages, to []kvcache.Run, keys []kvcache.Key) {
	q.mu.Lock()
	if q.fits(len(pages)+len(to), len(keys)) {
		e.runs, e.to = q.keepRuns(pages), q.keepRuns(to)
		e.keys = part{len(q.in.keys), len(keys)}
		q.in.keys = append(q.in.keys, keys...)
		q.add(e)
	}
	ring := q.rings()
	q.mu.Unlock()
	if ring {
		q.ring()
	}
}

// putPages is put for pages that are not runs yet.
func (q *queue) putPages(e *event, pages []kvcache.PageID) {
	q.mu.Lock()
	if q.fits(len(pages), 0) {
		e.runs.at = len(q.in.runs)
		for _, p := range pages {
			if n := len(q.in.runs); n > e.runs.at && q.in.runs[n-1].End() == uint32(p) {
				q.in.runs[n-1].Count++
				continue
			}
			q.in.runs = append(q.in.runs, lifecycle.Run{First: uint32(p), Count: 1})
		}
		e.runs.n = len(q.in.runs) - e.runs.at
		q.add(e)
	}
	ring := q.rings()
	q.mu.Unlock()
	if ring {
		q.ring()
	}
}

func (q *queue) add(e *event) {
	q.in.list = append(q.in.list, *e)
	q.total, q.last = q.total+1, e.kind
}

// fits reports whether an event may be queued, and counts it if not.
func (q *queue) fits(runs, keys int) bool {
	if q.closed {
		q.lost++
		return false
	}
	if q.in.lost > 0 || len(q.in.list) >= q.maxEvents || len(q.in.runs)+runs > q.maxRuns || len(q.in.keys)+keys > q.maxRuns {
		q.in.lost++
		q.lost++
		return false
	}
	return true
}

func (q *queue) keepRuns(pages []kvcache.Run) part {
	first := len(q.in.runs)
	for _, r := range pages {
		q.in.runs = append(q.in.runs, lifecycle.Run{First: uint32(r.First), Count: r.Count})
	}
	return part{first, len(pages)}
}

// rings reports whether the reader must be woken: it sleeps, or the queue is
// half full. At other times it comes by itself, which costs the engine nothing.
func (q *queue) rings() bool {
	if q.asleep {
		q.asleep = false
		return true
	}
	if !q.urged && (len(q.in.list) > q.maxEvents/2 || len(q.in.runs) > q.maxRuns/2 || len(q.in.keys) > q.maxRuns/2) {
		q.urged = true
		return true
	}
	return false
}

// urge wakes the reader for what is queued, if nobody has yet. Pages that were released
// last wait for a drain, or not: had they to, that would have been said.
func (q *queue) urge() {
	q.mu.Lock()
	if q.last == pagesReleased && !q.closed && q.in.lost == 0 && len(q.in.list) < q.maxEvents {
		q.add(&event{kind: pause})
	}
	ring := !q.urged && (len(q.in.list) > 0 || q.in.lost > 0)
	if ring {
		q.urged, q.asleep = true, false
	}
	q.mu.Unlock()
	if ring {
		q.ring()
	}
}

func (q *queue) ring() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// swap takes out what was queued and gives back the memory of what was told.
func (q *queue) swap(told events) events {
	told.reset()
	q.mu.Lock()
	defer q.mu.Unlock()
	full := q.in
	q.in, q.urged = told, false
	return full
}

// sleep says that the next event must ring; false: there is one already.
func (q *queue) sleep() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.in.list) > 0 || q.in.lost > 0 || q.closed {
		return false
	}
	q.asleep = true
	return true
}

// close refuses everything from now on.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.ring()
}

// load is how full the queue is, and what it has counted.
func (q *queue) load() (waiting int, total, lost uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.in.list), q.total, q.lost
}
