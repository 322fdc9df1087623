// Package dashboards holds what is made in dashboards/ against the metrics that
// the sidecar has, and against the programs that read it: promtool and amtool, and
// a running Prometheus and Alertmanager before a running sidecar.
//
// It needs what test/monitoring sees to, and leaves none of it out.
package dashboards
