package daemon

import (
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/intake"
	"github.com/kvwitness/kvwitness/sidecar/ledger"
	"github.com/kvwitness/kvwitness/sidecar/report"
)

// judgeOf judges what comes in, and nobody makes anything of it.
func judgeOf(t testing.TB, in *intake.Intake, now func() int64) *judge {
	const settle = 3 * time.Millisecond
	log := report.New(nil)
	t.Cleanup(func() { log.Close(0) })
	return &judge{
		in: in, ledger: ledger.New(ledger.Config{Settle: settle, Order: inOrder}), settle: settle, log: log, now: now,
		shadow: func() bool { return false }, anothers: func(string) bool { return false }, found: func(time.Duration, uint64) {},
	}
}

// Promise: the judge takes no rest as long as what it was told may yet break a rule,
// however late the others are expected to speak.
func TestTheJudgeRestsOnlyWhenAllIsJudged(t *testing.T) {
	clock := int64(time.Second)
	in := intake.New(intake.Config{Now: func() int64 { return clock }, Slack: 100 * time.Millisecond})
	j := judgeOf(t, in, func() int64 { return clock })
	src := in.Open("d", func() intake.Standing { return intake.Live })
	dec := lifecycle.NewJSONDecoder()
	for _, line := range []string{
		`{"t":1000000001,"inst":"d","src":"engine","ev":"pool_opened","pool":"kv","pages":8,"page_tokens":16}`,
		`{"t":1000000002,"inst":"d","src":"engine","ev":"request_admitted","req":"a"}`,
		`{"t":1000000003,"inst":"d","src":"engine","ev":"pages_reserved","req":"a","pool":"kv","pages":[[1,5]]}`,
		`{"t":1000000004,"inst":"d","src":"engine","ev":"pages_read","req":"a","pool":"kv","pages":[[1,1]],"step":1}`,
	} {
		f, err := dec.Decode([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		src.Put(t.Context(), f)
	}
	turns := 0
	for ; j.turn(); clock += turn.Nanoseconds() {
		if turns++; turns > 1000 {
			t.Fatal("the judge takes no rest")
		}
	}
	if n := len(j.log.Findings(0, 10)); n != 1 {
		t.Errorf("the judge rests after %d turns, and has said %d of 1", turns, n)
	}
}
