package finding

import "github.com/kvwitness/kvwitness/engine/lifecycle"

// Finding is one broken rule, with both sides of it: what the engine said and
// what was seen. It holds no content of any page.
type Finding struct {
	Kind        Kind     `json:"kind"`
	Severity    Severity `json:"severity"`
	T           int64    `json:"t"` // ns: when the fact that broke the rule was said or seen
	Node        string   `json:"node,omitzero"`
	Inst        string   `json:"inst,omitzero"`
	Req         string   `json:"req,omitzero"` // the request that broke the rule
	Room        string   `json:"room,omitzero"`
	Pool        string   `json:"pool,omitzero"`
	Pages       Pages    `json:"pages,omitzero"`
	Claim       string   `json:"claim,omitzero"`
	Observation string   `json:"observation,omitzero"`
	Exposed     []Party  `json:"exposed,omitempty"`
	Synthetic   bool     `json:"synthetic,omitzero"` // of warm-up or health traffic: wakes nobody
}

// Incident names what belongs together: the findings of one request, by its
// room where it has one. Findings about an instance alone are of the instance.
func (f *Finding) Incident() string {
	switch {
	case f.Room != "":
		return "room " + f.Room
	case f.Req != "":
		return "request " + f.Req + " on " + f.Inst
	}
	return "instance " + f.Inst
}

// Party is whose data was exposed: a request and its domain, as far as known.
type Party struct {
	Inst   string                `json:"inst"`
	Req    string                `json:"req,omitzero"`
	Domain lifecycle.Opt[string] `json:"-"`
}

// Pages are runs, written [[first, count], …].
type Pages lifecycle.Runs

// Outcome is the verdict on a request.
type Outcome uint8

// The verdicts of DESIGN section 1.
const (
	Violated Outcome = iota
	Clean
	Unwitnessed
	NumOutcome
)

var outcomeNames = [NumOutcome]string{"violated", "clean", "unwitnessed"}

func (o Outcome) String() string { return outcomeNames[o] }

// MarshalText writes the verdict's name.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(outcomeNames[o]), nil }

// Verdict is the one judgement on a request at its receiver. T is when it was
// given.
type Verdict struct {
	Verdict   Outcome `json:"verdict"`
	Req       string  `json:"req,omitzero"`
	Room      string  `json:"room,omitzero"`
	Inst      string  `json:"inst"`
	Why       string  `json:"why"`
	T         int64   `json:"-"`
	Synthetic bool    `json:"synthetic,omitzero"`
}
