package replay

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// Look is how people are shown what was found.
type Look struct {
	Width    int  // of a line, in runes
	Color    bool // by ANSI escapes
	Verdicts bool // a line for each verdict

	// Wall is the wall clock of a node at its time t (ns), where it is known.
	Wall func(node string, t int64) (time.Time, bool)
}

// Text writes one incident a block, the strongest first.
type Text struct {
	out     *bufio.Writer
	look    Look
	held    incidents
	printed int
	direct  bool // incidents are printed as they come
}

// NewText writes to out.
func NewText(out io.Writer, look Look) *Text {
	return &Text{out: bufio.NewWriterSize(out, 64<<10), look: look, held: newIncidents()}
}

// Finding holds a finding until the end, so that those of one incident stand
// together, unless there are too many.
func (t *Text) Finding(f *finding.Finding) error {
	t.held.add(f)
	if t.direct {
		return t.flush()
	}
	if t.held.held < maxHeld {
		return nil
	}
	t.direct = true
	if err := t.flush(); err != nil {
		return err
	}
	t.line(fmt.Sprintf("These were %s findings. What follows is printed as it comes, no longer put together.", thousands(maxHeld)))
	t.line("")
	return t.out.Flush()
}

// Verdict prints one line, if verdicts were asked for.
func (t *Text) Verdict(v *finding.Verdict) error {
	if !t.look.Verdicts {
		return nil
	}
	who := v.Inst
	if v.Room != "" {
		who += " room " + v.Room
	}
	if v.Req != "" {
		who += " request " + v.Req
	}
	t.line(fmt.Sprintf("%-11s  %s: %s", v.Verdict, printable(who), sentence(v.Why)))
	return nil
}

// End prints what is held and the summary.
func (t *Text) End(s *Summary) error {
	if t.look.Verdicts && s.Verdicts != [finding.NumOutcome]int{} {
		t.line("")
	}
	if err := t.flush(); err != nil {
		return err
	}
	for _, line := range s.Lines() {
		for i, part := range Wrap(line, t.look.Width-2) {
			if i > 0 {
				part = "  " + part
			}
			t.line(part)
		}
	}
	return t.out.Flush()
}

func (t *Text) flush() error {
	for _, in := range t.held.take() {
		t.printed++
		t.incident(t.printed, in)
	}
	return t.out.Flush()
}

// line writes one line; an error stays in the writer and comes out of Flush.
func (t *Text) line(s string) { fmt.Fprintln(t.out, strings.TrimRight(s, " ")) }

func (t *Text) incident(n int, in *incident) {
	top := in.strongest()
	t.line(fmt.Sprintf("INCIDENT %d  %s", n, t.severity(top.Severity)))
	t.wrapped(2, printable(in.name))
	t.wrapped(2, t.span(in))
	if top.Synthetic {
		t.wrapped(2, "synthetic traffic: wakes nobody")
	}
	for i := range in.findings {
		t.line("")
		t.finding(&in.findings[i])
	}
	t.exposed(in)
	t.line("")
	t.line("  what to do: kvwitness explain " + top.Kind.String())
	t.line("")
}

// span is when the incident began, and how long it took to the last finding.
func (t *Text) span(in *incident) string {
	first, last := in.span()
	text := t.at(first, "2006-01-02 15:04:05.000000 UTC")
	if n := len(in.findings); n > 1 {
		text += fmt.Sprintf(", %d findings within %s", n, time.Duration(last.T-first.T))
	}
	return text
}

// at is when a finding was: by the wall clock where the trace says how the
// node's clock stood, else by the node's clock.
func (t *Text) at(f *kept, layout string) string {
	if wall, known := t.look.Wall(f.Node, f.T); known {
		return wall.UTC().Format(layout)
	}
	return "t=" + time.Duration(f.T).String()
}

func (t *Text) finding(f *kept) {
	t.line("  " + t.strong(f.Kind.String()) + "  " + t.severity(f.Severity) + "  " + t.at(f, "15:04:05.000000"))
	t.labelled("where", place(f))
	t.labelled("request", f.Req)
	if f.pages > 0 {
		t.labelled("pages", pages(f))
	}
	const indent = 4
	columns := sideBySide("claimed", orNothing(f.Claim), "observed", orNothing(f.Observation), t.look.Width-indent)
	for _, line := range columns {
		t.line(strings.Repeat(" ", indent) + line)
	}
}

// wrapped prints text as lines that begin at a column.
func (t *Text) wrapped(indent int, text string) {
	for _, line := range Wrap(text, t.look.Width-indent) {
		t.line(strings.Repeat(" ", indent) + line)
	}
}

// labelled prints a value under its label, wrapped; no value, no line.
func (t *Text) labelled(label, value string) {
	const indent = 4
	for i, line := range Wrap(sentence(value), t.look.Width-indent-10) {
		if i > 0 {
			label = ""
		}
		t.line(fmt.Sprintf("%*s%-8s  %s", indent, "", label, line))
	}
}

func (t *Text) exposed(in *incident) {
	if len(in.exposed) == 0 {
		return
	}
	t.line("")
	t.line("  whose data was exposed")
	for _, p := range in.exposed {
		t.wrapped(4, party(p))
	}
	if in.unshown > 0 {
		t.wrapped(4, fmt.Sprintf("and more (up to %s); --json lists all", thousands(in.unshown)))
	}
}

func place(f *kept) string {
	text := f.Inst
	if f.Pool != "" {
		text += ", pool " + f.Pool
	}
	if f.Node != "" {
		text += ", node " + f.Node
	}
	return text
}

// pages are runs as people write them, and how many that is.
func pages(f *kept) string {
	text := lifecycle.Runs(f.Pages).String()
	if lifecycle.Runs(f.Pages).Pages() < f.pages {
		text += ", …"
	}
	return text + " (" + number(f.pages, "page", "pages") + ")"
}

func party(p finding.Party) string {
	who := "the prefix cache"
	if p.Req != "" {
		who = "request " + p.Req
	}
	domain := "domain not known"
	if p.Domain.Has {
		domain = "domain " + p.Domain.V
		if p.Domain.V == "" {
			domain = "domain shared by all"
		}
	}
	return printable(who) + " on " + printable(p.Inst) + ", " + printable(domain)
}

func orNothing(said string) string {
	if said == "" {
		return "nothing"
	}
	return sentence(said)
}

func (t *Text) severity(s finding.Severity) string {
	colors := [finding.NumSeverity]string{"1;31", "1;33", "36"} // red, yellow, cyan
	return t.colored(colors[s], s.String())
}

func (t *Text) strong(s string) string { return t.colored("1", s) }

func (t *Text) colored(code, s string) string {
	if !t.look.Color {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}
