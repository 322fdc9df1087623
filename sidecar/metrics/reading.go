package metrics

import (
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/profile"
	"github.com/kvwitness/kvwitness/sidecar/evidence"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/intake"
	"github.com/kvwitness/kvwitness/sidecar/ledger"
	"github.com/kvwitness/kvwitness/sidecar/peer"
	"github.com/kvwitness/kvwitness/sidecar/record"
	"github.com/kvwitness/kvwitness/sidecar/report"
	"github.com/kvwitness/kvwitness/sidecar/source/follow"
	"github.com/kvwitness/kvwitness/sidecar/source/kvevents"
	"github.com/kvwitness/kvwitness/sidecar/source/logs"
)

// Judged is what the judge has come to.
type Judged struct {
	Stats ledger.Stats
	Sizes ledger.Sizes
	// Findings by kind, those that wake somebody first; Verdicts by outcome,
	// those on real traffic first.
	Findings  [finding.NumKind][2]uint64
	Verdicts  [finding.NumOutcome][2]uint64
	Unwritten uint64 // pages of stale reads
	Undated   uint64 // findings without a delay
}

// Reading is all that is shown, at one moment.
type Reading struct {
	Now     int64 // ns, on the node's clock
	Engines []follow.Status
	Beside  []Beside // what else is followed of engines
	Judged  Judged
	// Covered are the instances into which all transfers of a source are seen; of the
	// driver, those whose memory is known.
	Covered    map[lifecycle.Src]map[string]bool
	Limits     ledger.Limits
	QueueBytes int // of an engine's facts
	Record     record.Stats
	Recording  bool
	Dropped    uint64 // lines
	Waiting    int    // bytes of lines
	Peers      []peer.Status
	Serving    bool // peers are
	Served     peer.Served
	GPUs       *GPUs   // nil: nobody asks
	Copies     *Copies // nil: nobody looks
	Shadow     bool
	ReloadOK   bool
	ReloadAt   time.Time
	Open       [finding.NumKind]int // disclosures that nobody has closed
	Pushed     [2]uint64            // to Alertmanagers: that went well, and that failed
	Evidence   evidence.GatherStats
	SetAside   bool // the evidence was damaged
	Profiles   profile.Stats
}

// Beside is what is followed of an engine beside its stream and its endpoints.
type Beside struct {
	Name string
	KV   kvevents.Stats
	Log  [logs.NumLine]uint64
}

// bounded is a thing with a limit, and how much of it is in use.
type bounded struct {
	name      string
	used      func(r *Reading) int
	limit     func(r *Reading) int
	forgotten func(r *Reading) uint64 // nil: nothing is forgotten there
}

var boundedThings = []bounded{
	{"instances", sizes(func(s *ledger.Sizes) int { return s.Instances }), limits(func(l *ledger.Limits) int { return l.Instances }), gone(func(f *ledger.Forgotten) uint64 { return f.Instances })},
	{"pools", sizes(func(s *ledger.Sizes) int { return s.Pools }), limits(func(l *ledger.Limits) int { return l.Pools }), gone(func(f *ledger.Forgotten) uint64 { return f.Pools })},
	{"pages", sizes(func(s *ledger.Sizes) int { return s.Pages }), limits(func(l *ledger.Limits) int { return l.Pages }), nil},
	{"requests", sizes(func(s *ledger.Sizes) int { return s.Requests }), limits(func(l *ledger.Limits) int { return l.Requests }), gone(func(f *ledger.Forgotten) uint64 { return f.Requests })},
	{"ended", sizes(func(s *ledger.Sizes) int { return s.Ended }), limits(func(l *ledger.Limits) int { return l.Ended }), gone(func(f *ledger.Forgotten) uint64 { return f.Ended })},
	{"rooms", sizes(func(s *ledger.Sizes) int { return s.Rooms }), limits(func(l *ledger.Limits) int { return l.Requests + l.Ended }), gone(func(f *ledger.Forgotten) uint64 { return f.Rooms })},
	{"transfers", nil, nil, gone(func(f *ledger.Forgotten) uint64 { return f.Transfers })},
	{"activity", sizes(func(s *ledger.Sizes) int { return s.Activity }), limits(func(l *ledger.Limits) int { return l.Activity }), gone(func(f *ledger.Forgotten) uint64 { return f.Activity })},
	{"strays", sizes(func(s *ledger.Sizes) int { return s.Strays }), limits(func(l *ledger.Limits) int { return l.Strays }), gone(func(f *ledger.Forgotten) uint64 { return f.Strays })},
	{"fragments", sizes(func(s *ledger.Sizes) int { return s.Fragments }), limits(func(l *ledger.Limits) int { return l.Fragments }), gone(func(f *ledger.Forgotten) uint64 { return f.Fragments })},
	{"releases", nil, nil, gone(func(f *ledger.Forgotten) uint64 { return f.Releases })},
	{"past owners", nil, nil, gone(func(f *ledger.Forgotten) uint64 { return f.Given })},
	{"window", sizes(func(s *ledger.Sizes) int { return s.Window }), limits(func(l *ledger.Limits) int { return l.Window }), gone(func(f *ledger.Forgotten) uint64 { return f.Window })},
	{"digests", nil, nil, gone(func(f *ledger.Forgotten) uint64 { return f.Digests })},
	{"pending reads", sizes(func(s *ledger.Sizes) int { return s.Pending }), limits(func(l *ledger.Limits) int { return l.Pending }), gone(func(f *ledger.Forgotten) uint64 { return f.Pending })},
	{"peers", nil, nil, gone(func(f *ledger.Forgotten) uint64 { return f.Peers })},
	{"samples", nil, nil, gone(func(f *ledger.Forgotten) uint64 { return f.Samples })},
	{"evidence", func(r *Reading) int { return r.Evidence.Waiting }, func(*Reading) int { return evidence.QueueBytes }, nil},
	{"lines", func(r *Reading) int { return r.Waiting }, func(*Reading) int { return report.QueueBytes }, nil},
	{"record", func(r *Reading) int { return r.Record.Waiting }, func(*Reading) int { return record.QueueBytes }, nil},
}

func sizes(of func(*ledger.Sizes) int) func(*Reading) int {
	return func(r *Reading) int { return of(&r.Judged.Sizes) }
}

func limits(of func(*ledger.Limits) int) func(*Reading) int {
	return func(r *Reading) int { return of(&r.Limits) }
}

func gone(of func(*ledger.Forgotten) uint64) func(*Reading) uint64 {
	return func(r *Reading) uint64 { return of(&r.Judged.Stats.Forgotten) }
}

func things() (names []string) {
	for _, b := range boundedThings {
		names = append(names, b.name)
	}
	return names
}

// fates are what can become of a fact that reached the judge.
var fates = []struct {
	name string
	n    func(s *ledger.Stats) uint64
}{
	{"applied", func(s *ledger.Stats) uint64 { return s.Applied }},
	{"duplicate", func(s *ledger.Stats) uint64 { return s.Duplicates }},
	{"late", func(s *ledger.Stats) uint64 { return s.Late }},
	{"outdated", func(s *ledger.Stats) uint64 { return s.Outdated }},
	{"unjudged", func(s *ledger.Stats) uint64 { return s.Unjudged }},
}

func outcomes() (names []string) {
	for _, f := range fates {
		names = append(names, f.name)
	}
	return names
}

// seconds since t, a time of the node's clock.
func (r *Reading) since(t int64) float64 { return time.Duration(r.Now - t).Seconds() }

// queueLimit is the limit of an engine's queue.
func (r *Reading) queueLimit() int {
	if r.QueueBytes > 0 {
		return r.QueueBytes
	}
	return intake.DefaultQueueBytes
}
