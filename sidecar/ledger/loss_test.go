package ledger_test

import (
	"testing"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/ledger"
)

// Promise: a read that waits for its step accuses nobody if a loss comes
// meanwhile: the write that it waits for may be what was lost.
func TestALossMutesTheReadsThatWait(t *testing.T) {
	for _, lost := range []bool{true, false} {
		l := ledger.New(ledger.Config{})
		l.Step(openPool("decode-0", 8, nil))
		reserved := engine(1_000_000, lifecycle.PagesReserved)
		read := engine(2_000_000, lifecycle.PagesRead)
		for _, f := range []*lifecycle.Fact{reserved, read} {
			f.Req, f.Pool, f.Pages, f.Step = "r1", "kv", lifecycle.Runs{{First: 1, Count: 1}}, lifecycle.Some(int64(7))
			l.Step(f)
		}
		if lost {
			l.Step(&lifecycle.Fact{T: 2_000_001, Node: "n", Inst: "decode-0", Src: lifecycle.Sidecar, Ev: lifecycle.EventsLost, Of: lifecycle.Engine, Count: 1})
		}
		stale := false
		for _, f := range l.Close() {
			stale = stale || f.Kind == finding.StaleRead
		}
		if stale == lost {
			t.Fatalf("lost %v: stale_read %v", lost, stale)
		}
	}
}
