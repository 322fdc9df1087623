package gate

import (
	"fmt"
	"slices"
)

// Status of a check.
type Status uint8

// The statuses, the worst last.
const (
	Pass Status = iota
	Unchecked
	Fail
)

var statusNames = [...]string{"pass", "unchecked", "fail"}

func (s Status) String() string { return statusNames[s] }

// MarshalText is the status in words.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Check is one question and what came of it.
type Check struct {
	Name     string `json:"name"`
	On       string `json:"on,omitzero"` // the engine, or the pair of them
	Status   Status `json:"status"`
	Asked    string `json:"asked"`
	Expected string `json:"expected"`
	Found    string `json:"found"`
	Mend     string `json:"mend,omitzero"` // how to, where it did not pass
}

// Section of the gate.
type Section struct {
	Name string
	// Checks of a picture.
	Checks func(*Picture) []Check
	// Live: it needs traffic.
	Live bool
}

// Sections are all of the gate, in order.
var Sections = []Section{
	{"pool", pool, false},
	{"admission", admission, true},
	{"transfer", transfer, true},
	{"lifetime", lifetime, true},
}

// Select are the sections of a name; "all": all. It is an error to name none.
func Select(name string) ([]Section, error) {
	if name == "all" {
		return Sections, nil
	}
	i := slices.IndexFunc(Sections, func(s Section) bool { return s.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("the gate has no section %q: want pool, admission, transfer, lifetime or all", name)
	}
	return Sections[i : i+1], nil
}

// Report is what a gate came to.
type Report struct {
	Status Status  `json:"status"`
	Checks []Check `json:"checks"`
}

// Decide asks all checks of the sections.
func Decide(sections []Section, p *Picture) (r Report) {
	for _, s := range sections {
		for _, c := range s.Checks(p) {
			if c.Status == Pass {
				c.Mend = ""
			}
			r.Status = max(r.Status, c.Status)
			r.Checks = append(r.Checks, c)
		}
	}
	if len(r.Checks) == 0 {
		r.Status = Unchecked
	}
	return r
}

// Exit is the command's exit status: 0 pass, 3 fail, 4 could not be checked.
func (r *Report) Exit() int { return [...]int{0, 4, 3}[r.Status] }

// failing is Fail if it fails, else Pass.
func failing(fails bool) Status {
	if fails {
		return Fail
	}
	return Pass
}
