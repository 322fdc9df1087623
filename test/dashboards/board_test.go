package dashboards

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/kvwitness/kvwitness/sidecar/metrics"
	"github.com/kvwitness/kvwitness/test/boards"
)

// committed are the dashboards of the tree.
func committed(t *testing.T) []boards.Board {
	t.Helper()
	list, err := boards.Read(root)
	if err != nil || len(list) != 3 {
		t.Fatalf("%d dashboards, want 3: %v", len(list), err)
	}
	for _, b := range list {
		if filepath.Base(b.Path) != b.UID+".json" {
			t.Errorf("%s is of the dashboard %s", b.Path, b.UID)
		}
	}
	return list
}

// settings of the variables, under each of which a query must hold: all, one, and
// several values. Grafana joins several into a group.
var settings = map[string]map[string]string{
	"all":     boards.All,
	"one":     boards.One,
	"several": {"cluster": "(test|other)", "model": "(induction|other)", "node": "(node-a|node-b)", "engine": "(decode|prefill)"},
}

// panelQueries are those of all panels, for all variables.
func panelQueries(t *testing.T) (all []query) {
	for _, b := range committed(t) {
		b.Each(func(p *boards.Panel) {
			for _, a := range p.Targets {
				for name, values := range settings {
					all = append(all, query{b.UID + "/" + p.Title + "/" + a.RefID + "/" + name, b.With(a.Expr, values)})
				}
			}
		})
	}
	return all
}

func TestPanelsAskOnlyForWhatThereIs(t *testing.T) {
	all := known(t)
	for _, q := range panelQueries(t) {
		if strings.Contains(q.expr, "$") {
			t.Errorf("%s: a variable is left: %s", q.at, q.expr)
			continue
		}
		// The values of variables are not those of a closed set.
		check(t, q, all)
		checkCounters(t, q)
	}
}

// At a thousand nodes a panel that reads every series is not drawn any more.
func TestNoPanelScansTheSeriesOfAFleet(t *testing.T) {
	for _, b := range committed(t) {
		one := slices.ContainsFunc(b.Templating.List, func(v boards.Variable) bool { return v.Name == "node" && !v.Multi })
		b.Each(func(p *boards.Panel) {
			for _, a := range p.Targets {
				q := query{b.UID + "/" + p.Title, b.With(a.Expr, settings["one"])}
				parser.Inspect(parse(t, q), func(n parser.Node, _ []parser.Node) error {
					e, ok := n.(*parser.VectorSelector)
					if !ok || strings.Contains(e.Name, ":") {
						return nil
					}
					ofOne := slices.ContainsFunc(e.LabelMatchers, func(m *labels.Matcher) bool { return m.Name == "node" && m.Type == labels.MatchEqual })
					if !one || !ofOne {
						t.Errorf("%s asks for %s", q.at, e)
					}
					return nil
				})
			}
		})
	}
}

// A metric that nobody looks at is not worth its series, or was forgotten here.
func TestEveryMetricIsLookedAt(t *testing.T) {
	asked := map[string]bool{}
	for _, q := range append(ruleQueries(t), panelQueries(t)...) {
		parser.Inspect(parse(t, q), func(n parser.Node, _ []parser.Node) error {
			if e, ok := n.(*parser.VectorSelector); ok {
				asked[strings.TrimSuffix(e.Name, "_bucket")] = true
			}
			return nil
		})
	}
	for _, d := range metrics.All {
		if !asked[d.Name] {
			t.Errorf("no rule and no panel asks for %s", d.Name)
		}
	}
}

// A recording that nobody asks for is computed a thousand times an hour for nothing.
func TestEveryRecordingIsAskedFor(t *testing.T) {
	asked := map[string]bool{}
	for _, q := range slices.Concat(ruleQueries(t), panelQueries(t), variableQueries(t)) {
		parser.Inspect(parse(t, q), func(n parser.Node, _ []parser.Node) error {
			if e, ok := n.(*parser.VectorSelector); ok {
				asked[e.Name] = true
			}
			return nil
		})
	}
	for name := range known(t) {
		if strings.Contains(name, ":") && !asked[name] {
			t.Errorf("nobody asks for %s", name)
		}
	}
}

func TestPanelsSayWhatTheyShowAndStandInAGrid(t *testing.T) {
	for _, b := range committed(t) {
		ids := map[int]bool{}
		taken := map[[2]int]string{}
		for _, p := range b.Panels {
			if p.ID == 0 || ids[p.ID] {
				t.Errorf("%s: %s has the id %d", b.UID, p.Title, p.ID)
			}
			ids[p.ID] = true
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if by := taken[[2]int{x, y}]; by != "" || x >= 24 {
						t.Fatalf("%s: %s lies on %q or beyond the edge", b.UID, p.Title, by)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
		}
		b.Each(func(p *boards.Panel) {
			if p.Title == "" || len(p.Description) < 8 || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
				t.Errorf("%s: %q lacks a title, a description, a unit or a query", b.UID, p.Title)
			}
			refs := map[string]bool{}
			for _, a := range p.Targets {
				if a.RefID == "" || refs[a.RefID] || a.LegendFormat == "" {
					t.Errorf("%s: %s: refId %q, legend %q", b.UID, p.Title, a.RefID, a.LegendFormat)
				}
				refs[a.RefID] = true
			}
		})
	}
}

// A fixed data source or cluster makes a dashboard that is empty everywhere else.
func TestDashboardsAreBoundToNoInstallation(t *testing.T) {
	fixed := regexp.MustCompile(`"uid": "([^"]*)"`)
	for _, b := range committed(t) {
		var names []string
		for _, v := range b.Templating.List {
			names = append(names, v.Name)
			if v.Type == "query" && (v.Datasource == nil || v.Datasource.UID != "${datasource}") {
				t.Errorf("%s: the variable %s has a data source of its own", b.UID, v.Name)
			}
			if v.Multi && v.AllValue != ".*" {
				t.Errorf("%s: all of %s is %q", b.UID, v.Name, v.AllValue)
			}
		}
		if want := []string{"datasource", "cluster", "model", "node", "engine"}; !slices.Equal(names, want) {
			t.Errorf("%s has the variables %v, want %v", b.UID, names, want)
		}
		text, err := os.ReadFile(root + "/dashboards/grafana/" + b.UID + ".json")
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range fixed.FindAllStringSubmatch(string(text), -1) {
			if m[1] != "${datasource}" && m[1] != b.UID {
				t.Errorf("%s: uid %s", b.UID, m[1])
			}
		}
	}
}

// labelValues is what a variable asks for.
var labelValues = regexp.MustCompile(`^label_values\((.*), ([a-z]+)\)$`)

// variableQueries are those of the variables, as counts.
func variableQueries(t *testing.T) (all []query) {
	for _, b := range committed(t) {
		for _, v := range b.Templating.List {
			if v.Type != "query" {
				continue
			}
			m := labelValues.FindStringSubmatch(v.Query)
			if m == nil || m[2] != v.Name {
				t.Errorf("%s: %s asks %q", b.UID, v.Name, v.Query)
				continue
			}
			all = append(all, query{b.UID + "/$" + v.Name, "count by (" + m[2] + ") (" + b.With(m[1], settings["all"]) + ")"})
		}
	}
	return all
}

func TestVariablesAskForWhatThereIs(t *testing.T) {
	all := known(t)
	for _, q := range variableQueries(t) {
		check(t, q, all)
	}
}
