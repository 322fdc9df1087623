package gate

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	if err := json.MarshalWrite(w, r, jsontext.WithIndent("  ")); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// WriteText writes the report for people: what did not pass in full.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	n := [3]int{}
	for _, c := range r.Checks {
		n[c.Status]++
		fmt.Fprintf(&b, "%-9s  %s", strings.ToUpper(c.Status.String()), c.Name)
		if c.On != "" {
			fmt.Fprintf(&b, "  %s", c.On)
		}
		fmt.Fprintf(&b, "\n           found: %s\n", c.Found)
		if c.Status != Pass {
			fmt.Fprintf(&b, "           asked: %s\n           expected: %s\n           mend: %s\n", c.Asked, c.Expected, c.Mend)
		}
	}
	fmt.Fprintf(&b, "\n%s: %d passed, %d failed, %d could not be checked\n", strings.ToUpper(r.Status.String()), n[Pass], n[Fail], n[Unchecked])
	_, err := io.WriteString(w, b.String())
	return err
}

// The parts of JUnit's format that are used.
type (
	suite struct {
		XMLName  xml.Name   `xml:"testsuite"`
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Errors   int        `xml:"errors,attr"`
		Cases    []testCase `xml:"testcase"`
	}
	testCase struct {
		Class   string  `xml:"classname,attr"`
		Name    string  `xml:"name,attr"`
		Failure *reason `xml:"failure"`
		Error   *reason `xml:"error"`
		Out     string  `xml:"system-out,omitempty"`
	}
	reason struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// WriteJUnit writes the report as JUnit XML: what failed is a failure, what could not
// be checked an error.
func (r *Report) WriteJUnit(w io.Writer) error {
	s := suite{Name: "kvwitness gate", Tests: len(r.Checks)}
	for _, c := range r.Checks {
		section, _, _ := strings.Cut(c.Name, ".")
		t := testCase{Class: "kvwitness." + section, Name: strings.TrimSpace(c.Name + " " + c.On), Out: c.Found}
		why := &reason{c.Found, fmt.Sprintf("asked: %s\nexpected: %s\nfound: %s\nmend: %s\n", c.Asked, c.Expected, c.Found, c.Mend)}
		switch c.Status {
		case Fail:
			t.Failure = why
			s.Failures++
		case Unchecked:
			t.Error = why
			s.Errors++
		}
		s.Cases = append(s.Cases, t)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	out := xml.NewEncoder(w)
	out.Indent("", "  ")
	if err := out.Encode(s); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	_, err := io.WriteString(w, "\n")
	return err
}
