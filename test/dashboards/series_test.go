package dashboards

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/kvwitness/kvwitness/dashboards/alert"
	"github.com/kvwitness/kvwitness/sidecar/metrics"
)

// A fleet for which the number of series is bounded, and the bounds.
const (
	fleetNodes    = 1000
	nodeEngines   = 8 // one for each GPU
	maxNodeSeries = 3000
	maxRecorded   = 1200 * fleetNodes
)

// values is how many values a label can have on one node.
func values(l metrics.Label) int {
	if l.Values == nil {
		return nodeEngines
	}
	set := slices.Clone(l.Values)
	slices.Sort(set)
	return len(slices.Compact(set))
}

// nodeSeries is how many series of a metric one node can have at most.
func nodeSeries(d *metrics.Def) int {
	n := 1
	for _, l := range d.Labels {
		n *= values(l)
	}
	if d.Name == metrics.Prefix+"finding_delay_seconds" {
		n *= 12 + 2 // buckets, sum and count
	}
	return n
}

// Promise: what a fleet of a thousand nodes with eight engines each can cost a
// Prometheus is bounded, whatever its engines do. The numbers are upper bounds:
// what a label could have, not what it has.
func TestTheSeriesOfAFleetAreBounded(t *testing.T) {
	node := 0
	of := map[string]*metrics.Def{}
	for _, d := range metrics.All {
		node += nodeSeries(d)
		of[d.Name] = d
	}
	if node > maxNodeSeries {
		t.Errorf("%d series a node, at most %d", node, maxNodeSeries)
	}
	recorded := 0
	for _, r := range alert.Recordings() {
		recorded += recordedSeries(t, r, of)
	}
	if recorded > maxRecorded {
		t.Errorf("%d recorded series, at most %d", recorded, maxRecorded)
	}
	t.Logf("at most %d series a node, %d in all, and %d recorded", node, node*fleetNodes, recorded)
}

// recordedSeries is how many series a recording can have in the fleet at most. The
// labels of its level count as nodes, or as one; the others as what they can be.
func recordedSeries(t *testing.T, r alert.Recording, of map[string]*metrics.Def) int {
	t.Helper()
	level, _, _ := strings.Cut(r.Name, ":")
	n := map[string]int{"model": fleetNodes, "node": fleetNodes, "engine": fleetNodes * nodeEngines}[level]
	if n == 0 {
		t.Fatalf("%s is of no level", r.Name)
	}
	var more []string
	parser.Inspect(parse(t, query{r.Name, r.Expr}), func(node parser.Node, _ []parser.Node) error {
		if e, ok := node.(*parser.AggregateExpr); ok && more == nil {
			more = e.Grouping
		}
		return nil
	})
	for _, name := range more {
		switch name {
		case "cluster", "model", "node", "engine":
		case "le":
			n *= 12
		default:
			n *= most(of, name, r.Name)
		}
	}
	return n
}

// most is how many values the label of that name has at most, in the metric that the
// recording is named for, or else in any.
func most(of map[string]*metrics.Def, name, recording string) (n int) {
	any := 0
	for _, d := range of {
		for _, l := range d.Labels {
			if l.Name != name {
				continue
			}
			any = max(any, values(l))
			if strings.Contains(recording, ":"+strings.TrimSuffix(d.Name, "_total")+":") {
				n = max(n, values(l))
			}
		}
	}
	if n == 0 {
		return any
	}
	return n
}
