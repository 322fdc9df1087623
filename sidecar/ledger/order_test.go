package ledger

import (
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// Promise: facts are held for the order time, which may be shorter than the settle time,
// and a read waits as long once more for its step: so a page that is given back twice
// is said at once.
func TestFactsWaitForTheirOrderAndReadsForTheirStep(t *testing.T) {
	const ms = int64(time.Millisecond)
	l := New(Config{Settle: 3 * time.Millisecond, Order: time.Millisecond})
	dec := lifecycle.NewJSONDecoder()
	for _, line := range []string{
		`{"t":1,"inst":"d","src":"engine","ev":"pool_opened","pool":"kv","pages":8,"page_tokens":16}`,
		`{"t":2,"inst":"d","src":"engine","ev":"request_admitted","req":"a","domain":"x"}`,
		`{"t":3,"inst":"d","src":"engine","ev":"pages_reserved","req":"a","pool":"kv","pages":[[1,5]]}`,
		`{"t":5,"inst":"d","src":"engine","ev":"pages_read","req":"a","pool":"kv","pages":[[1,1]],"step":1}`,
		`{"t":6,"inst":"d","src":"engine","ev":"pages_released","req":"a","pool":"kv","pages":[[2,1]]}`,
		`{"t":7,"inst":"d","src":"engine","ev":"pages_released","req":"a","pool":"kv","pages":[[2,1]]}`,
	} {
		f, err := dec.Decode([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		if found := l.Step(f); len(found) > 0 {
			t.Fatalf("%s was judged before its time: %v", line, found)
		}
	}
	for _, want := range []struct {
		at    int64
		found string
	}{{ms + 6, ""}, {ms + 7, "double_release"}, {2*ms + 4, ""}, {2*ms + 5, "stale_read"}} {
		said := ""
		for _, f := range l.Advance(want.at) {
			said += f.Kind.String()
		}
		if said != want.found {
			t.Errorf("at %d ns %q is said, want %q", want.at, said, want.found)
		}
	}
}
