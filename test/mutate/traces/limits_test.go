package traces_test

import (
	"fmt"
	"testing"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
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
	f.T, f.Node, f.Src = c.t, "gpu-0", lifecycle.Engine
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
