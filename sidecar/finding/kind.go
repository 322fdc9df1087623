package finding

import "fmt"

// Kind is a rule that can be broken. The names and the rules are those of
// DESIGN section 6; the order is that of strength within a severity.
type Kind uint8

// The kinds of findings.
const (
	StaleRead Kind = iota
	ForeignPage
	TenantCrossing
	WrongBlock
	ShortHandoff
	WriteAfterRelease
	ContentMismatch
	RejectedHandoff
	EarlyRelease
	ClaimMismatch
	CapacityInversion
	LayoutMismatch
	DoubleHold
	DoubleRelease
	VRAMMismatch
	PoolImbalance
	StalledReservation
	Blind
	NumKind
)

// Severity says what a finding asks of people: Critical is evidence of wrong
// data, High a broken protection or bookkeeping, Warning a risk.
type Severity uint8

// The severities, the strongest first.
const (
	Critical Severity = iota
	High
	Warning
	NumSeverity
)

var kinds = [NumKind]struct {
	name     string
	severity Severity
}{
	StaleRead:          {"stale_read", Critical},
	ForeignPage:        {"foreign_page", Critical},
	TenantCrossing:     {"tenant_crossing", Critical},
	WrongBlock:         {"wrong_block", Critical},
	ShortHandoff:       {"short_handoff", Critical},
	WriteAfterRelease:  {"write_after_release", Critical},
	ContentMismatch:    {"content_mismatch", Critical},
	RejectedHandoff:    {"rejected_handoff", High},
	EarlyRelease:       {"early_release", High},
	ClaimMismatch:      {"claim_mismatch", High},
	CapacityInversion:  {"capacity_inversion", High},
	LayoutMismatch:     {"layout_mismatch", High},
	DoubleHold:         {"double_hold", High},
	DoubleRelease:      {"double_release", High},
	VRAMMismatch:       {"vram_mismatch", High},
	PoolImbalance:      {"pool_imbalance", Warning},
	StalledReservation: {"stalled_reservation", Warning},
	Blind:              {"blind", Warning},
}

var severityNames = [NumSeverity]string{"critical", "high", "warning"}

// Severity is how grave a broken rule of this kind is.
func (k Kind) Severity() Severity { return kinds[k].severity }

// String is the kind's name in DESIGN, files, tests and output.
func (k Kind) String() string {
	if k < NumKind {
		return kinds[k].name
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// ByName returns the kind of that name.
func ByName(name string) (Kind, bool) {
	for k := range kinds {
		if kinds[k].name == name {
			return Kind(k), true
		}
	}
	return NumKind, false
}

func (s Severity) String() string {
	if s < NumSeverity {
		return severityNames[s]
	}
	return fmt.Sprintf("severity %d", uint8(s))
}

// MarshalText writes the kind's name.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads a kind's name.
func (k *Kind) UnmarshalText(text []byte) error {
	kind, known := ByName(string(text))
	if !known {
		return fmt.Errorf("%q is no kind of finding", text)
	}
	*k = kind
	return nil
}

// MarshalText writes the severity's name.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a severity's name.
func (s *Severity) UnmarshalText(text []byte) error {
	for i, name := range severityNames {
		if name == string(text) {
			*s = Severity(i)
			return nil
		}
	}
	return fmt.Errorf("%q is no severity", text)
}
