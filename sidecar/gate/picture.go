package gate

import (
	"strings"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/canary"
	"github.com/kvwitness/kvwitness/sidecar/source/engineinfo"
)

// Picture is a deployment as it was seen.
type Picture struct {
	Engines []Engine
	Trials  map[Trial]Outcome
	// Preempted is how many requests gave up their pages meanwhile, as the engines
	// count them.
	Preempted lifecycle.Opt[int64]
	Witness   *Witness // nil: no sidecar was named
	// Without are protections that the operator does without, by their names.
	Without map[string]bool
}

// Engine is one engine of a deployment.
type Engine struct {
	Name string
	Role engineinfo.Role // as the operator says, else as it does itself
	Info engineinfo.Info
	// Missing are the endpoints that did not answer, in words.
	Missing []string
	// Held is how many pages requests hold once all are answered, where it says so.
	Held lifecycle.Opt[int64]
}

// Trial is a way in which a request meets admission.
type Trial uint8

// The trials.
const (
	Valid       Trial = iota // an ordinary request
	OverContext              // longer than the context
	OverPool                 // shorter than the context, longer than a pool
	Reentering               // asked, hung up on, and asked again
	Preempted                // so many at once that the pool cannot hold them
	Holding                  // answered at length while others are refused
	NumTrial
)

// Outcome is what came of a trial.
type Outcome struct {
	Want canary.Outcome
	// Got counts the answers by what they show.
	Got [canary.NumOutcome]int
	// Reason is the last one that was given for a refusal or failure.
	Reason string
	// Why says why it was not tried; "": it was.
	Why string
	// NoneSuch: there is no request of that kind here, by the deployment's numbers.
	NoneSuch bool
}

// Witness is what a sidecar found of the gate's own traffic.
type Witness struct {
	Problem     string         // why it could not be asked; "": it was
	Findings    map[string]int // by kind
	Examples    map[string]string
	Clean       int
	Violated    int
	Unwitnessed int            // of requests with a handoff
	HungUp      int            // requests that the gate itself hung up on
	Interrupted int            // handoffs that were not completed
	Why         map[string]int // they are, at most a few
}

// maxWhy bounds the reasons that are kept.
const maxWhy = 8

// Unseen counts a request that is unwitnessed. One without a handoff, such as a
// refused one, is none that could have been witnessed.
func (w *Witness) Unseen(why string) {
	switch {
	case strings.HasPrefix(why, "no handoff"):
		return
	case strings.HasPrefix(why, "the handoff was not completed"):
		w.Interrupted++
		return
	}
	w.Unwitnessed++
	if w.Why[why] > 0 || len(w.Why) < maxWhy {
		w.Why[why]++
	}
}
