package witness

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/probe"
	"github.com/kvwitness/kvwitness/sidecar/source/proven"
)

// knownPages is what else is known of the pools here.
var knownPages = proven.Layout{Pages: pages, PageTokens: 16}

const verbsPeers = "command=verbs_peer.py"

// unseen reports whether it was said, of a path into an instance, that its sight is
// not complete, with such a reason.
func unseen(w *witness, inst, reason string) bool {
	return w.count(func(f *lifecycle.Fact) bool {
		return f.Ev == lifecycle.SourceCoverage && f.Of == lifecycle.RDMA && !f.Complete && f.Inst == inst && strings.Contains(f.Reason, reason)
	}) > 0
}

// Promise: with no event of an engine's own, what is posted to RDMA devices makes
// a handoff clean where all pages were written, contiguous, scattered, in pieces or
// again, and short where they were not; two decodes that have the same addresses
// are told apart by where the queue pairs lead.
func TestHandoffsOverVerbsAreWitnessed(t *testing.T) {
	w := watch(t, knownPages, verbsPeers)
	p, other := proved(t, w, 0), proved(t, w, 1)
	scattered := []int{31, 0, 17, 2, 29, 11, 12, 20}
	want := map[string]finding.Outcome{}
	var straddling [][3]uint64
	for _, m := range p.whole(eight...) {
		straddling = append(straddling, [3]uint64{m[0], m[1], 3000}, [3]uint64{m[0] + 3000, m[1] + 3000, m[2] - 3000})
	}
	for _, c := range []struct {
		named   []int
		moves   [][3]uint64
		verdict finding.Outcome
	}{
		{eight, p.whole(eight...), finding.Clean},
		{scattered, p.whole(scattered...), finding.Clean},
		{eight, straddling, finding.Clean},
		{eight, append(p.whole(eight...), p.whole(eight[2:5]...)...), finding.Clean},
		{eight, p.whole(eight[0]), finding.Violated},
		{scattered, p.whole(scattered...)[1:], finding.Violated},
		{scattered, p.whole(scattered...), finding.Clean},
	} {
		want[p.handoff(c.named, p.post("first", c.moves))] = c.verdict
		want[other.good()] = finding.Clean
	}
	p.prefill.do("destroy", map[string]any{"pair": "first"})
	w.await("that the writer is gone", func() bool {
		return w.count(func(f *lifecycle.Fact) bool { return f.Ev == lifecycle.PeerGone && f.Inst == p.name() }) == 1
	})
	expect(t, w, want)
	if len(w.problems) > 0 {
		t.Errorf("problems %q", w.problems)
	}
}

// Promise: with completions what was posted counts as soon as it is done, and a
// write without a post makes its process blind, and no other.
func TestADoorbellThatNobodySeesAccusesNobody(t *testing.T) {
	w := watchWith(t, probe.StartConfig{Match: []string{verbsPeers}, Completions: true}, proven.Config{Known: func(string) proven.Layout { return knownPages }})
	p, other := proved(t, w, 0), proved(t, w, 1)
	want := map[string]finding.Outcome{p.good(): finding.Clean}
	if w.look(func() bool {
		return w.count(func(f *lifecycle.Fact) bool { return f.Ev == lifecycle.BytesMoved && f.Outcome == lifecycle.OK }) == 0
	}) {
		t.Error("no bytes are seen to be done")
	}
	want[p.handoff(eight, func() {
		p.post("first", p.whole(eight[0]))()
		p.prefill.do("ring", map[string]any{"pair": "first", "moves": p.whole(eight[1:]...)})
	})] = finding.Unwitnessed
	want[p.handoff(eight, p.post("first", p.whole(eight[0])))] = finding.Unwitnessed
	want[other.good()] = finding.Clean
	want[other.handoff(eight, other.post("first", other.whole(eight[0])))] = finding.Violated
	if !w.look(func() bool { return unseen(w, p.name(), "completed that nobody saw posted") }) {
		t.Error("the reason is not said")
	}
	expect(t, w, want)
}

// Promise: a process that asks its provider for the doorbell of a queue pair is
// blind from then on, without completions too.
func TestWhoAsksForADoorbellIsBlind(t *testing.T) {
	w := watch(t, knownPages, verbsPeers)
	p := proved(t, w, 0)
	want := map[string]finding.Outcome{p.good(): finding.Clean}
	p.prefill.do("direct", map[string]any{"device": "nic"})
	want[p.handoff(eight, p.post("first", p.whole(eight[0])))] = finding.Unwitnessed
	if !w.look(func() bool { return unseen(w, p.name(), "rings doorbells") }) {
		t.Error("the reason is not said")
	}
	expect(t, w, want)
}

// Promise: where it is UCX that asks for a doorbell, the process is as seen as before: what
// UCX rings it for was handed to UCX. A library that is only called like UCX's, in a
// process that has no UCX, is none.
func TestADoorbellThatUCXAsksForIsItsOwn(t *testing.T) {
	w := watch(t, knownPages, verbsPeers)
	p, other := proved(t, w, 0), proved(t, w, 1)
	p.prefill.do("load", map[string]any{"library": "libucp.so.0"})
	for _, each := range []*verbsPair{p, other} {
		each.prefill.do("transport", nil)
	}
	w.await("that the other is blind", func() bool { return unseen(w, other.name(), "rings doorbells") })
	want := map[string]finding.Outcome{
		p.good(): finding.Clean, p.handoff(eight, p.post("first", p.whole(eight[0]))): finding.Violated,
		other.handoff(eight, other.post("first", other.whole(eight[0]))): finding.Unwitnessed,
	}
	expect(t, w, want)
}

// Promise: where one of two devices of a sender cannot be attached to, its
// handoffs are unwitnessed and those of others are not; once it is closed they are
// witnessed again.
func TestADeviceThatIsNotAttachedToAccusesNobody(t *testing.T) {
	w := watch(t, knownPages, verbsPeers)
	p, other := proved(t, w, 0), proved(t, w, 1)
	want := map[string]finding.Outcome{p.good(): finding.Clean}
	p.prefill.do("device", map[string]any{"device": "odd", "provider": "libodd.so"})
	w.await("that it is not attached to", func() bool { return unseen(w, p.name(), "device") || unseen(w, p.name(), "provider") })
	p.join("odd", "second", 97, 98)
	want[p.handoff(eight, func() {
		p.post("first", p.whole(eight[0]))()
		p.post("second", p.whole(eight[1:]...))()
	})] = finding.Unwitnessed
	want[other.good()] = finding.Clean
	w.await("why", func() bool { return unseen(w, p.name(), "no verbs provider") })
	p.prefill.do("destroy", map[string]any{"pair": "second"})
	p.prefill.do("close", map[string]any{"device": "odd"})
	p.prove()
	want[p.good()] = finding.Clean
	expect(t, w, want)
}

// Promise: a witness that comes when queue pairs are connected already says that it
// does not know where they lead, and sees everything once they connect anew.
func TestALateWitnessOfVerbsSaysWhatItDidNotSee(t *testing.T) {
	p := newVerbsPair(t, 0)
	p.open()
	p.join("nic", "first", p.numbers[0], p.numbers[1])
	p.good()
	w := watch(t, knownPages, verbsPeers)
	p.w = w
	p.register()
	want := map[string]finding.Outcome{}
	told := func() bool { return unseen(w, p.name(), "connected unseen") }
	for end := time.Now().Add(patience); !w.look(told); {
		want[p.handoff(eight, p.post("first", p.whole(eight[0])))] = finding.Unwitnessed
		if time.Now().After(end) {
			t.Fatal("the reason is not said")
		}
	}
	p.prefill.do("destroy", map[string]any{"pair": "first"})
	p.decode.do("destroy", map[string]any{"pair": "first"})
	p.join("nic", "first", p.numbers[0], p.numbers[1])
	p.prove()
	want[p.good()] = finding.Clean
	want[p.handoff(eight, p.post("first", p.whole(eight[0])))] = finding.Violated
	expect(t, w, want)
}

// Promise: a chain that is longer than is followed, and a ring that was full, make
// the handoffs unwitnessed that they may concern, and accuse nobody; after that
// all is seen as before.
func TestWhatIsLostOnTheWayAccusesNobody(t *testing.T) {
	w := watch(t, knownPages, verbsPeers)
	p, other := proved(t, w, 0), proved(t, w, 1)
	want := map[string]finding.Outcome{}
	long := p.whole(eight[0])
	for len(long) < 1100 {
		long = append(long, long[0])
	}
	want[p.handoff(eight, p.post("first", append(long, p.whole(eight[1:]...)...)))] = finding.Unwitnessed
	want[other.good()] = finding.Clean
	p.prove()
	want[p.good()] = finding.Clean

	must(t, syscall.Kill(w.probe.PID(), syscall.SIGSTOP))
	// A record of one extent has 104 bytes, the ring 8 MiB.
	flooded := p.handoffUnseen(eight, func() {
		p.prefill.do("flood", map[string]any{"pair": "first", "times": 120_000, "moves": p.whole(eight[0])[:1]})
		p.post("first", p.whole(eight...))()
	})
	must(t, syscall.Kill(w.probe.PID(), syscall.SIGCONT))
	want[flooded] = finding.Unwitnessed
	w.await("that records were lost", func() bool {
		return w.count(func(f *lifecycle.Fact) bool {
			return f.Ev == lifecycle.EventsLost && f.Of == lifecycle.RDMA && f.Count > 0
		}) > 0
	})
	p.prove()
	want[p.good()] = finding.Clean
	want[p.handoff(eight, p.post("first", p.whole(eight[0])))] = finding.Violated
	expect(t, w, want)
}

// handoffUnseen is a handoff during which nobody reads what the kernel says.
func (p *verbsPair) handoffUnseen(named []int, do func()) string {
	p.t.Helper()
	w := p.w
	p.w = nil
	defer func() { p.w = w }()
	return p.handoff(named, do)
}
