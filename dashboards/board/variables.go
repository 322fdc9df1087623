package board

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// What queries select by.
const (
	ofModels  = `cluster=~"$cluster",model=~"$model"`
	ofNodes   = ofModels + `,node=~"$node"`
	ofEngines = ofNodes + `,engine=~"$engine"`
	// ofNode selects the series of one node, which Node alone may ask for.
	ofNode       = `node="$node"`
	ofNodeEngine = ofNode + `,engine=~"$engine"`
)

// variables are datasource, cluster, model, node and engine, each of what the ones
// before leave.
func (b *Board) variables() []cog.Builder[dashboard.VariableModel] {
	return []cog.Builder[dashboard.VariableModel]{
		dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus"),
		several("cluster", "Cluster", "label_values(node:kvwitness_up:max, cluster)"),
		several("model", "Model", `label_values(node:kvwitness_up:max{cluster=~"$cluster"}, model)`),
		b.node(),
		several("engine", "Engine", `label_values(engine:kvwitness_source_coverage:max{`+ofNodes+`}, engine)`),
	}
}

func (b *Board) node() cog.Builder[dashboard.VariableModel] {
	const ask = `label_values(node:kvwitness_up:max{` + ofModels + `}, node)`
	if b.oneNode {
		return variable("node", "Node", ask)
	}
	return several("node", "Node", ask)
}

func variable(name, label, query string) *dashboard.QueryVariableBuilder {
	return dashboard.NewQueryVariableBuilder(name).Label(label).Query(dashboard.StringOrMap{String: &query}).
		Datasource(source).Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Sort(dashboard.VariableSortAlphabeticalAsc)
}

// several is a variable of which several values, or all, can be chosen.
func several(name, label, query string) cog.Builder[dashboard.VariableModel] {
	all := ".*"
	return variable(name, label, query).Multi(true).IncludeAll(true).AllValue(all).Current(dashboard.VariableOption{
		Selected: ptr(true), Text: dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}}, Value: dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}},
	})
}
