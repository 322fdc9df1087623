package zmtp

import (
	"context"
	"sync"
)

// received is one message and the peer that sent it.
type received struct {
	from   *peer
	frames [][]byte
	bytes  int
}

// inbox is the bounded queue between the readers of all peers and Recv. It
// loses nothing: a reader waits for room, and so its peer waits for it.
type inbox struct {
	maxMessages int
	maxBytes    int

	mu    sync.Mutex
	items []received
	bytes int

	filled bell // a message came
	room   bell // a message went
}

// put waits until there is room. A message larger than the whole queue is let
// in when the queue is empty; its size is bounded by the stream's limits.
func (q *inbox) put(ctx context.Context, r received) error {
	for {
		wait := q.room.wait()
		if q.tryPut(r) {
			q.filled.ring()
			return nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (q *inbox) tryPut(r received) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) > 0 && (len(q.items) >= q.maxMessages || q.bytes+r.bytes > q.maxBytes) {
		return false
	}
	q.items = append(q.items, r)
	q.bytes += r.bytes
	return true
}

// take waits for a message, until ctx or the socket ends.
func (q *inbox) take(ctx context.Context, closed <-chan struct{}) (received, error) {
	for {
		wait := q.filled.wait()
		if r, ok := q.tryTake(); ok {
			q.room.ring()
			return r, nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return received{}, ctx.Err()
		case <-closed:
			return received{}, ErrClosed
		}
	}
}

func (q *inbox) tryTake() (received, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 {
		return received{}, false
	}
	r := q.items[0]
	q.items[0] = received{}
	q.items = q.items[1:]
	if len(q.items) == 0 {
		q.items = nil
	}
	q.bytes -= r.bytes
	return r, true
}

func (q *inbox) load() (messages, bytes int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items), q.bytes
}
