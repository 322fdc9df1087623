package witness

import (
	"testing"

	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// Promise: a writer whose first try fails, and which then tries again over a new queue
// pair, as Mooncake does, is clean where all was written in the end, and short where it
// was not.
func TestATryOverANewQueuePairCounts(t *testing.T) {
	w := watch(t, knownPages, verbsPeers)
	p := proved(t, w, 0)
	again := func(moves [][3]uint64) func() {
		return func() {
			p.post("first", p.whole(eight[:2]...))()
			p.decode.do("destroy", map[string]any{"pair": "first"})
			p.prefill.do("destroy", map[string]any{"pair": "first"})
			p.numbers[0] += 2
			p.numbers[1] += 2
			p.join("nic", "first", p.numbers[0], p.numbers[1])
			p.post("first", moves)()
		}
	}
	want := map[string]finding.Outcome{p.handoff(eight, again(p.whole(eight...))): finding.Clean}
	want[p.handoff(eight, again(p.whole(eight[:3]...)))] = finding.Violated
	want[p.good()] = finding.Clean
	expect(t, w, want)
	if len(w.problems) > 0 {
		t.Errorf("problems %q", w.problems)
	}
}
