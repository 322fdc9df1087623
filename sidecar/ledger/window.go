package ledger

import (
	"math"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// held is a fact that waits for its turn.
type held struct {
	f    *lifecycle.Fact
	inst *instance // that it is about, nil for a whole node
	at   int64     // its time on the ledger's clock: t - clock_offset(node), never before what its stream said first
}

// window puts facts in order (hard case 11): they wait for the order time, so
// that those which arrive later than they happened find their place.
type window struct {
	facts   []held
	head    int
	high    int64 // the latest time that any fact had
	applied int64 // the time up to which facts were applied
	fetched int   // facts before this index were touched for their turn
	touched uint64
}

// fetchAhead is how many facts are fetched from memory at a time. They have
// left the caches while they waited, and one by one each would be waited for.
const fetchAhead = 16

func newWindow() window { return window{high: math.MinInt64, applied: math.MinInt64} }

func (w *window) len() int { return len(w.facts) - w.head }

// horizon is the time before which a fact comes too late.
func (w *window) horizon(order int64) int64 {
	if w.high == math.MinInt64 {
		return w.high
	}
	return max(w.high-order, w.applied)
}

// push puts a fact where its time and its number in its stream want it.
func (w *window) push(h held) {
	w.facts = append(w.facts, h)
	i := len(w.facts) - 1
	for ; i > w.head && w.facts[i-1].at > h.at; i-- {
		w.facts[i] = w.facts[i-1]
	}
	w.facts[i] = h
	w.high = max(w.high, h.at)
}

// pushInOrder is push for a numbered fact: it stays behind lower numbers of
// its stream and before higher ones, whatever their times.
func (w *window) pushInOrder(h held) {
	lower, higher := -1, -1
	for i := w.head; i < len(w.facts); i++ {
		g := w.facts[i].f
		if !sameStream(g, h.f) || !g.Seq.Has {
			continue
		}
		if g.Seq.V < h.f.Seq.V {
			lower = i
		} else if higher < 0 {
			higher = i
		}
	}
	w.high = max(w.high, h.at)
	if lower >= 0 {
		h.at = max(h.at, w.facts[lower].at)
	}
	if higher >= 0 {
		h.at = min(h.at, w.facts[higher].at)
	}
	w.facts = append(w.facts, h)
	i := len(w.facts) - 1
	for ; i > w.head && i > lower+1 && (w.facts[i-1].at > h.at || higher >= 0 && i > higher); i-- {
		w.facts[i] = w.facts[i-1]
	}
	w.facts[i] = h
}

// pop takes the facts of the earliest time, if that is at most until.
func (w *window) pop(until int64) []held {
	if w.len() == 0 || w.facts[w.head].at > until {
		return nil
	}
	if w.head >= w.fetched {
		w.fetch()
	}
	at, from := w.facts[w.head].at, w.head
	for w.head < len(w.facts) && w.facts[w.head].at == at {
		w.head++
	}
	w.applied = at
	return w.facts[from:w.head]
}

// fetch touches the cache lines of the next facts that every event needs, and
// bytes_moved: loads that do not wait for each other.
func (w *window) fetch() {
	w.fetched = min(w.head+fetchAhead, len(w.facts))
	sum := uint64(0)
	for _, h := range w.facts[w.head:w.fetched] {
		sum += h.f.Seq.V + h.f.Bytes
	}
	w.touched = sum // else the compiler leaves the loads out
}

// compact frees what was popped.
func (w *window) compact() {
	if w.head < 1024 || w.head < len(w.facts)/2 {
		return
	}
	n := copy(w.facts, w.facts[w.head:])
	clear(w.facts[n:])
	w.facts, w.head, w.fetched = w.facts[:n], 0, 0
}

func sameStream(a, b *lifecycle.Fact) bool {
	return a.Inst == b.Inst && a.Src == b.Src && a.Epoch == b.Epoch
}
