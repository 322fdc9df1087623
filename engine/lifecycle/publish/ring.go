package publish

import "sync"

// kept are the last batches, for replay: one stretch of memory that is filled
// round and round. Keeping a batch lets go of those that lie where it must lie.
type kept struct {
	mu      sync.Mutex
	data    []byte
	list    []place // of consecutive numbers, the oldest at head
	head, n int
	first   uint64 // number of the oldest
	end     int    // where the next one begins, if it fits
}

type place struct{ at, n int }

func newKept(batches, bytes int) *kept {
	return &kept{data: make([]byte, bytes), list: make([]place, batches)}
}

// keep takes the batch of the number after the last one.
func (k *kept) keep(seq uint64, payload []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(payload) > len(k.data) {
		k.n, k.end = 0, 0
		return
	}
	at := k.end
	if at+len(payload) > len(k.data) {
		k.dropFrom(at, len(k.data))
		at = 0
	}
	k.dropFrom(at, at+len(payload))
	if k.n == len(k.list) {
		k.drop()
	}
	copy(k.data[at:], payload)
	if k.n == 0 {
		k.first = seq
	}
	k.list[(k.head+k.n)%len(k.list)] = place{at, len(payload)}
	k.n++
	k.end = at + len(payload)
}

// dropFrom lets go of the oldest batches while they lie in [from, to).
func (k *kept) dropFrom(from, to int) {
	for k.n > 0 {
		if p := k.list[k.head]; p.at >= to || p.at+p.n <= from {
			return
		}
		k.drop()
	}
}

func (k *kept) drop() {
	k.head = (k.head + 1) % len(k.list)
	k.n--
	k.first++
}

// from copies the first kept batch whose number is at least seq into buf; ok is
// false where there is none.
func (k *kept) from(seq uint64, buf []byte) (got uint64, payload []byte, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	got = max(seq, k.first)
	if k.n == 0 || got >= k.first+uint64(k.n) {
		return 0, buf, false
	}
	p := k.list[(k.head+int(got-k.first))%len(k.list)]
	return got, append(buf[:0], k.data[p.at:p.at+p.n]...), true
}

// load is how many batches are kept, and their bytes.
func (k *kept) load() (batches, bytes int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.n {
		bytes += k.list[(k.head+i)%len(k.list)].n
	}
	return k.n, bytes
}
