package replay

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/ledger"
)

// maxUnknown is how many names of unknown events are counted apart.
const maxUnknown = 16

// Summary is what a replay read and said.
type Summary struct {
	Files    int
	Facts    int
	Findings [finding.NumKind]int
	Verdicts [finding.NumOutcome]int
	Unknown  map[string]int // events that this version does not know, by name
	Lost     uint64         // events that sources said they lost
	Ledger   ledger.Stats
	Broken   error // why a trace ended early
}

// Found is how many findings there were.
func (s *Summary) Found() (n int) {
	for _, count := range s.Findings {
		n += count
	}
	return n
}

func (s *Summary) count(f *lifecycle.Fact) {
	s.Facts++
	switch f.Ev {
	case lifecycle.EvUnknown:
		s.countUnknown(f.Name)
	case lifecycle.EventsLost:
		s.Lost += f.Count
	}
}

func (s *Summary) countUnknown(name string) {
	if s.Unknown == nil {
		s.Unknown = make(map[string]int)
	}
	if _, known := s.Unknown[name]; !known && len(s.Unknown) >= maxUnknown {
		name = "other"
	}
	s.Unknown[name]++
}

// Lines are the summary for people: what was read, what was found, what the
// verdicts are, and what the judgement lacks.
func (s *Summary) Lines() []string {
	lines := []string{
		fmt.Sprintf("%s from %s: %s", number(s.Facts, "fact", "facts"), number(s.Files, "trace", "traces"), s.findings()),
		"verdicts: " + s.verdicts(),
	}
	if lacks := s.lacks(); len(lacks) > 0 {
		lines = append(lines, "the judgement lacks: "+strings.Join(lacks, "; "))
	}
	if s.Broken != nil {
		lines = append(lines, "a trace breaks off: what was open then is judged by what was known then")
	}
	return lines
}

func (s *Summary) findings() string {
	if s.Found() == 0 {
		return "no finding"
	}
	var kinds []string
	for k, n := range s.Findings {
		if n > 0 {
			kinds = append(kinds, fmt.Sprintf("%s %s", finding.Kind(k), thousands(n)))
		}
	}
	return number(s.Found(), "finding", "findings") + " (" + strings.Join(kinds, ", ") + ")"
}

func (s *Summary) verdicts() string {
	var each []string
	for outcome, n := range s.Verdicts {
		each = append(each, fmt.Sprintf("%s %s", thousands(n), finding.Outcome(outcome)))
	}
	return strings.Join(each, ", ")
}

// lacks lists what was not judged as it should be.
func (s *Summary) lacks() (lacks []string) {
	unknown := 0
	var names []string
	for _, name := range slices.SortedFunc(maps.Keys(s.Unknown), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.Unknown[b], s.Unknown[a]), cmp.Compare(a, b))
	}) {
		unknown += s.Unknown[name]
		names = append(names, fmt.Sprintf("%s %s", printable(name), thousands(s.Unknown[name])))
	}
	if unknown > 0 {
		lacks = append(lacks, fmt.Sprintf("%s that this version does not know (%s)", number(unknown, "event", "events"), strings.Join(names, ", ")))
	}
	for _, l := range []struct {
		n         uint64
		one, many string
	}{
		{s.Ledger.Late, "fact that came too late", "facts that came too late"},
		{s.Ledger.Duplicates, "fact that came twice", "facts that came twice"},
		{s.Ledger.Outdated, "fact of an epoch that is over", "facts of epochs that are over"},
		{s.Lost, "event that was lost", "events that were lost"},
		{s.Ledger.Missing, "sequence number that never came", "sequence numbers that never came"},
		{s.Ledger.NoPool, "fact about a pool that was never opened", "facts about pools that were never opened"},
		{s.Ledger.Impossible, "fact about pages that cannot be", "facts about pages that cannot be"},
		{s.Ledger.Elsewhere, "write outside every region", "writes outside every region"},
		{s.Ledger.Unjudged, "fact about too many instances", "facts about too many instances"},
		{forgotten(s.Ledger.Forgotten), "thing forgotten at a limit (kvwitness config)", "things forgotten at a limit (kvwitness config)"},
	} {
		if l.n > 0 {
			lacks = append(lacks, number(int(min(l.n, math.MaxInt64)), l.one, l.many))
		}
	}
	return lacks
}

// forgotten adds up what was beyond limits. Requests that had ended are not
// among it: to forget those is how a ledger stays small, and costs nothing
// unless facts about them come late, which are counted as such.
func forgotten(f ledger.Forgotten) uint64 {
	return f.Instances + f.Pools + f.Requests + f.Transfers + f.Activity + f.Fragments +
		f.Releases + f.Given + f.Window + f.Digests + f.Pending + f.Peers + f.Samples
}

func number(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return thousands(n) + " " + many
}

// thousands writes 1234567 as 1,234,567.
func thousands(n int) string {
	digits := fmt.Sprint(n)
	var b strings.Builder
	for i, d := range digits {
		if left := len(digits) - i; i > 0 && left%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}
