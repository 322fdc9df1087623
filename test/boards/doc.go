// Package boards reads the committed dashboards (dashboards/grafana) and puts values
// into their variables, as Grafana does. Tests and test/pictures use it.
//
// It imports nothing of kvwitness: what is read is what Grafana reads.
package boards
