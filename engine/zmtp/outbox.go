package zmtp

import "sync"

// batch is a run of encoded messages and commands: their bytes, and where each
// message ends, so that after a failed write it is known which are lost.
type batch struct {
	bytes []byte
	ends  []int
}

func (b *batch) reset() { b.bytes, b.ends = b.bytes[:0], b.ends[:0] }

// outbox is what waits for one peer: messages are encoded into one buffer
// while the writer sends the other, so that queueing allocates nothing once
// both have grown. A message that does not fit is refused; the socket's kind
// decides whether that is a drop or a wait.
type outbox struct {
	maxMessages int
	maxBytes    int

	mu      sync.Mutex
	cond    sync.Cond
	pending batch
	inHand  int // messages and bytes that the writer holds
	holding int
	idle    bool // the writer waits on cond
	closed  bool // nothing more is taken; the writer sends what is there
}

func newOutbox(maxMessages, maxBytes int) *outbox {
	o := &outbox{maxMessages: maxMessages, maxBytes: maxBytes}
	o.cond.L = &o.mu
	return o
}

// put queues a message and says whether it fitted.
func (o *outbox) put(frames [][]byte) bool {
	size := wireBytes(frames)
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.fits(size) {
		return false
	}
	o.pending.bytes = AppendMessage(o.pending.bytes, frames...)
	o.pending.ends = append(o.pending.ends, len(o.pending.bytes))
	o.wake()
	return true
}

// putRaw queues bytes that are encoded already and count as no message:
// commands.
func (o *outbox) putRaw(b []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.fits(len(b)) {
		return false
	}
	o.pending.bytes = append(o.pending.bytes, b...)
	o.wake()
	return true
}

func (o *outbox) fits(size int) bool {
	return !o.closed &&
		len(o.pending.ends)+o.inHand < o.maxMessages &&
		len(o.pending.bytes)+o.holding+size <= o.maxBytes
}

func (o *outbox) wake() {
	if o.idle {
		o.idle = false
		o.cond.Signal()
	}
}

// release says that what the writer held is sent: there is room again.
func (o *outbox) release() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inHand, o.holding = 0, 0
}

// swap gives the writer all that waits and takes back the buffer it has sent.
// It waits until there is something; ok is false once the box is closed and
// empty.
func (o *outbox) swap(sent batch) (next batch, ok bool) {
	sent.reset()
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.pending.bytes) == 0 {
		if o.closed {
			return sent, false
		}
		o.idle = true
		o.cond.Wait()
	}
	o.idle = false
	next = o.pending
	o.pending = sent
	o.inHand, o.holding = len(next.ends), len(next.bytes)
	return next, true
}

// close lets the writer send what is queued and then end.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.cond.Broadcast()
}

// abandon closes the box and returns how many messages it threw away.
func (o *outbox) abandon() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(o.pending.ends)
	o.closed = true
	o.pending.reset()
	o.cond.Broadcast()
	return n
}

func (o *outbox) load() (messages, bytes int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.pending.ends) + o.inHand, len(o.pending.bytes) + o.holding
}
