package subscribe

import (
	"sync/atomic"

	"github.com/kvwitness/kvwitness/engine/zmtp"
)

// Loss says at which stage facts were lost, and why.
type Loss uint8

// The losses that there are.
const (
	// GapNotKept: batches that never came, and that the engine keeps no longer.
	GapNotKept Loss = iota
	// EngineQueue: the engine's own queue was full, which its numbers show.
	EngineQueue
	// OutOfOrder: facts of a replay that do not continue what came before.
	OutOfOrder
	// BadBatch: batches that are none of the format, counted as one fact each.
	BadBatch
	// BadFact: facts that are none of the format.
	BadFact
	// ForeignFact: of another instance, epoch or src than the stream's.
	ForeignFact
	// NotAClaim: events that an engine cannot witness.
	NotAClaim
	// NumLoss counts them.
	NumLoss
)

var losses = [NumLoss]struct{ stage, reason string }{
	GapNotKept:  {"stream", "not kept"},
	EngineQueue: {"engine", "queue full"},
	OutOfOrder:  {"stream", "out of order"},
	BadBatch:    {"decode", "not a batch"},
	BadFact:     {"decode", "not a fact"},
	ForeignFact: {"decode", "not of this stream"},
	NotAClaim:   {"decode", "not an engine's to say"},
}

// Stage is where the facts were lost: engine, stream or decode.
func (l Loss) Stage() string { return losses[l].stage }

// Reason is why.
func (l Loss) Reason() string { return losses[l].reason }

// State is how far a subscription has come.
type State uint32

// The states of a subscription.
const (
	// Waiting: the engine is not there, or says nothing.
	Waiting State = iota
	// CatchingUp: a snapshot or a replay is being taken.
	CatchingUp
	// Live: what the engine says is handed on as it comes.
	Live
)

func (s State) String() string { return [...]string{"waiting", "catching up", "live"}[s] }

// Stats counts since the start.
type Stats struct {
	State   State
	Epoch   uint64 // of the engine that is followed
	Batches uint64 // that came, replayed ones among them
	Facts   uint64 // that came
	Handed  uint64 // facts handed on, without those of this package's own
	Twice   uint64 // facts, or batches, that came before
	Lost    [NumLoss]uint64

	Snapshots uint64 // taken to their end
	Replays   uint64
	Retries   uint64 // answers that failed
	Gaps      uint64 // stream_gaps told
	Restarts  uint64 // epochs after the first
	Silences  uint64 // times that the stream said nothing for too long

	Socket zmtp.Stats // of the SUB socket; ReceiveWaiting is its fullness
}

type counters struct {
	state                                                 atomic.Uint32
	epoch, batches, facts, handed, twice                  atomic.Uint64
	snapshots, replays, retries, gaps, restarts, silences atomic.Uint64
	lost                                                  [NumLoss]atomic.Uint64
}

// Stats returns the counts so far. It may be called while Run runs.
func (s *Subscriber) Stats() Stats {
	c := &s.count
	out := Stats{
		State: State(c.state.Load()), Epoch: c.epoch.Load(), Batches: c.batches.Load(), Facts: c.facts.Load(),
		Handed: c.handed.Load(), Twice: c.twice.Load(), Snapshots: c.snapshots.Load(), Replays: c.replays.Load(),
		Retries: c.retries.Load(), Gaps: c.gaps.Load(), Restarts: c.restarts.Load(), Silences: c.silences.Load(),
		Socket: s.sub.Stats(),
	}
	for l := range out.Lost {
		out.Lost[l] = c.lost[l].Load()
	}
	return out
}
