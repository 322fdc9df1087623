package evidence

import (
	"time"

	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// Incident is the summary of what belongs together: the findings of one request,
// or of one instance.
type Incident struct {
	ID       string           `json:"id"`
	Kind     finding.Kind     `json:"kind"` // the strongest
	Severity finding.Severity `json:"severity"`
	Kinds    []finding.Kind   `json:"kinds"`
	Name     string           `json:"name"` // what it is about: room 7
	Node     string           `json:"node,omitzero"`
	Inst     string           `json:"inst,omitzero"`
	Req      string           `json:"req,omitzero"`
	Room     string           `json:"room,omitzero"`
	Pool     string           `json:"pool,omitzero"`
	Findings int              `json:"findings"`
	Exposed  int              `json:"exposed"` // requests whose data were
	First    time.Time        `json:"first"`   // wall clock of its first and of its last entry
	Last     time.Time        `json:"last"`
	Wakes    bool             `json:"wakes"` // neither warm-up traffic nor shadow mode
	Open     bool             `json:"open"`  // a disclosure that nobody has closed
	Head     string           `json:"head"`  // the hash of its first entry, which its alert names
	Entries  []uint64         `json:"entries"`

	Lived int64 `json:"lived"` // of the store when it began, seconds
	Bytes int   `json:"bytes"` // on disk
	Order int   `json:"order"` // among those of its kind, from 0
}

// maxExposed bounds the count of exposed requests that is reckoned.
const maxExposed = 1 << 16

// add takes a finding into the summary.
func (i *Incident) add(f *finding.Finding) {
	if i.Findings == 0 || f.Severity < i.Severity || f.Severity == i.Severity && f.Kind < i.Kind {
		i.Kind, i.Severity = f.Kind, f.Severity
	}
	for k := 0; ; k++ {
		if k == len(i.Kinds) || i.Kinds[k] > f.Kind {
			i.Kinds = append(i.Kinds[:k:k], append([]finding.Kind{f.Kind}, i.Kinds[k:]...)...)
			break
		}
		if i.Kinds[k] == f.Kind {
			break
		}
	}
	i.Findings++
	i.Exposed = min(max(i.Exposed, len(f.Exposed)), maxExposed)
	if i.Pool == "" {
		i.Pool = f.Pool
	}
}
