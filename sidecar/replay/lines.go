package replay

import (
	"bufio"
	"io"

	"github.com/go-json-experiment/json"

	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// Lines writes findings as JSON Lines in the order in which they are said,
// with Verdicts also the verdicts. The summary goes to Notes, so that every
// line of the output is an object.
type Lines struct {
	out      *bufio.Writer
	notes    io.Writer
	verdicts bool
}

// NewLines writes to out; the summary goes to notes.
func NewLines(out, notes io.Writer, verdicts bool) *Lines {
	return &Lines{bufio.NewWriterSize(out, 64<<10), notes, verdicts}
}

// Finding writes one finding at once: whoever reads along must not wait.
func (l *Lines) Finding(f *finding.Finding) error {
	if err := l.object(f); err != nil {
		return err
	}
	return l.out.Flush()
}

// Verdict writes one verdict, if verdicts were asked for.
func (l *Lines) Verdict(v *finding.Verdict) error {
	if !l.verdicts {
		return nil
	}
	return l.object(v)
}

// End writes the summary to the notes.
func (l *Lines) End(s *Summary) error {
	if err := l.out.Flush(); err != nil {
		return err
	}
	for _, line := range s.Lines() {
		if _, err := io.WriteString(l.notes, line+"\n"); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lines) object(v any) error {
	if err := json.MarshalWrite(l.out, v, json.Deterministic(true)); err != nil {
		return err
	}
	return l.out.WriteByte('\n')
}
