package peer

import (
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/subscribe"
	"github.com/kvwitness/kvwitness/sidecar/intake"
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

// Promise: from the moment on at which a peer says that it sees all writes, time passes
// only as far as it says that it has come, though it has said nothing of that yet; when it
// has no probe any more, the judge is told before time passes.
func TestSightCountsOnlyAsFarAsItHasCome(t *testing.T) {
	const second = int64(time.Second)
	now := 100 * second
	in := intake.New(intake.Config{Now: func() int64 { return now }})
	l, err := NewLink(LinkConfig{
		Name: "peer", Address: "127.0.0.1:1", Node: "here", Secret: Secret{Token: token}, Now: func() int64 { return now }, In: in,
		Patience: time.Minute, Own: func() []string { return []string{"decode"} }, Claim: func(string) bool { return true },
		Sees: func(lifecycle.Src, string, string) bool { return false }, Log: quiet,
	})
	if err != nil {
		t.Fatal(err)
	}
	var taken []*lifecycle.Fact
	take := func() (low int64) {
		for range 2 {
			low, _ = in.Take(func(f *lifecycle.Fact) { taken = append(taken, f) })
		}
		return low
	}
	s := newSession(l, nil)
	s.begin(Reading{})
	if _, err := s.announced(nil); err != nil {
		t.Fatal(err)
	}
	s.theirs["prefill"] = struct{}{}
	now += second
	take() // as far as now: the peer's probe is not waited for yet
	f := &lifecycle.Fact{T: now - second/2, Inst: "decode", Src: lifecycle.Sidecar, Ev: lifecycle.SourceCoverage, Of: lifecycle.RDMA, Complete: true, Peer: "prefill"}
	if _, err := s.fact(t.Context(), f.AppendMsgpack(nil)); err != nil {
		t.Fatal(err)
	}
	from := take()
	now += 10 * second
	if low := take(); low > from+int64(10*time.Millisecond) {
		t.Errorf("time is %v beyond what the peer has said", time.Duration(low-from))
	}
	taken = nil
	if _, err := s.marked(now, now); err != nil {
		t.Fatal(err)
	}
	if low := take(); now-low > second || len(taken) != 1 || !taken[0].Complete || taken[0].T <= from {
		t.Errorf("%v behind, taken %v", time.Duration(now-low), taken)
	}
	// Nor does it count from before the peer handed on what it saw.
	f.T = now + int64(20*time.Millisecond)
	if _, err := s.fact(t.Context(), f.AppendMsgpack(nil)); err != nil {
		t.Fatal(err)
	}
	now += second
	if _, err := s.marked(now, now); err != nil {
		t.Fatal(err)
	}
	if take(); len(taken) != 2 || taken[1].T < f.T {
		t.Errorf("sight counts from %d on, which is said to be from %d", taken[len(taken)-1].T, f.T)
	}
	taken = nil
	if _, err := s.marked(now, 0); err != nil {
		t.Fatal(err)
	}
	now += second
	if take(); len(taken) != 1 || taken[0].Complete || taken[0].Peer != "prefill" {
		t.Errorf("taken %v", taken)
	}
}
