package evidence

import (
	"unsafe"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// memory is the facts of late, within a bound of bytes. Reads and single writes are
// by far the most: they have a quarter of it to themselves, so that they do not push
// out what tells the life of a request.
type memory struct {
	life, bulk ring
	next       uint64 // number of the next fact
}

func newMemory(bytes int) *memory {
	return &memory{life: ring{limit: bytes / 4 * 3}, bulk: ring{limit: bytes / 4}, next: 1}
}

func (m *memory) add(f *lifecycle.Fact) {
	r := &m.life
	switch f.Ev {
	case lifecycle.PagesRead, lifecycle.BytesMoved, lifecycle.Watermark, lifecycle.PoolAudit:
		r = &m.bulk
	}
	r.add(kept{f, m.next})
	m.next++
}

// oldest is the time of the oldest fact from which on all are there, in ns.
func (m *memory) oldest() int64 {
	a, b := m.life.oldest(), m.bulk.oldest()
	if m.bulk.dropped == 0 || m.life.dropped > 0 && a > b {
		return a
	}
	if m.life.dropped == 0 {
		return b
	}
	return max(a, b)
}

// since calls each for the facts with a number of at least from, in order.
func (m *memory) since(from uint64, each func(f *lifecycle.Fact)) {
	a, b := m.life.from(from), m.bulk.from(from)
	for len(a) > 0 || len(b) > 0 {
		if len(b) == 0 || len(a) > 0 && a[0].n < b[0].n {
			each(a[0].f)
			a = a[1:]
		} else {
			each(b[0].f)
			b = b[1:]
		}
	}
}

type kept struct {
	f *lifecycle.Fact
	n uint64
}

// ring is facts in order, the oldest of which are dropped beyond a limit of bytes.
type ring struct {
	limit, bytes int
	all          []kept
	head         int // of the oldest
	dropped      uint64
}

// sizeOf is about what a fact takes in memory.
func sizeOf(f *lifecycle.Fact) int {
	const run = int(unsafe.Sizeof(lifecycle.Run{}))
	n := int(unsafe.Sizeof(*f)) + int(unsafe.Sizeof(kept{})) + cap(f.Pages)*run + cap(f.CopyFrom.Pages)*run + cap(f.CopyTo.Pages)*run
	n += len(f.Req) + len(f.Room) + len(f.Xfer) + len(f.Reason)
	if f.Spec != nil {
		n += int(unsafe.Sizeof(*f.Spec)) + cap(f.Spec.Regions)*int(unsafe.Sizeof(lifecycle.Region{}))
	}
	return n
}

func (r *ring) add(k kept) {
	r.all = append(r.all, k)
	r.bytes += sizeOf(k.f)
	for r.bytes > r.limit && r.head < len(r.all) {
		r.bytes -= sizeOf(r.all[r.head].f)
		r.all[r.head].f = nil
		r.head++
		r.dropped++
	}
	if r.head > 1024 && r.head > len(r.all)/2 {
		n := copy(r.all, r.all[r.head:])
		clear(r.all[n:])
		r.all, r.head = r.all[:n], 0
	}
}

func (r *ring) oldest() int64 {
	if r.head == len(r.all) {
		return 0
	}
	return r.all[r.head].f.T
}

// from are the facts with a number of at least n.
func (r *ring) from(n uint64) []kept {
	lo, hi := r.head, len(r.all)
	for lo < hi {
		if mid := (lo + hi) / 2; r.all[mid].n < n {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return r.all[lo:]
}
