package finding

import (
	"os"
	"strings"
	"testing"
)

// designRules are the rows of the table of DESIGN section 6.
func designRules(t *testing.T) map[string][2]string {
	t.Helper()
	design, err := os.ReadFile("../../docs/DESIGN.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(design), "| finding | rule that was broken | severity |")
	if !found {
		t.Fatal("DESIGN has no table of findings")
	}
	rules := make(map[string][2]string)
	for _, row := range strings.Split(section, "\n")[2:] {
		cells := strings.Split(row, " | ")
		if len(cells) != 3 {
			break
		}
		severity := strings.TrimSuffix(cells[2], " |")
		names := strings.Split(strings.TrimPrefix(cells[0], "| "), " / ")
		rules[names[0]] = [2]string{cells[1], severity}
		if len(names) == 2 { // "a page was reserved while held / released while not"
			_, second, _ := strings.Cut(cells[1], " / ")
			rules[names[1]] = [2]string{"a page was " + second + " held", severity}
		}
	}
	return rules
}

func TestEveryKindIsExplainedByTheRuleOfDesign(t *testing.T) {
	rules := designRules(t)
	if len(rules) != int(NumKind) {
		t.Errorf("DESIGN has %d kinds, the code %d", len(rules), NumKind)
	}
	for k := range NumKind {
		rule, known := rules[k.String()]
		if !known {
			t.Errorf("DESIGN has no %s", k)
			continue
		}
		if got := Explain(k).Rule; !strings.Contains(rule[0], got) {
			t.Errorf("%s:\n explained as %q\nDESIGN says   %q", k, got, rule[0])
		}
		if k.Severity().String() != rule[1] {
			t.Errorf("%s is %s, DESIGN says %s", k, k.Severity(), rule[1])
		}
	}
}

// Whoever reads these is tired: each answers the four questions, briefly.
func TestExplanationsAnswerTheFourQuestionsBriefly(t *testing.T) {
	const longest = 320
	for k := range NumKind {
		e := Explain(k)
		if e.Kind != k || e.Severity != k.Severity() {
			t.Errorf("%s is explained as %s, %s", k, e.Kind, e.Severity)
		}
		if len(e.Causes) == 0 || len(e.Todo) == 0 {
			t.Errorf("%s: %d causes, %d things to do", k, len(e.Causes), len(e.Todo))
		}
		texts := append([]string{e.Meaning, e.Matters}, append(e.Causes, e.Todo...)...)
		for _, text := range texts {
			if text == "" || !strings.ContainsAny(text[len(text)-1:], ".?") || len(text) > longest || strings.Contains(text, "\n") {
				t.Errorf("%s: not a short sentence: %q", k, text)
			}
		}
		for _, r := range e.Reports {
			if r.Project == "" || r.What == "" {
				t.Errorf("%s: half a report: %+v", k, r)
			}
		}
	}
}

func TestNamesOfKindsAndSeveritiesSurviveText(t *testing.T) {
	for k := range NumKind {
		var back Kind
		text, _ := k.MarshalText()
		if err := back.UnmarshalText(text); err != nil || back != k {
			t.Errorf("%s came back as %s, %v", k, back, err)
		}
	}
	for s := range NumSeverity {
		var back Severity
		text, _ := s.MarshalText()
		if err := back.UnmarshalText(text); err != nil || back != s {
			t.Errorf("%s came back as %s, %v", s, back, err)
		}
	}
	if err := new(Kind).UnmarshalText([]byte("stale")); err == nil {
		t.Error("a kind that is none was taken")
	}
}
