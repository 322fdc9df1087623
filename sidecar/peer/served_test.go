package peer

import (
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle/subscribe"
)

// Promise: as long as what an engine said finds no room on its way to a peer, the peer
// is not told that all until now was said.
func TestAStreamThatIsBlockedIsNotSaidToBeUpToDate(t *testing.T) {
	s := newHost(t, "node-a", 0, "prefill").serve(t.TempDir(), nil)
	sub, err := subscribe.New(subscribe.Config{Instance: "prefill", Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	p := &served{s: s, out: newOutbox(s.cfg.Now), relays: map[string]*relay{"prefill": {sub: sub}}}
	if _, behind := p.stand(); behind != upToDate {
		t.Errorf("a stream with nothing to say is behind by %d", behind)
	}
	p.relays["prefill"].blocked.Store(true)
	ended := make(chan struct{})
	ctx := t.Context()
	go func() {
		defer close(ended)
		p.mark(ctx)
	}()
	t.Cleanup(func() { <-ended })
	time.Sleep(4 * maxSkipped * markBusy)
	p.out.mu.Lock()
	marks := p.out.number
	p.out.mu.Unlock()
	if marks != 0 {
		t.Errorf("%d marks were sent", marks)
	}
	p.relays["prefill"].blocked.Store(false)
	await(t, "a mark", func() bool {
		p.out.mu.Lock()
		defer p.out.mu.Unlock()
		return p.out.number > 0
	})
}

// Promise: facts that wait for room go on once there is some, and nobody waits for one
// who is gone.
func TestTheOutboxIsBoundedAndLetsGo(t *testing.T) {
	o := newOutbox(func() int64 { return 1 })
	kilobyte := func(dst []byte) []byte { return append(dst, make([]byte, 1024)...) }
	n := 0
	for o.put(kindFact, kilobyte) {
		n++
	}
	if bytes := n * 1024; bytes > outboxBytes+4096 || bytes < outboxBytes/2 {
		t.Errorf("%d bytes wait", bytes)
	}
	done := make(chan bool)
	go func() { done <- o.wait(kindFact, kilobyte) }()
	select {
	case <-done:
		t.Fatal("it does not wait")
	case <-time.After(10 * time.Millisecond):
	}
	o.close()
	if <-done {
		t.Error("a fact went to one who is gone")
	}
}
