package ledger_test

import (
	"testing"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/ledger"
)

// Promise: a writer may say of itself that it is drained; its pages are then
// free to be given back.
func TestTheWriterSaysItselfThatItIsDrained(t *testing.T) {
	for _, itself := range []bool{true, false} {
		l := ledger.New(ledger.Config{})
		at := int64(0)
		say := func(inst string, ev lifecycle.Ev, more func(*lifecycle.Fact)) {
			at += 1_000_000
			f := &lifecycle.Fact{T: at, Node: "n", Inst: inst, Src: lifecycle.Engine, Ev: ev, Req: "r1", Room: "1", Pool: "kv", Xfer: "x", Peer: "decode-0"}
			f.Pages = lifecycle.Runs{{First: 1, Count: 2}}
			more(f)
			l.Step(f)
		}
		l.Step(openPool("decode-0", 8, nil))
		l.Step(openPool("prefill-0", 8, nil))
		plain := func(*lifecycle.Fact) {}
		say("prefill-0", lifecycle.PagesReserved, plain)
		say("prefill-0", lifecycle.PagesWritten, func(f *lifecycle.Fact) { f.By = lifecycle.ByForward })
		say("prefill-0", lifecycle.TransferStarted, func(f *lifecycle.Fact) { f.Side = lifecycle.Sender })
		if itself {
			say("prefill-0", lifecycle.TransferDrained, func(f *lifecycle.Fact) { f.Peer = "prefill-0" })
		}
		say("prefill-0", lifecycle.PagesReleased, plain)
		found := l.Close()
		if early := len(found) > 0; early == itself {
			t.Fatalf("drained by its own word %v: %+v", itself, found)
		}
	}
}
