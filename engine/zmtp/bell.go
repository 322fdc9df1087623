package zmtp

import "sync"

// bell wakes everyone who waits for a state to change. The zero value is
// ready. Ringing with nobody waiting costs a lock and nothing else.
type bell struct {
	mu sync.Mutex
	ch chan struct{}
}

// wait returns a channel that the next ring closes. Take it before looking at
// the state, or a change between the two is missed.
func (b *bell) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
