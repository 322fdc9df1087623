package dashboards

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"

	"github.com/kvwitness/kvwitness/dashboards/alert"
	"github.com/kvwitness/kvwitness/sidecar/metrics"
)

// query is a PromQL expression, and where it stands.
type query struct{ at, expr string }

// ofTarget are the labels that a scrape gives to every series.
var ofTarget = []string{"job", "instance", "cluster", "model", "node"}

// besides are the metrics of Prometheus, and of the sidecar's process and Go
// runtime, that may be asked for.
var besides = []string{
	"up", "scrape_duration_seconds", "scrape_samples_scraped", "process_start_time_seconds", "process_resident_memory_bytes",
	"process_cpu_seconds_total", "process_open_fds", "go_goroutines", "go_memstats_heap_alloc_bytes",
}

// known is every name that may be asked for, with its labels and, where they are
// a closed set, their values.
func known(t *testing.T) map[string]map[string][]string {
	t.Helper()
	all := map[string]map[string][]string{}
	for _, d := range metrics.All {
		of := map[string][]string{}
		for _, l := range d.Labels {
			of[l.Name] = l.Values
		}
		all[d.Name] = of
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			all[d.Name+suffix] = map[string][]string{"le": nil}
		}
	}
	for _, name := range besides {
		all[name] = map[string][]string{}
	}
	for name := range all {
		for _, l := range ofTarget {
			all[name][l] = nil
		}
	}
	for _, r := range alert.Recordings() { // each is made of those before it
		all[r.Name] = recorded(t, r, all)
	}
	return all
}

// recorded are the labels of a recording: those it is summed by or, where it is
// not, those of its first series.
func recorded(t *testing.T, r alert.Recording, all map[string]map[string][]string) map[string][]string {
	t.Helper()
	labels, inner := []string(nil), map[string][]string(nil)
	parser.Inspect(parse(t, query{r.Name, r.Expr}), func(n parser.Node, _ []parser.Node) error {
		switch e := n.(type) {
		case *parser.AggregateExpr:
			if labels == nil {
				labels = e.Grouping
			}
		case *parser.VectorSelector:
			if inner == nil {
				inner = all[e.Name]
			}
		}
		return nil
	})
	if labels == nil {
		return inner
	}
	out := map[string][]string{}
	for _, l := range labels {
		out[l] = inner[l]
	}
	return out
}

func parse(t *testing.T, q query) parser.Expr {
	t.Helper()
	e, err := parser.ParseExpr(q.expr)
	if err != nil {
		t.Fatalf("%s: %v\n%s", q.at, err, q.expr)
	}
	return e
}

// ruleQueries are those of the committed rules, with those that annotations ask.
func ruleQueries(t *testing.T) (all []query) {
	t.Helper()
	asked := regexp.MustCompile("(?:printf `([^`]+)` |query \"([^\"]+)\")")
	for _, path := range []string{alertsFile, recordingsFile} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Groups []struct {
				Rules []struct {
					Record, Alert, Expr string
					Annotations         map[string]string
				}
			}
		}
		if err := yaml.Unmarshal(text, &file); err != nil {
			t.Fatal(err)
		}
		for _, g := range file.Groups {
			for _, r := range g.Rules {
				at := r.Alert + r.Record
				all = append(all, query{at, r.Expr})
				for name, note := range r.Annotations {
					for _, m := range asked.FindAllStringSubmatch(note, -1) {
						all = append(all, query{at + " " + name, strings.ReplaceAll(m[1]+m[2], "%q", `"n"`)})
					}
				}
			}
		}
	}
	return all
}

// check holds one query against what is known.
func check(t *testing.T, q query, all map[string]map[string][]string) {
	t.Helper()
	parser.Inspect(parse(t, q), func(n parser.Node, path []parser.Node) error {
		switch e := n.(type) {
		case *parser.VectorSelector:
			of, known := all[e.Name]
			if !known {
				t.Errorf("%s asks for %q, which nobody has", q.at, e.Name)
				return nil
			}
			for _, m := range e.LabelMatchers {
				checkMatcher(t, q, e.Name, m, of)
			}
		case *parser.AggregateExpr:
			checkLabels(t, q, e.Grouping, e.Expr, all)
		case *parser.BinaryExpr:
			if m := e.VectorMatching; m != nil && m.On {
				checkLabels(t, q, m.MatchingLabels, e.LHS, all)
				checkLabels(t, q, m.MatchingLabels, e.RHS, all)
			}
		}
		return nil
	})
}

func checkMatcher(t *testing.T, q query, name string, m *labels.Matcher, of map[string][]string) {
	t.Helper()
	if m.Name == "__name__" {
		return
	}
	values, known := of[m.Name]
	if !known {
		t.Errorf("%s: %s has no label %s", q.at, name, m.Name)
	}
	for v := range strings.SplitSeq(m.Value, "|") {
		if values != nil && !slices.Contains(values, v) && v != ".*" {
			t.Errorf("%s: %s of %s is never %q", q.at, m.Name, name, v)
		}
	}
}

// checkLabels holds that some series inside has each label.
func checkLabels(t *testing.T, q query, wanted []string, inside parser.Expr, all map[string]map[string][]string) {
	t.Helper()
	for _, l := range wanted {
		has := false
		parser.Inspect(inside, func(n parser.Node, _ []parser.Node) error {
			if e, ok := n.(*parser.VectorSelector); ok {
				_, this := all[e.Name][l]
				has = has || this
			}
			return nil
		})
		if !has {
			t.Errorf("%s: no series of %s has a label %s", q.at, inside, l)
		}
	}
}

func TestRulesAskOnlyForWhatTheSidecarHas(t *testing.T) {
	all := known(t)
	for _, q := range ruleQueries(t) {
		check(t, q, all)
	}
}

// A counter's own value says how long a process runs.
func TestCountersAreAskedForTheirIncrease(t *testing.T) {
	for _, q := range ruleQueries(t) {
		checkCounters(t, q)
	}
}

func checkCounters(t *testing.T, q query) {
	t.Helper()
	parser.Inspect(parse(t, q), func(n parser.Node, path []parser.Node) error {
		e, ok := n.(*parser.VectorSelector)
		if !ok || !strings.HasSuffix(e.Name, "_total") && !strings.HasSuffix(e.Name, "_bucket") || strings.Contains(e.Name, ":") {
			return nil
		}
		_, ranged := path[len(path)-1].(*parser.MatrixSelector)
		// A finding from before the first scrape has no increase; and that an engine takes
		// handoffs at all says its count.
		if !ranged && e.Name != metrics.Prefix+"findings_total" && e.Name != metrics.Prefix+"handoff_pages_reserved_total" {
			t.Errorf("%s: %s without rate or increase", q.at, e)
		}
		return nil
	})
}
