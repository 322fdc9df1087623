package alert

import (
	"fmt"
	"slices"

	push "github.com/kvwitness/kvwitness/sidecar/alert"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// urgencyOf a kind: critical is evidence of wrong data. A warning is a risk too, but for
// blind: a single gap accuses nobody and has no remedy, and what lasts has alerts
// of its own.
func urgencyOf(k finding.Kind) Urgency {
	switch {
	case k.Severity() == finding.Critical:
		return Page
	case k == finding.Blind:
		return None
	}
	return Ticket
}

// findings are the alerts of the kinds.
func findings() (all []Rule) {
	for k := range finding.NumKind {
		e, r := finding.Explain(k), runbooks[k]
		all = append(all, Rule{
			Name: push.Name(k), Urgency: urgencyOf(k), Kind: k.String(), Expr: found(k), Keep: "10m",
			Summary: fmt.Sprintf("%s on {{ $labels.node }}: %s", k, e.Rule),
			Next:    fmt.Sprintf(`on the node: curl -s 127.0.0.1:9464/api/v1/findings | jq '.findings[].said | select(.kind == "%s")'`, k),
			Runbook: Runbook{
				Means: e.Meaning + " " + e.Matters, Claimed: r.claimed, Seen: r.seen,
				Confirm: r.confirm, Contain: slices.Concat(e.Todo, r.contain), Whose: r.whose, Wake: wakeFor(urgencyOf(k)),
			},
		})
	}
	return all
}

// found fires for a finding of the last five minutes. increase cannot see what
// came before the first scrape of a process: such a count is new if the series was
// not there and the process is young. Without the process's age, all findings of
// old would be new to a Prometheus that was away for long.
//
// Evidence of wrong data goes on until a person has closed it, as the alert does that
// the sidecar pushes.
func found(k finding.Kind) string {
	series := fmt.Sprintf(`kvwitness_findings_total{kind="%s",wakes="yes"}`, k)
	all := []string{
		"sum by (" + Where + ", kind) (",
		"  increase(" + series + "[5m]) > 0",
		"  or",
		"  (" + series + " > 0 unless " + series + " offset 5m)",
		"  and on (job, instance) time() - process_start_time_seconds < 600",
		")",
	}
	if urgencyOf(k) == Page {
		all = append(all, "or", fmt.Sprintf(`max by (%s, kind) (kvwitness_disclosures_open{kind="%s"}) > 0`, Where, k))
	}
	return lines(all...)
}

func wakeFor(u Urgency) string {
	switch u {
	case Page:
		return "You were paged because there is evidence of wrong data. Wake whoever can take the instance out of rotation, if that is not you. If `exposed` names a domain other than the request's own, wake whoever decides on disclosures (privacy or security officer) now: such things often have to be reported within a fixed time. The alert goes on until somebody has said what was done, on the incident's page or by `kvwitness findings close`."
	case Ticket:
		return "Nobody at night. If a page for the same node comes with it, the page leads and this belongs to it."
	}
	return "Nobody."
}
