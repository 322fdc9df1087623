package alert

import (
	"strings"

	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// What the Prometheus rules and the alerts that are pushed have in common.
const (
	// Team is who answers for alerts.
	Team = "serving"
	// Page is the severity that wakes somebody.
	Page = "page"
	// Runbooks is where runbooks are found by whoever is woken.
	Runbooks = "https://github.com/kvwitness/kvwitness/blob/main/dashboards/runbooks/"
)

// Name is the alert of a kind: KVWitnessStaleRead for stale_read.
func Name(k finding.Kind) string {
	name := "KVWitness"
	for word := range strings.SplitSeq(k.String(), "_") {
		if word == "vram" {
			name += "VRAM"
			continue
		}
		name += strings.ToUpper(word[:1]) + word[1:]
	}
	return name
}

// Pages reports whether a kind wakes somebody: it is evidence of wrong data.
func Pages(k finding.Kind) bool { return k.Severity() == finding.Critical }
