package check

import (
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
)

// State of a need.
type State uint8

// The states, the worst last.
const (
	Met State = iota
	Unknown
	Unmet
)

var stateNames = [...]string{"met", "not checked", "not met"}

func (s State) String() string { return stateNames[s] }

// MarshalText is the state in words.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Need is one of them, and how it stands.
type Need struct {
	Name   string `json:"need"`
	State  State  `json:"state"`
	Found  string `json:"found"`
	Remedy string `json:"remedy,omitempty"` // unless it is met
}

func met(name, found string, args ...any) Need {
	return Need{Name: name, Found: fmt.Sprintf(found, args...)}
}

func unmet(name, remedy, found string, args ...any) Need {
	return Need{name, Unmet, fmt.Sprintf(found, args...), remedy}
}

func unknown(name, remedy, found string, args ...any) Need {
	return Need{name, Unknown, fmt.Sprintf(found, args...), remedy}
}

// Worst is the worst state of needs.
func Worst(needs []Need) (worst State) {
	for _, n := range needs {
		worst = max(worst, n.State)
	}
	return worst
}

// Write writes needs for people.
func Write(w io.Writer, needs []Need) error {
	var b strings.Builder
	for _, n := range needs {
		fmt.Fprintf(&b, "%-12s %-24s %s\n", n.State, n.Name, n.Found)
		if n.State != Met {
			fmt.Fprintf(&b, "%-12s %-24s remedy: %s\n", "", "", n.Remedy)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteJSON writes needs as one JSON object a line.
func WriteJSON(w io.Writer, needs []Need) error {
	for i := range needs {
		b, err := json.Marshal(&needs[i])
		if err == nil {
			_, err = w.Write(append(b, '\n'))
		}
		if err != nil {
			return fmt.Errorf("write a need: %w", err)
		}
	}
	return nil
}
