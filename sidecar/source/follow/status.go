package follow

import (
	"github.com/kvwitness/kvwitness/engine/lifecycle/subscribe"
	"github.com/kvwitness/kvwitness/sidecar/intake"
	"github.com/kvwitness/kvwitness/sidecar/source/engineinfo"
)

// Loss says at which stage facts of an engine were lost, and why: those of the
// subscription first, then those of this package, then those of the intake.
type Loss uint8

// The losses of this package.
const (
	TooManyPeers Loss = Loss(subscribe.NumLoss) + iota
	TooManyPools
	TooManyPages
	firstOfIntake
)

// NumLoss counts all losses.
const NumLoss = firstOfIntake + Loss(intake.NumLoss)

// Stage is where the facts were lost: engine, stream, decode, guard or intake.
func (l Loss) Stage() string {
	switch {
	case l < TooManyPeers:
		return subscribe.Loss(l).Stage()
	case l < firstOfIntake:
		return "guard"
	}
	return "intake"
}

// Reason is why.
func (l Loss) Reason() string {
	switch {
	case l < TooManyPeers:
		return subscribe.Loss(l).Reason()
	case l < firstOfIntake:
		return [...]string{"too many peers", "too many pools", "too many pages"}[l-TooManyPeers]
	}
	return intake.Loss(l - firstOfIntake).String()
}

// Status is how a Follower stands. Counts are since it began, over all
// instances that the engine has had.
type Status struct {
	Name     string
	Instance string // "" while it is not known
	Endpoint string
	State    subscribe.State
	Epoch    uint64

	// Seen = Handled + Lost + what waits in the Queue.
	Seen    uint64 // facts that came, or are known to have been missed, and the gaps told
	Handled uint64 // facts handed to the judge, came twice, or were for the subscription
	Lost    [NumLoss]uint64

	Batches, Snapshots, Replays, Retries, Gaps, Restarts, Silences uint64
	Socket                                                         Fullness // messages that wait in the SUB socket
	Queue                                                          intake.Stats
	Said                                                           Said
	Poll                                                           engineinfo.Poll
	Instances                                                      int // that the engine has had
	Refused                                                        string
}

// Fullness is how many bytes of how many are in use.
type Fullness struct{ Bytes, Limit int }

// add puts the counts of a subscription on top of those before it.
func (s *Status) add(st subscribe.Stats) {
	for l, n := range st.Lost {
		s.Lost[l] += n
	}
	s.Seen += st.Facts + st.Gaps + st.Lost[subscribe.GapNotKept] + st.Lost[subscribe.EngineQueue]
	s.Handled += st.Twice + st.Handed + st.Gaps
	s.Batches += st.Batches
	s.Snapshots += st.Snapshots
	s.Replays += st.Replays
	s.Retries += st.Retries
	s.Gaps += st.Gaps
	s.Restarts += st.Restarts
	s.Silences += st.Silences
}
