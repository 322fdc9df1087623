// Package drill says what a watcher must find of each drill, from what kvengine
// tells of itself: the one list that documents, the command and the tests share.
//
// [Stops] says what a client sees where one protection alone stops a drill.
//
// It imports engine/scheduler, whose Drills say what each fault is and which
// protections stop it. It promises nothing about what a watcher sees beyond the
// engine's own words: where the bytes are watched, more is found.
package drill

import "github.com/kvwitness/kvwitness/engine/scheduler"

// Expectation is what the lifecycle stream of a drill gives.
type Expectation struct {
	// Findings by their names, each at least once, and no other.
	Findings []string
	// Why in a sentence or two.
	Why string
}

var expected = map[scheduler.Drill]Expectation{
	scheduler.RejectedHandoff: {
		[]string{"capacity_inversion", "rejected_handoff", "short_handoff", "stale_read"},
		"the context is longer than prefill's pool, the rejected request is sent and answered, one page of eight is written, and attention reads all eight",
	},
	scheduler.EarlyRelease: {
		[]string{"early_release"},
		"decode gives pages back while its peer may still write to them. The late bytes are seen only by one who watches the transfer (write_after_release)",
	},
	scheduler.LateChunk: {
		[]string{"rejected_handoff"},
		"prefill says that the request is aborted, and starts a transfer for it afterwards",
	},
	scheduler.DoubleRelease: {
		[]string{"foreign_page", "write_after_release", "double_hold", "double_release"},
		"a reference ends twice, so that two requests are handed the same pages: the second hand-out begins a new generation, in which the first still reads and writes",
	},
	scheduler.UnwrittenCache: {
		[]string{"stale_read"},
		"a request shares pages that are in the prefix cache and not yet written, and reads them",
	},
	scheduler.SaltDrop: {
		[]string{"tenant_crossing"},
		"pages of one tenant are shared with another",
	},
	scheduler.LayoutMismatch: {
		[]string{"layout_mismatch"},
		"the two instances announce pages of different heads",
	},
	scheduler.StalePull: {
		[]string{"stale_read"},
		"pages are the source of a transfer before they are written",
	},
	scheduler.LyingEngine: {
		nil,
		"both sides claim that all pages were written, and their claims agree. Only one who watches the bytes sees that one page came: this is why claims alone make no handoff clean",
	},
}

// Expected of a drill's stream; the zero Expectation for no drill.
func Expected(d scheduler.Drill) Expectation { return expected[d] }

// Refuses is the outcome of a protection by which an engine does not start.
const Refuses = 0

// outcomes are as test/e2e sees them, through router and sockets, with this one of
// the drill's protections kept on.
var outcomes = map[scheduler.Drill]map[scheduler.Protection]int{
	scheduler.RejectedHandoff: {
		scheduler.PoolGate: Refuses, scheduler.AdmissionReject: 400, scheduler.HandoffCompare: 502, scheduler.PageTags: 500, scheduler.HandoffDigest: 502,
	},
	scheduler.EarlyRelease:   {scheduler.DrainBeforeRelease: 200, scheduler.PageTags: 500},
	scheduler.LateChunk:      {scheduler.PageTags: 500, scheduler.DropLateWork: 200},
	scheduler.DoubleRelease:  {scheduler.PageTags: 500, scheduler.SingleRelease: 200},
	scheduler.UnwrittenCache: {scheduler.PageTags: 500, scheduler.WrittenFirst: 200},
	scheduler.SaltDrop:       {scheduler.DomainInKey: 200},
	scheduler.LayoutMismatch: {scheduler.HandoffDigest: 502, scheduler.LayoutCheck: 502},
	scheduler.StalePull:      {scheduler.PageTags: 500, scheduler.WrittenFirst: 200},
	scheduler.LyingEngine:    {scheduler.HandoffCompare: 502, scheduler.PageTags: 500, scheduler.HandoffDigest: 502},
}

// Stops says whether p alone stops d, and then with which HTTP status the request
// ends that would have been harmed: an error, or 200 with the right answer; Refuses
// where the engine does not start.
func Stops(d scheduler.Drill, p scheduler.Protection) (status int, stops bool) {
	status, stops = outcomes[d][p]
	return status, stops
}
