// Package alert is what Prometheus is told to compute and to tell people: the
// recording rules that dashboards ask for, the alerting rules, and for each alert
// the runbook that it links to. The YAML and the Markdown in dashboards/rules and
// dashboards/runbooks are made from it.
//
// It imports sidecar/finding, so that every kind of finding has its alert, and
// sidecar/alert, whose pushed alerts have the same names and labels. It promises:
//
//  1. Only evidence of wrong data pages; a risk, and a witness that does not see,
//     is a ticket.
//  2. What --shadow or warm-up traffic brings about pages nobody.
//  3. Every alert has a summary, what it means, a dashboard, a next command and a
//     runbook.
//  4. The labels of an alert are those that a sidecar knows of itself: who is
//     told the same twice can see that it is the same.
package alert
