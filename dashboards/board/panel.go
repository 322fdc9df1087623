package board

import (
	"maps"
	"slices"

	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	stats "github.com/grafana/grafana-foundation-sdk/go/stat"
	tables "github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// built is a panel that is made already.
type built dashboard.Panel

func (b built) Build() (dashboard.Panel, error) { return dashboard.Panel(b), nil }

// build makes the panel: first what its shape needs, then what all have.
func (p *panel) build(id uint32) cog.Builder[dashboard.Panel] {
	made, err := p.shaped().Build()
	if err != nil {
		return failed{err}
	}
	made.Id, made.Title, made.Description, made.Datasource = &id, &p.title, &p.about, &source
	made.GridPos = &dashboard.GridPos{W: p.width, H: p.height}
	made.Targets = nil
	for i, a := range p.asks {
		query, err := p.query(i, a).Build()
		if err != nil {
			return failed{err}
		}
		made.Targets = append(made.Targets, query)
	}
	made.FieldConfig.Defaults.Unit = &p.unit
	made.FieldConfig.Defaults.Thresholds = p.thresholds()
	made.FieldConfig.Overrides = p.overrides()
	return built(made)
}

type failed struct{ err error }

func (f failed) Build() (dashboard.Panel, error) { return dashboard.Panel{}, f.err }

func (p *panel) shaped() cog.Builder[dashboard.Panel] {
	switch p.shape {
	case stat:
		mode := common.BigValueColorModeNone
		if p.limit != nil || p.colours != nil {
			mode = common.BigValueColorModeBackground
		}
		return big(mode).NoValue("no data")
	case table:
		t := tables.NewPanelBuilder().ShowHeader(true).Filterable(true).WithTransformation(p.columns())
		if p.unit == "none" {
			t = t.Decimals(0) // an increase is not whole, but what it counts is
		}
		return t
	case bars:
		return bargauge.NewPanelBuilder().Orientation(common.VizOrientationHorizontal).DisplayMode(common.BarGaugeDisplayModeBasic).Min(0).Max(1).
			Sizing(common.BarGaugeSizingManual).MaxVizHeight(barHeight).ReduceOptions(lastValue()).NoValue("no data")
	}
	g := timeseries.NewPanelBuilder().LineWidth(1).FillOpacity(10).ShowPoints(common.VisibilityModeNever).Min(0).
		Legend(common.NewVizLegendOptionsBuilder().DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom).ShowLegend(true)).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending))
	if p.limit != nil {
		g = g.ThresholdsStyle(common.NewGraphThresholdsStyleConfigBuilder().Mode(common.GraphThresholdsStyleModeDashed))
	}
	if p.shape == stack {
		g = g.FillOpacity(40).Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal))
	}
	return g
}

// barHeight is that of one bar with its name, in pixels, where there is room for more.
const barHeight = 60

// columns of a table are the labels, which tell its rows apart, and the number.
func (p *panel) columns() dashboard.DataTransformerConfig {
	return dashboard.DataTransformerConfig{Id: "organize", Options: map[string]any{
		"excludeByName": map[string]bool{"Time": true, "__name__": true, "Value": p.number == ""},
		"renameByName":  map[string]string{"Value": p.number},
	}}
}

func big(mode common.BigValueColorMode) *stats.PanelBuilder {
	return stats.NewPanelBuilder().ColorMode(mode).GraphMode(common.BigValueGraphModeNone).
		TextMode(common.BigValueTextModeValueAndName).ReduceOptions(lastValue()).Decimals(0).Orientation(common.VizOrientationAuto)
}

func lastValue() *common.ReduceDataOptionsBuilder {
	return common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"}).Values(false)
}

// query is the i-th query of the panel.
func (p *panel) query(i int, a ask) cog.Builder[variants.Dataquery] {
	q := prometheus.NewDataqueryBuilder().Expr(a.expr).LegendFormat(a.legend).RefId(string(rune('A' + i))).Datasource(source).
		EditorMode(prometheus.QueryEditorModeCode)
	switch p.shape {
	case table:
		return q.Instant().Format(prometheus.PromQueryFormatTable)
	case stat, bars:
		return q.Instant()
	}
	return q.Range().Exemplar(a.exemplars)
}

func (p *panel) thresholds() *dashboard.ThresholdsConfig {
	steps := []dashboard.Threshold{{Color: "green"}}
	if l := p.limit; l != nil {
		if l.below {
			steps = []dashboard.Threshold{{Color: "red"}, {Color: "orange", Value: &l.red}, {Color: "green", Value: &l.orange}}
		} else {
			steps = append(steps, dashboard.Threshold{Color: "orange", Value: &l.orange}, dashboard.Threshold{Color: "red", Value: &l.red})
		}
	}
	return &dashboard.ThresholdsConfig{Mode: dashboard.ThresholdsModeAbsolute, Steps: steps}
}

// overrides give series their colours by their names.
func (p *panel) overrides() (all []dashboard.DashboardFieldConfigSourceOverrides) {
	all = []dashboard.DashboardFieldConfigSourceOverrides{}
	for _, name := range slices.Sorted(maps.Keys(p.colours)) {
		all = append(all, dashboard.DashboardFieldConfigSourceOverrides{
			Matcher: dashboard.MatcherConfig{Id: "byName", Options: name},
			Properties: []dashboard.DynamicConfigValue{{
				Id: "color", Value: map[string]string{"mode": "fixed", "fixedColor": p.colours[name]},
			}},
		})
	}
	return all
}
