package replay

import (
	"fmt"
	"io"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/ledger"
)

// Judge is what a ledger does for a replay. What Step and Close return is
// valid until the next call.
type Judge interface {
	Step(f *lifecycle.Fact) []finding.Finding
	Close() []finding.Finding
	Verdicts() []finding.Verdict
	Stats() ledger.Stats
}

// Output is told what the judge says, as it says it. Neither what it is given
// nor what that points to may be kept.
type Output interface {
	Finding(f *finding.Finding) error
	Verdict(v *finding.Verdict) error
	// End is called once, after the last of them.
	End(s *Summary) error
}

// verdictsEvery is after how many facts the verdicts are fetched.
const verdictsEvery = 1 << 10

// Run judges the traces. It returns the summary and why a trace could not be
// read to its end (a *lifecycle.LineError) or the output not be written; what
// was judged until then has been said.
func Run(t *Traces, judge Judge, out Output) (*Summary, error) {
	r := replay{judge: judge, out: out, merge: t.merge}
	r.summary.Files = len(t.sources)
	broken, err := r.all()
	if err != nil {
		return &r.summary, err
	}
	if err := r.say(judge.Close()); err != nil {
		return &r.summary, err
	}
	if err := r.sayVerdicts(); err != nil {
		return &r.summary, err
	}
	r.summary.Broken = broken
	r.summary.Ledger = judge.Stats()
	if err := out.End(&r.summary); err != nil {
		return &r.summary, fmt.Errorf("write the summary: %w", err)
	}
	return &r.summary, broken
}

type replay struct {
	judge   Judge
	out     Output
	merge   *merge
	summary Summary
}

// all judges every fact. broken is why a trace ended early, err why the
// replay itself must.
func (r *replay) all() (broken, err error) {
	for {
		f, err := r.merge.next()
		if err == io.EOF {
			return nil, nil
		}
		if err != nil {
			return err, nil
		}
		r.summary.count(f)
		if err := r.say(r.judge.Step(f)); err != nil {
			return nil, err
		}
		if r.summary.Facts%verdictsEvery == 0 {
			if err := r.sayVerdicts(); err != nil {
				return nil, err
			}
		}
	}
}

func (r *replay) say(findings []finding.Finding) error {
	for i := range findings {
		r.summary.Findings[findings[i].Kind]++
		if err := r.out.Finding(&findings[i]); err != nil {
			return fmt.Errorf("write a finding: %w", err)
		}
	}
	return nil
}

func (r *replay) sayVerdicts() error {
	verdicts := r.judge.Verdicts()
	for i := range verdicts {
		r.summary.Verdicts[verdicts[i].Verdict]++
		if err := r.out.Verdict(&verdicts[i]); err != nil {
			return fmt.Errorf("write a verdict: %w", err)
		}
	}
	return nil
}
