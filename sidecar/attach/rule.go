// Package attach decides which processes of a node are watched: by pid, by the
// executable, by the command line, by the control group, by the container.
//
// It reads /proc and imports the standard library. What a process says of
// itself there is hostile input: it promises that
//   - what is read of one process is bounded, and one that cannot be read is
//     none that matches;
//   - a process is told once when it is found and once when it is gone; one that
//     has the number of another that ended is another;
//   - the number of processes that are watched is bounded, and those beyond it
//     are counted.
//
// Processes are listed again and again, so that one which was started later, or
// forked, is found; names are looked up as they are in the process's own mount
// namespace. Numbers are those of the namespace of /proc, which must be the
// node's first one for the probes in the kernel to mean the same process.
package attach

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// Bounds of rules.
const (
	// MaxRules is how many rules there may be.
	MaxRules = 64
	// MaxPattern is the longest pattern, in bytes.
	MaxPattern = 512
)

// ErrRule is returned for a rule that cannot be understood.
var ErrRule = errors.New("not a rule: want pid=N, exe=PATTERN, command=TEXT, cgroup=TEXT or container=ID")

// Rule names processes. A process matches a rule if it is as its one field says.
type Rule struct {
	text string
	kind string
	want string
	pid  int
}

// minContainer is how many digits of a container's id must be said: an id that
// is shorter would match at random.
const minContainer = 8

// ParseRule reads KIND=PATTERN:
//
//	pid=4711            the process of that number
//	exe=/usr/bin/py*    the executable's path or its last part, with * ? [a-z]
//	command=--role x    a text within the command line, arguments joined by spaces
//	cgroup=kubepods     a text within the path of the control group
//	container=0123abcd  the beginning of a container's id, 8 digits or more
func ParseRule(text string) (Rule, error) {
	kind, want, ok := strings.Cut(text, "=")
	r := Rule{text: text, kind: kind, want: want}
	if !ok || want == "" || len(want) > MaxPattern {
		return r, fmt.Errorf("read rule %q: %w", text, ErrRule)
	}
	var err error
	switch kind {
	case "pid":
		r.pid, err = strconv.Atoi(want)
		if err == nil && r.pid <= 0 {
			err = ErrRule
		}
	case "exe":
		_, err = path.Match(want, "")
	case "command", "cgroup":
	case "container":
		if len(want) < minContainer || strings.Trim(want, "0123456789abcdef") != "" {
			err = ErrRule
		}
	default:
		err = ErrRule
	}
	if err != nil {
		return r, fmt.Errorf("read rule %q: %w", text, errors.Join(err, ErrRule))
	}
	return r, nil
}

// String is the rule as it was written.
func (r Rule) String() string { return r.text }

// Matches reports whether the rule names the process.
func (r Rule) Matches(p *Process) bool {
	switch r.kind {
	case "pid":
		return p.PID == r.pid
	case "exe":
		whole, _ := path.Match(r.want, p.Exe)
		last, _ := path.Match(r.want, path.Base(p.Exe))
		return p.Exe != "" && (whole || last)
	case "command":
		return strings.Contains(p.Command, r.want)
	case "cgroup":
		return strings.Contains(p.CGroup, r.want)
	case "container":
		return inContainer(p.CGroup, r.want)
	}
	return false
}

// containerID is the length of a container's id, in hexadecimal digits.
const containerID = 64

// inContainer looks for an id of 64 digits in the path of a control group; what
// stands before and after it differs by the runtime.
func inContainer(cgroup, id string) bool {
	for at := 0; ; {
		i := strings.Index(cgroup[at:], id)
		if i < 0 {
			return false
		}
		at += i
		digits := len(cgroup[at:]) - len(strings.TrimLeft(cgroup[at:], "0123456789abcdef"))
		before := at > 0 && strings.ContainsRune("0123456789abcdef", rune(cgroup[at-1]))
		if digits == containerID && !before {
			return true
		}
		at++
	}
}
