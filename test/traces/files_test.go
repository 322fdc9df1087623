package traces_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/test/traces"
)

func all(t *testing.T) []traces.Case {
	t.Helper()
	cases, err := traces.All()
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

// A trace says nothing that is not read: a misspelt field would be ignored, and
// the trace would no longer show what its name says.
func TestNoTraceHoldsAnythingUnread(t *testing.T) {
	for _, c := range all(t) {
		facts, err := c.Facts()
		if err != nil {
			t.Fatal(err)
		}
		lines := bytes.Split(bytes.TrimSpace(c.Source), []byte("\n"))[1:] // less the header
		if len(lines) != len(facts) {
			t.Fatalf("%s: %d lines after the header, %d facts", c.Name, len(lines), len(facts))
		}
		for i, f := range facts {
			if f.Ev == lifecycle.EvUnknown {
				t.Errorf("%s:%d: unknown event %q", c.Name, i+2, f.Name)
			}
			if !bytes.Contains(lines[i], []byte(`"node"`)) {
				f.Node = "" // it came from the header
			}
			if said, read := canonical(t, lines[i]), canonical(t, f.AppendJSON(nil)); said != read {
				t.Errorf("%s:%d:\nsays %s\nread %s", c.Name, i+2, said, read)
			}
		}
	}
}

func canonical(t *testing.T, raw []byte) string {
	t.Helper()
	v := jsontext.Value(bytes.Clone(raw))
	if err := v.Canonicalize(); err != nil {
		t.Fatal(err)
	}
	return string(v)
}

// A trace and its facts keep a size that a person can read.
func TestTracesStaySmall(t *testing.T) {
	const most = 60
	for _, c := range all(t) {
		facts, err := c.Facts()
		if err != nil {
			t.Fatal(err)
		}
		if len(facts) > most {
			t.Errorf("%s has %d facts, more than %d", c.Name, len(facts), most)
		}
	}
}

func TestEveryTraceHasItsExpectationAndEveryExpectationItsTrace(t *testing.T) {
	var names [2][]string
	for i, end := range []string{".jsonl", ".expect.json"} {
		files, err := filepath.Glob("*" + end)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			names[i] = append(names[i], strings.TrimSuffix(f, end))
		}
		slices.Sort(names[i])
	}
	if !slices.Equal(names[0], names[1]) {
		t.Errorf("traces %v\nexpectations %v", names[0], names[1])
	}
}

func TestExitStatusFollowsTheFindings(t *testing.T) {
	for _, c := range all(t) {
		want := 0
		if len(c.Expect.Findings) > 0 {
			want = 3
		}
		if c.Expect.Exit != want {
			t.Errorf("%s expects exit status %d with %d findings", c.Name, c.Expect.Exit, len(c.Expect.Findings))
		}
	}
}

func kinds(c traces.Case) []string {
	var names []string
	for _, f := range c.Expect.Findings {
		if !slices.Contains(names, f.Kind.String()) {
			names = append(names, f.Kind.String())
		}
	}
	return names
}

var fileOfKind = regexp.MustCompile(`^(break|near)-([a-z_]+)(-[a-z0-9-]+)?$`)

func TestEveryKindHasABreakAndANearMiss(t *testing.T) {
	have := map[string]bool{}
	for _, c := range all(t) {
		m := fileOfKind.FindStringSubmatch(c.Name)
		if m == nil {
			continue
		}
		has := slices.Contains(kinds(c), m[2])
		if has != (m[1] == "break") {
			t.Errorf("%s expects %v", c.Name, kinds(c))
		}
		have[m[1]+"-"+m[2]] = true
	}
	for k := range finding.NumKind {
		for _, what := range []string{"break", "near"} {
			if name := what + "-" + k.String(); !have[name] {
				t.Errorf("there is no %s", name)
			}
			delete(have, what+"-"+k.String())
		}
	}
	for name := range have {
		t.Errorf("%s is about no kind of finding", name)
	}
}

var fileOfCase = regexp.MustCompile(`^case-(\d\d)-(near-)?[a-z0-9-]+$`)

// Blind costs sight and accuses nobody, so a near miss may have it.
func TestEveryHardCaseHasANearMissAndATraceThatAccuses(t *testing.T) {
	const cases = 14
	have := map[string]bool{}
	for _, c := range all(t) {
		m := fileOfCase.FindStringSubmatch(c.Name)
		if m == nil {
			continue
		}
		found := kinds(c)
		if accuses := len(found) > 0 && found[0] != finding.Blind.String(); m[2] != "" && accuses {
			t.Errorf("the near miss %s expects %v", c.Name, found)
		}
		if m[2] == "" && len(found) == 0 {
			t.Errorf("%s expects no finding, but is not called near", c.Name)
		}
		have[m[1]+m[2]] = true
	}
	for n := range cases {
		for _, near := range []string{"", "near-"} {
			if name := fmt.Sprintf("%02d%s", n+1, near); !have[name] {
				t.Errorf("there is no case-%s", name)
			}
		}
	}
}

// The table of README.md is what people read first: it must not lie.
func TestReadmeSaysOfEveryTraceWhatItGives(t *testing.T) {
	raw, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	for line := range strings.Lines(string(raw)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) == 5 && strings.HasPrefix(cells[0], "`") {
			rows[strings.Trim(cells[0], "`")] = cells
		}
	}
	for _, c := range all(t) {
		row := rows[c.Name]
		if row == nil {
			t.Errorf("README.md has no row for %s", c.Name)
			continue
		}
		if row[2] == "" {
			t.Errorf("README.md does not say what happens in %s", c.Name)
		}
		if want := counted(findings(c)); row[3] != want {
			t.Errorf("README.md: %s: findings %q, want %q", c.Name, row[3], want)
		}
		if want := counted(verdicts(c)); row[4] != want {
			t.Errorf("README.md: %s: verdicts %q, want %q", c.Name, row[4], want)
		}
		delete(rows, c.Name)
	}
	for name := range rows {
		t.Errorf("README.md names %s, which is no trace", name)
	}
}

func findings(c traces.Case) (names []string) {
	for _, f := range c.Expect.Findings {
		names = append(names, f.Kind.String())
	}
	return names
}

func verdicts(c traces.Case) (names []string) {
	for _, v := range c.Expect.Verdicts {
		names = append(names, v.Verdict)
	}
	return names
}

// counted is each word once, in the order of its first use, with how often it
// stands there; none is a dash.
func counted(words []string) string {
	var out []string
	for i, w := range words {
		if slices.Index(words, w) < i {
			continue
		}
		n := 0
		for _, v := range words {
			if v == w {
				n++
			}
		}
		if n > 1 {
			w = fmt.Sprintf("%s ×%d", w, n)
		}
		out = append(out, w)
	}
	if out == nil {
		return "–"
	}
	return strings.Join(out, ", ")
}
