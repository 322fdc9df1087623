package alert

import (
	"slices"
	"strings"

	push "github.com/kvwitness/kvwitness/sidecar/alert"
)

// Urgency is what an alert asks of people.
type Urgency uint8

// The urgencies.
const (
	None   Urgency = iota // it is shown
	Ticket                // somebody looks at it by day
	Page                  // somebody is woken
)

func (u Urgency) String() string { return [...]string{"none", "ticket", "page"}[u] }

// Job is the name of the scrape job of sidecars, and Team who answers for them.
const (
	Job  = "kvwitness"
	Team = push.Team
)

// Where are the labels of a target that say where it is. A scrape configuration
// gives them; see deploy/prometheus.
const Where = "cluster, model, node"

// Rule is one alert.
type Rule struct {
	Name    string
	Urgency Urgency
	Kind    string // of finding; "": about the witness, or about settings
	Expr    string // PromQL
	For     string // how long it must hold; "": at once
	Keep    string // how long it fires after it has ceased to hold
	Summary string // one line, may name labels
	Next    string // a command to begin with
	Runbook Runbook
}

// Runbook is what whoever is told does.
type Runbook struct {
	Means   string
	Claimed string // what the engine says
	Seen    string // what was seen of it
	Confirm []string
	Contain []string
	Whose   string
	Wake    string
}

// Rules are all alerts, the gravest first.
func Rules() []Rule {
	return slices.Concat(findings(), absence(), unseen(), gpus(), losses(), pressure(), evidence(), settings())
}

// lines is PromQL over several lines, so that the file is readable.
func lines(parts ...string) string { return strings.Join(parts, "\n") }
