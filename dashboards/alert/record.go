package alert

import "fmt"

// Recording is one recording rule. Its name is level:metric:operation; the level
// node stands for the labels of Where, engine for these and engine, model for
// cluster and model.
type Recording struct{ Name, Expr string }

// counted are the counters that are recorded at the level of a node and of a
// model, as a rate and as what came in the last hour.
var counted = []struct{ metric, labels, match string }{
	{"verdicts", ", verdict", `{traffic="real"}`},
	{"findings", ", kind", ""},
	{"unwritten_pages_read", "", ""},
	{"pages_written_observed", "", ""},
	{"facts_lost", ", stage", ""},
	{"facts_seen", "", ""},
	{"output_dropped", "", ""},
}

// ofEngines are the counters that are recorded at the level of an engine and of a
// node, as a rate.
var ofEngines = []struct{ metric, labels string }{
	{"handoff_pages_reserved", ""},
	{"pages_reserved", ", holder"},
	{"pages_written_claimed", ", by"},
	{"pages_read", ""},
	{"pages_shared", ""},
	{"pages_cached", ""},
	{"pages_released", ", holder"},
}

// gauges are recorded at the level of an engine.
var gauges = []struct{ metric, operation, labels, match string }{
	{"pool_capacity_tokens", "min", "", ""},
	{"context_tokens", "max", ", which", ""},
	{"pool_pages", "sum", ", pool, state", ""},
	{"pool_size_pages", "sum", ", pool", ""},
	{"protection_state", "max", ", protection, state", ""},
	{"source_coverage", "max", ", source", ""},
	{"last_fact_age_seconds", "max", "", ""},
	{"stream_standing", "max", ", standing", ""},
}

// ofNodes are the gauges that are recorded at the level of a node.
var ofNodes = []struct{ metric, operation, match string }{
	{"shadow", "max", ""},
	{"engines_live", "sum", ""},
	{"engines_configured", "sum", ""},
	{"config_last_reload_success", "min", ""},
	{"fullness_ratio", "max", `{thing!="ended"}`},
	{"queue_fullness_ratio", "max", ""},
}

const modelLabels = "cluster, model"

// Recordings are what dashboards ask for instead of the series of a fleet; each
// level is made from the one before.
func Recordings() (all []Recording) {
	add := func(level, metric, operation, form string, args ...any) {
		all = append(all, Recording{level + ":kvwitness_" + metric + ":" + operation, fmt.Sprintf(form, args...)})
	}
	for _, c := range counted {
		for _, f := range [][3]string{{"rate5m", "rate", "5m"}, {"increase1h", "increase", "1h"}} {
			add("node", c.metric, f[0], "sum by (%s%s) (%s(kvwitness_%s_total%s[%s]))", Where, c.labels, f[1], c.metric, c.match, f[2])
			add("model", c.metric, f[0], "sum by (%s%s) (node:kvwitness_%s:%s)", modelLabels, c.labels, c.metric, f[0])
		}
	}
	for _, c := range ofEngines {
		add("engine", c.metric, "rate5m", "sum by (%s%s) (rate(kvwitness_%s_total[5m]))", engineLabels, c.labels, c.metric)
		add("node", c.metric, "rate5m", "sum by (%s%s) (engine:kvwitness_%s:rate5m)", Where, c.labels, c.metric)
	}
	for _, g := range gauges {
		add("engine", g.metric, g.operation, "%s by (%s%s) (kvwitness_%s%s)", g.operation, engineLabels, g.labels, g.metric, g.match)
	}
	for _, g := range ofNodes {
		add("node", g.metric, g.operation, "%s by (%s) (kvwitness_%s%s)", g.operation, Where, g.metric, g.match)
	}
	return append(all, derived()...)
}

// derived are the recordings that say something that no single metric does.
func derived() []Recording {
	return []Recording{
		{"node:kvwitness_up:max", `max by (` + Where + `) (up{job="` + Job + `"})`},
		{"model:kvwitness_up:sum", "sum by (" + modelLabels + ") (node:kvwitness_up:max)"},
		{"model:kvwitness_up:count", "count by (" + modelLabels + ") (node:kvwitness_up:max)"},
		{"model:kvwitness_engines_live:sum", "sum by (" + modelLabels + ") (node:kvwitness_engines_live:sum)"},
		{"model:kvwitness_engines_configured:sum", "sum by (" + modelLabels + ") (node:kvwitness_engines_configured:sum)"},
		{"model:kvwitness_shadow:sum", "sum by (" + modelLabels + ") (node:kvwitness_shadow:max)"},
		// 1 where no source sees the bytes that come into an engine.
		{"engine:kvwitness_path_blind:max", "1 - max by (" + engineLabels + `) (kvwitness_source_coverage{source=~"rdma|tcp"})`},
		{"node:kvwitness_path_blind:sum", "sum by (" + Where + ") (engine:kvwitness_path_blind:max)"},
		{"model:kvwitness_path_blind:sum", "sum by (" + modelLabels + ") (node:kvwitness_path_blind:sum)"},
		// What the pool holds of the context that is served: below 1 fails the gate.
		{"engine:kvwitness_pool_per_context:ratio", `engine:kvwitness_pool_capacity_tokens:min / on (` + engineLabels + `) engine:kvwitness_context_tokens:max{which="effective"}`},
		{"model:kvwitness_pool_per_context:min", "min by (" + modelLabels + ") (engine:kvwitness_pool_per_context:ratio)"},
		{"model:kvwitness_pool_gate_failed:count", "sum by (" + modelLabels + ") (engine:kvwitness_pool_per_context:ratio < bool 1)"},
		{"node:kvwitness_finding_delay_seconds_bucket:rate5m", "sum by (" + Where + ", le) (rate(kvwitness_finding_delay_seconds_bucket[5m]))"},
		{"model:kvwitness_finding_delay_seconds_bucket:rate5m", "sum by (" + modelLabels + ", le) (node:kvwitness_finding_delay_seconds_bucket:rate5m)"},
		{"model:kvwitness_protections:count", "count by (" + modelLabels + ", protection, state) (engine:kvwitness_protection_state:max == 1)"},
		{"model:process_resident_memory_bytes:max", "max by (" + modelLabels + `) (process_resident_memory_bytes{job="` + Job + `"})`},
	}
}
