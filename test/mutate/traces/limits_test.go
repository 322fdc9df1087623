package traces_test

import (
	"fmt"
	"testing"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/ledger"
)

// many is more than any limit of these tests.
const many = 50

// clock says facts a millisecond apart.
type clock struct {
	l *ledger.Ledger
	t int64
}

func (c *clock) say(f lifecycle.Fact) {
	c.t += 1_000_000
	f.T, f.Node = c.t, "gpu-0"
	switch f.Ev {
	case lifecycle.BytesMoved:
		f.Src = lifecycle.RDMA
	case lifecycle.SourceCoverage:
		f.Src = lifecycle.Sidecar
	default:
		f.Src = lifecycle.Engine
	}
	c.l.Step(&f)
}

func (c *clock) open(inst string) {
	c.say(lifecycle.Fact{Inst: inst, Ev: lifecycle.PoolOpened, Pool: "kv", Spec: &lifecycle.PoolSpec{Pages: 64, PageTokens: 64}})
}

// handoff hands page 0 over as page 0, to the end.
func (c *clock) handoff(n int) {
	id := fmt.Sprint(n)
	page := lifecycle.Runs{{First: 0, Count: 1}}
	about := func(inst, peer string, ev lifecycle.Ev) lifecycle.Fact {
		return lifecycle.Fact{Inst: inst, Peer: peer, Ev: ev, Req: "r" + id, Room: id, Xfer: "x" + id, Pool: "kv", Pages: page}
	}
	for _, half := range []struct {
		inst, peer string
		side       lifecycle.Side
	}{{"prefill-0", "decode-0", lifecycle.Sender}, {"decode-0", "prefill-0", lifecycle.Receiver}} {
		c.say(about(half.inst, "", lifecycle.RequestAdmitted))
		c.say(about(half.inst, "", lifecycle.PagesReserved))
		written := about(half.inst, "", lifecycle.PagesWritten)
		written.By = lifecycle.ByForward
		c.say(written)
		started := about(half.inst, half.peer, lifecycle.TransferStarted)
		started.Side = half.side
		c.say(started)
	}
	done := about("decode-0", "prefill-0", lifecycle.TransferCompleted)
	done.Outcome, done.Last = lifecycle.OK, true
	c.say(done)
	for _, inst := range []string{"prefill-0", "decode-0"} {
		c.say(about(inst, "", lifecycle.PagesReleased))
		c.say(about(inst, "", lifecycle.RequestFinished))
	}
}

func TestAPageRemembersNoMoreEndedTransfersThanItMay(t *testing.T) {
	const past = 2
	c := &clock{l: ledger.New(ledger.Config{HoldVerdicts: true, Limits: ledger.Limits{PastOwner: past}})}
	c.open("decode-0")
	c.open("prefill-0")
	for n := range many {
		c.handoff(n)
		// One page on each side, and the transfer that runs beside those that ended.
		if got := c.l.Sizes().Activity; got > 2*(past+1) {
			t.Fatalf("after %d handoffs of one page %d transfers of pages are remembered", n+1, got)
		}
	}
}

func TestNoMoreEndedRoomsAreRememberedThanMayBe(t *testing.T) {
	const ended = 4
	c := &clock{l: ledger.New(ledger.Config{HoldVerdicts: true, Limits: ledger.Limits{Ended: ended}})}
	c.open("decode-0")
	c.open("prefill-0")
	for n := range many {
		c.handoff(n)
		if got := c.l.Sizes().Ended; got > ended {
			t.Fatalf("after %d handoffs %d ended rooms are remembered", n+1, got)
		}
	}
	c.l.Close()
	if verdicts := len(c.l.Verdicts()); verdicts != many {
		t.Errorf("%d handoffs have %d verdicts", many, verdicts)
	}
}

func TestNoMorePagesAreInTransferThanMayBe(t *testing.T) {
	const activity = 4
	c := &clock{l: ledger.New(ledger.Config{HoldVerdicts: true, Limits: ledger.Limits{Activity: activity}})}
	c.open("decode-0")
	c.say(lifecycle.Fact{Inst: "decode-0", Ev: lifecycle.RequestAdmitted, Req: "r1", Room: "1"})
	c.say(lifecycle.Fact{Inst: "decode-0", Ev: lifecycle.PagesReserved, Req: "r1", Pool: "kv", Pages: lifecycle.Runs{{First: 0, Count: many}}})
	for at := range uint32(many) {
		c.say(lifecycle.Fact{
			Inst: "decode-0", Peer: "prefill-0", Ev: lifecycle.TransferStarted, Room: "1", Xfer: fmt.Sprint("x", at),
			Side: lifecycle.Receiver, Pool: "kv", Pages: lifecycle.Runs{{First: at, Count: 1}},
		})
		if got := c.l.Sizes().Activity; got > activity {
			t.Fatalf("%d pages in transfer are remembered", got)
		}
	}
	unwitnessed(t, c.l)
}

func TestNoMoreReadsWaitForTheirStepThanMay(t *testing.T) {
	const pending = 4
	c := &clock{l: ledger.New(ledger.Config{HoldVerdicts: true, Limits: ledger.Limits{Pending: pending}})}
	c.open("decode-0")
	c.say(lifecycle.Fact{Inst: "decode-0", Ev: lifecycle.RequestAdmitted, Req: "r1"})
	c.say(lifecycle.Fact{Inst: "decode-0", Ev: lifecycle.PagesReserved, Req: "r1", Pool: "kv", Pages: lifecycle.Runs{{First: 0, Count: many}}})
	for at := range uint32(many) {
		c.t -= 999_999 // faster than the settle time ends the waiting
		c.say(lifecycle.Fact{
			Inst: "decode-0", Ev: lifecycle.PagesRead, Req: "r1", Step: lifecycle.Some(int64(1)),
			Pool: "kv", Pages: lifecycle.Runs{{First: at, Count: 1}},
		})
	}
	c.l.Advance(c.t + 20_000_000) // applies them all, and lets none of them wait for long enough
	if got := c.l.Sizes().Pending; got == 0 || got > pending {
		t.Fatalf("%d reads wait for their step", got)
	}
}

func TestReferencesGivenBackBeyondTheLimitAreCounted(t *testing.T) {
	c := &clock{l: ledger.New(ledger.Config{HoldVerdicts: true, Limits: ledger.Limits{Releases: 4}})}
	c.open("decode-0")
	c.say(lifecycle.Fact{Inst: "decode-0", Ev: lifecycle.RequestAdmitted, Req: "r1"})
	c.say(lifecycle.Fact{Inst: "decode-0", Ev: lifecycle.PagesReserved, Req: "r1", Pool: "kv", Pages: lifecycle.Runs{{First: 0, Count: many}}})
	for at := range uint32(many / 2) {
		c.say(lifecycle.Fact{Inst: "decode-0", Ev: lifecycle.PagesReleased, Req: "r1", Pool: "kv", Pages: lifecycle.Runs{{First: 2 * at, Count: 1}}})
	}
	unwitnessed(t, c.l)
	if c.l.Stats().Forgotten.Releases == 0 {
		t.Error("nothing is said to be forgotten")
	}
}

// Pieces that lie apart and meet only at last, more of them than are kept.
func TestNoMorePiecesOfPagesAreRememberedThanMayBe(t *testing.T) {
	const fragments, piece = 4, 1024
	c := &clock{l: ledger.New(ledger.Config{HoldVerdicts: true, Limits: ledger.Limits{Fragments: fragments}})}
	spec := &lifecycle.PoolSpec{
		Pages: 64, PageTokens: 64, Claims: lifecycle.Some([]lifecycle.Ev{lifecycle.PagesReserved}),
		Regions: []lifecycle.Region{{Base: 1 << 40, Stride: many * piece, Bytes: many * piece, Part: "kv"}},
	}
	c.say(lifecycle.Fact{Inst: "decode-0", Ev: lifecycle.PoolOpened, Pool: "kv", Spec: spec})
	c.say(lifecycle.Fact{Inst: "decode-0", Ev: lifecycle.SourceCoverage, Of: lifecycle.RDMA, Complete: true})
	page := lifecycle.Runs{{First: 0, Count: 1}}
	about := lifecycle.Fact{Inst: "decode-0", Req: "r1", Room: "1", Peer: "prefill-0", Xfer: "x1", Side: lifecycle.Receiver, Pool: "kv", Pages: page}
	for _, ev := range []lifecycle.Ev{lifecycle.RequestAdmitted, lifecycle.PagesReserved, lifecycle.TransferStarted} {
		f := about
		f.Ev = ev
		c.say(f)
	}
	for i := range uint64(many) {
		at := (2*i + 2*i/many) % many // the even ones, then the odd ones
		c.say(lifecycle.Fact{Inst: "decode-0", Ev: lifecycle.BytesMoved, From: "prefill-0", Xfer: "x1", Addr: 1<<40 + at*piece, Bytes: piece})
		if got := c.l.Sizes().Fragments; got > fragments {
			t.Fatalf("%d pieces are remembered", got)
		}
	}
	// Though a retry brings the whole page, what was forgotten is not vouched for.
	c.say(lifecycle.Fact{Inst: "decode-0", Ev: lifecycle.BytesMoved, From: "prefill-0", Xfer: "x1", Addr: 1 << 40, Bytes: many * piece})
	done := about
	done.Ev, done.Outcome, done.Last = lifecycle.TransferCompleted, lifecycle.OK, true
	c.say(done)
	unwitnessed(t, c.l)
}

// unwitnessed: what is beyond a limit accuses nobody and is never clean.
func unwitnessed(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	l.Close()
	for _, v := range l.Verdicts() {
		if v.Verdict != finding.Unwitnessed {
			t.Errorf("%s at %s is %s: %s", v.Req, v.Inst, v.Verdict, v.Why)
		}
	}
	for kind, n := range l.Stats().Findings {
		if n > 0 {
			t.Errorf("%d findings of %s", n, finding.Kind(kind))
		}
	}
}
