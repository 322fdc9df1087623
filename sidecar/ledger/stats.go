package ledger

import "github.com/kvwitness/kvwitness/sidecar/finding"

// Stats counts what became of the facts. Seen = Applied + Duplicates + Late +
// Outdated + Unjudged + those still waiting to be put in order.
type Stats struct {
	Seen       uint64
	Applied    uint64
	Duplicates uint64 // sequence numbers seen before
	Late       uint64 // came after what follows them was applied; accuse nobody
	Outdated   uint64 // of an epoch that is over
	Unjudged   uint64 // about more instances than are remembered
	Missing    uint64 // sequence numbers that never came
	NoPool     uint64 // facts about pools that were never opened
	Impossible uint64 // facts that name pages or addresses that cannot be
	Void       uint64 // applied, but it names what is not there, or lacks what it must say
	Elsewhere  uint64 // bytes_moved outside every region

	PagesReserved     uint64
	PagesWrittenClaim uint64
	PagesWrittenSeen  uint64
	PagesRead         uint64

	Findings  [finding.NumKind]uint64
	Verdicts  [finding.NumOutcome]uint64
	Forgotten Forgotten
}

// Forgotten counts what was beyond a limit, by the limit.
type Forgotten struct {
	Instances, Pools, Requests, Ended, Rooms, Transfers, Activity uint64
	Fragments, Releases, Given, Window, Digests, Pending, Peers   uint64
	Samples, Strays                                               uint64
}

// Sizes is how full the bounded things are; the limit of each is that of
// [Limits].
type Sizes struct {
	Instances, Pools, Pages, Requests, Ended, Activity, Fragments, Strays, Window, Pending int
	Rooms                                                                                  int // of Requests and Ended together
}

// Stats returns the counts so far.
func (l *Ledger) Stats() Stats { return l.stats }

// Sizes returns how much is remembered now.
func (l *Ledger) Sizes() Sizes {
	return Sizes{
		Instances: len(l.insts), Pools: l.pools, Pages: l.pages, Requests: l.live,
		Ended: len(l.ended) - l.gone, Activity: l.activities, Fragments: l.fragments, Strays: l.strays,
		Window: l.win.len(), Pending: l.pendingReads, Rooms: l.alive,
	}
}
