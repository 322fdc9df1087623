package sim

import (
	"fmt"
	"io"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// Stepper is a judge that takes facts one by one. What Step and Close return
// is valid until the next call; Verdicts returns those given since the last.
type Stepper interface {
	Step(f *lifecycle.Fact) []finding.Finding
	Close() []finding.Finding
	Verdicts() []finding.Verdict
}

// Whole makes a Judge of whole traces from a Stepper.
func Whole(start func() Stepper) Judge {
	return func(facts []*lifecycle.Fact) ([]finding.Finding, []finding.Verdict) {
		judge := start()
		var findings []finding.Finding
		for _, f := range facts {
			findings = append(findings, judge.Step(f)...)
		}
		findings = append(findings, judge.Close()...)
		return findings, judge.Verdicts()
	}
}

// Stream sends n facts of valid traffic of one cluster, and those that end
// it, through a judge without keeping them, telling out how far it is. It
// stops at the first objection.
func Stream(seed uint64, mix Mix, n int, judge Stepper, out io.Writer) *Objection {
	s := New(seed, mix)
	deserved := Deserved{Verdicts: s.expected}
	begun, done := time.Now(), 0
	for f := range s.Facts(1 << 40) {
		done++
		o := deserved.takeFindings(judge.Step(f))
		if done%10_000 == 0 && o == nil {
			o = deserved.takeVerdicts(judge.Verdicts())
		}
		if o != nil {
			return o
		}
		if done%1_000_000 == 0 {
			fmt.Fprintf(out, "%s: %d facts, %d requests, %.0f facts/s\n", mix.Name, done, s.requests, float64(done)/time.Since(begun).Seconds())
		}
		s.closing = s.closing || done >= n
	}
	deserved.Blind = s.blind
	if o := deserved.takeFindings(judge.Close()); o != nil {
		return o
	}
	if o := deserved.takeVerdicts(judge.Verdicts()); o != nil {
		return o
	}
	return deserved.rest()
}
