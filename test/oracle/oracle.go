// Package oracle is a second ledger: the rules of DESIGN section 6 and of
// sidecar/ledger/READINGS.md once more, written from those two texts alone, for
// tests that hold the real ledger against it.
//
// It keeps everything for ever, scans all of it for every fact and forgets no
// generation; it is slow on purpose, so that each rule stands as it is written.
// It may import engine/lifecycle and sidecar/finding, never the ledger. It
// promises not to panic on any facts that a decoder lets through. Where the
// texts do not decide, OPEN.md says what it does.
package oracle

import (
	"math"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// Config holds the times of the rules, in nanoseconds. Zero stands for the
// default.
type Config struct {
	Settle int64 // how long facts are held back: 20 ms
	Grace  int64 // how long a pool's count may differ: 1 s
	Stall  int64 // how long a reservation may rest: 30 s
}

// maxPages is how many pages one fact may name before the oracle treats it as
// a late one: it accuses of nothing and costs sight of its whole pool.
const maxPages = 1 << 13

// Judge applies facts, given in the order of their arrival, and returns what
// it finds in the order in which it was found, and every verdict.
func Judge(facts []*lifecycle.Fact, cfg Config) ([]finding.Finding, []finding.Verdict) {
	o := &oracle{
		cfg:     cfg.withDefaults(),
		offsets: map[string]int64{},
		streams: map[streamKey]*stream{},
		insts:   map[string]*instance{},
		rooms:   map[string]*room{},
		pairs:   map[pair]bool{},
		digests: map[digestKey]*digests{},
	}
	for _, f := range facts {
		o.arrive(f)
	}
	o.end()
	return o.findings(), o.verdicts()
}

func (c Config) withDefaults() Config {
	if c.Settle == 0 {
		c.Settle = 20e6
	}
	if c.Grace == 0 {
		c.Grace = 1e9
	}
	if c.Stall == 0 {
		c.Stall = 30e9
	}
	return c
}

// oracle is all that was ever said.
type oracle struct {
	cfg Config

	// order.go
	offsets  map[string]int64 // by node
	window   []*entry         // arrived and not applied, by time
	openings []*entry         // of these, the pool_opened that name an epoch
	arrived  int
	highest  int64 // the highest time that arrived
	begun    bool  // whether one arrived at all
	streams  map[streamKey]*stream
	now      int64 // the time of the facts that are applied
	applied  int   // how many were: an order finer than time

	released []batchRelease // by the batch that is applied (R3c)

	insts     map[string]*instance
	instOrder []*instance
	rooms     map[string]*room // the present incarnation of each
	roomOrder []*room          // every incarnation
	transfers []*transfer
	strays    []stray        // what was posted astray, and not seen to end
	waiting   []*waitingRead // reads with a step that found something unwritten
	pairs     map[pair]bool  // of instances that were compared
	digests   map[digestKey]*digests

	processes []process // by the driver

	asked    []question               // whether halves name as many pages
	readThen map[*generation]*content // what lay in the pages of the read that is decided, when it read

	said []*saying
}

// end is the end of the trace: everything is applied, and what still waits is
// judged.
func (o *oracle) end() {
	o.applyUpTo(math.MaxInt64)
	for len(o.waiting) > 0 {
		o.decideRead(o.waiting[0])
	}
	for _, r := range o.roomOrder {
		for _, h := range r.handoffs {
			o.judgeAtEnd(h)
		}
	}
	for len(o.asked) > 0 {
		o.answer(o.asked[0].sender)
	}
}
