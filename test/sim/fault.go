package sim

import (
	"math/rand/v2"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// Fault is one way to break one rule.
type Fault struct {
	Name   string
	Kind   finding.Kind
	Beside []finding.Kind // what may follow from the same fault
	Mixes  []string       // where it can be put in
}

// Want is the finding that a fault deserves. Pages are all those that the
// finding must name; an empty Req, Room or Pool is not compared.
type Want struct {
	Kind      finding.Kind
	Inst      string
	Req, Room string
	Pool      string
	Pages     lifecycle.Runs
}

// Strike is one fault put into one trace.
type Strike struct {
	Fault *Fault
	Skip  int // opportunities to let pass
	Seen  int // opportunities so far
	Done  bool
	Want  Want
	rng   *rand.Rand
}

// strikes reports whether the fault of that name is put in here and now. It
// is asked where the fault would be possible.
func (s *Sim) strikes(name string) bool {
	k := s.Strike
	if k == nil || k.Fault.Name != name || s.givenUp {
		return false
	}
	k.Seen++
	if k.Done || k.Seen <= k.Skip {
		return false
	}
	k.Done = true
	return true
}
