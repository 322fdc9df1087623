package demo

import (
	"fmt"
	"slices"
	"time"
)

// row is what came of one scenario.
type row struct {
	Scenario string             `json:"scenario"`
	Requests int                `json:"requests"` // those of the table: B's, or all
	Status   map[int]int        `json:"http_status"`
	Leaked   bool               `json:"secret_leaked"`
	Findings map[string]int     `json:"findings"`
	Verdict  string             `json:"verdict"` // on B's request, or the strongest of all
	Why      string             `json:"why"`
	Verdicts map[string]int     `json:"verdicts,omitempty"` // of all requests
	Exposed  []party            `json:"exposed"`
	Delay    map[string]float64 `json:"finding_delay_ms"` // arrival of the fact to the first finding of a kind
	First    *float64           `json:"first_finding_before_first_token_ms,omitempty"`
	Latency  []float64          `json:"latency_ms"`
	Tokens   int                `json:"answer_tokens"`
	Took     float64            `json:"seconds"`
	Wrong    []string           `json:"wrong"`
	// Unhurried: the machine was too busy, and the sidecar waited longer for facts.
	Unhurried bool `json:"unhurried"`

	allowed []string // kinds that may be there too
	found   []found
	room    string    // of B's request
	token   time.Time // when the first piece of B's answer came
	kept    *set
}

func (r *row) wrong(format string, args ...any) {
	r.Wrong = append(r.Wrong, fmt.Sprintf(format, args...))
}

// take adds an answer.
func (r *row) take(a *answer, leaked bool) {
	if r.Status == nil {
		r.Status = map[int]int{}
	}
	r.Requests++
	r.Status[a.Status]++
	r.Leaked = r.Leaked || leaked
	r.Latency = append(r.Latency, float64(a.Latency.Microseconds())/1e3)
	r.Tokens += a.Tokens
	r.token = a.First
}

// expect notes where status, leak and verdict are not those.
func (r *row) expect(status int, leaked bool, verdict string) {
	for got, n := range r.Status {
		if got != status {
			r.wrong("%d answers with HTTP %d, want %d", n, got, status)
		}
	}
	if r.Leaked != leaked {
		r.wrong("a secret in another's answer: %v, want %v", r.Leaked, leaked)
	}
	if r.Verdict != verdict {
		r.wrong("the verdict is %s (%s), want %s", r.Verdict, r.Why, verdict)
	}
}

// allow notes findings of kinds that should not be there.
func (r *row) allow(kinds ...string) {
	for _, f := range r.found {
		if !slices.Contains(kinds, f.Said.Kind) && !slices.Contains(r.allowed, f.Said.Kind) {
			r.wrong("%s (%s)", f.Said.Kind, f.Said.Observation)
		}
	}
}

// summarize adds up the findings.
func (r *row) summarize() {
	r.Findings, r.Delay = map[string]int{}, map[string]float64{}
	for _, f := range r.found {
		r.Findings[f.Said.Kind]++
		if _, known := r.Delay[f.Said.Kind]; !known && f.Said.Room == r.room && f.Delay > 0 {
			r.Delay[f.Said.Kind] = f.Delay * 1e3
		}
		for _, p := range f.Said.Exposed {
			if !slices.Contains(r.Exposed, p) {
				r.Exposed = append(r.Exposed, p)
			}
		}
		if r.First == nil && r.room != "" && f.Said.Room == r.room && !r.token.IsZero() {
			ahead := float64(r.token.Sub(f.At).Microseconds()) / 1e3
			r.First = &ahead
		}
	}
}
