package boards

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Board is what of a dashboard's JSON is looked at.
type Board struct {
	UID, Title, Description string
	Panels                  []Panel
	Templating              struct{ List []Variable }

	JSON json.RawMessage `json:"-"` // all of it
	Path string          `json:"-"`
}

// Panel is one panel, or a row.
type Panel struct {
	ID                       int
	Type, Title, Description string
	Datasource               *Datasource
	GridPos                  struct{ X, Y, W, H int }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []Target
}

// Target is one query of a panel.
type Target struct {
	RefID, Expr, LegendFormat string
	Instant                   bool
	Exemplar                  bool
	Datasource                *Datasource
}

// Datasource is what a panel, a query or a variable asks.
type Datasource struct{ Type, UID string }

// Variable is what can be chosen at the head of a dashboard.
type Variable struct {
	Name, Type string
	Query      string
	Multi      bool
	AllValue   string
	Datasource *Datasource
}

// Read reads all dashboards of the tree at root.
func Read(root string) (all []Board, err error) {
	paths, err := filepath.Glob(filepath.Join(root, "dashboards/grafana/*.json"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		b := Board{JSON: text, Path: path}
		if err := json.Unmarshal(text, &b); err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		all = append(all, b)
	}
	return all, nil
}

// Each calls each for every panel that asks.
func (b *Board) Each(each func(p *Panel)) {
	for i := range b.Panels {
		if b.Panels[i].Type != "row" {
			each(&b.Panels[i])
		}
	}
}

// RateInterval is what $__rate_interval is where everything is scraped each second.
const RateInterval = "20s"

// One is one value for each variable: those of what test/monitoring scrapes.
var One = map[string]string{"cluster": "test", "model": "induction", "node": "node-a", "engine": "prefill"}

// All is what Grafana puts in where all values are chosen.
var All = map[string]string{"cluster": ".*", "model": ".*", "node": ".*", "engine": ".*"}

// With puts the values of variables into a query. A variable that has only one
// value has that of One.
func (b *Board) With(expr string, values map[string]string) string {
	for _, v := range b.Templating.List {
		value, set := values[v.Name]
		if set && !v.Multi {
			value = One[v.Name]
		}
		expr = strings.ReplaceAll(expr, "$"+v.Name, value)
	}
	return strings.ReplaceAll(expr, "$__rate_interval", RateInterval)
}
