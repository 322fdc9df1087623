package main

import (
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/kvwitness/kvwitness/sidecar/alert"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/replay"
)

// shownBody is what of an entry is shown to people.
type shownBody struct {
	Part     string           `json:"part"`
	Findings []shownFinding   `json:"findings"`
	Facts    []jsontext.Value `json:"facts"`
	Left     int              `json:"facts_left_out"`
	By       string           `json:"by"`
	Why      string           `json:"why"`
	At       string           `json:"at"`
}

type shownFinding struct {
	Kind        string   `json:"kind"`
	Inst        string   `json:"inst"`
	Req         string   `json:"req"`
	Room        string   `json:"room"`
	Pool        string   `json:"pool"`
	Pages       [][2]int `json:"pages"`
	Claim       string   `json:"claim"`
	Observation string   `json:"observation"`
	Exposed     []struct {
		Inst   string  `json:"inst"`
		Req    string  `json:"req"`
		Domain *string `json:"domain"`
	} `json:"exposed"`
}

// plainText keeps control characters, which an engine may say, off the terminal.
func plainText(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u202e' || r == '\u2066' || r == '\u2067' {
			return '\ufffd'
		}
		return r
	}, s)
}

func printIncident(out io.Writer, one *told) error {
	var b strings.Builder
	i := &one.Incident
	width := lookOf(out).Width
	fmt.Fprintf(&b, "%s  %s  %s\n%s on %s, node %s, %s\n", i.ID, i.Severity, kindsOf(i), plainText(i.Name), plainText(i.Inst), plainText(i.Node), i.First.UTC().Format("2006-01-02T15:04:05.000Z"))
	facts := 0
	for _, e := range one.Entries {
		var s shownBody
		if err := json.Unmarshal(e.Content, &s); err != nil {
			return fmt.Errorf("read entry %d: %w", e.Seq, err)
		}
		facts += len(s.Facts) + s.Left
		if s.Part == "closed" {
			fmt.Fprintf(&b, "\nclosed at %s by %s: %s\n", plainText(s.At), plainText(s.By), plainText(s.Why))
		}
		for n := range s.Findings {
			printFinding(&b, &s.Findings[n], width)
		}
	}
	if k := i.Kind; k < finding.NumKind {
		b.WriteString("\nWhat to do\n")
		for _, text := range finding.Explain(k).Todo {
			indent(&b, "  - ", text, width)
		}
		fmt.Fprintf(&b, "\nrunbook   %s%s.md\n", alert.Runbooks, alert.Name(k))
	}
	fmt.Fprintf(&b, "standing  %s\nevidence  %d entries, %d facts; head %s\n", standing(i), len(one.Entries), facts, i.Head)
	fmt.Fprintf(&b, "next      kvwitness findings export %s --out %s.jsonl\n          kvwitness findings verify %s.jsonl --head %s\n", i.ID, i.ID, i.ID, i.Head)
	_, err := io.WriteString(out, b.String())
	return err
}

func printFinding(b *strings.Builder, f *shownFinding, width int) {
	fmt.Fprintf(b, "\n%s", f.Kind)
	for _, part := range [][2]string{{"request", f.Req}, {"room", f.Room}, {"on", f.Inst}, {"pool", f.Pool}} {
		if part[1] != "" {
			fmt.Fprintf(b, "  %s %s", part[0], plainText(part[1]))
		}
	}
	b.WriteString("\n")
	indent(b, "  claimed  ", plainText(f.Claim), width)
	indent(b, "  seen     ", plainText(f.Observation), width)
	for _, p := range f.Exposed {
		domain := "not known"
		if p.Domain != nil {
			domain = *p.Domain
		}
		fmt.Fprintf(b, "  exposed  request %s on %s, tenant %s\n", plainText(p.Req), plainText(p.Inst), plainText(domain))
	}
}

// indent writes text after a mark, wrapped.
func indent(b *strings.Builder, mark, text string, width int) {
	if text == "" {
		text = "nothing"
	}
	for _, line := range replay.Wrap(text, width-len(mark)) {
		b.WriteString(mark + line + "\n")
		mark = strings.Repeat(" ", len(mark))
	}
}
