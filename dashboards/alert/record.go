package alert

import "fmt"

// Recording is one recording rule. Its name is level:metric:operation; the level
// node stands for the labels of Where, engine for these and engine, model for
// cluster and model.
type Recording struct{ Name, Expr string }

// counted are the counters that are recorded, at the level of a node and, where
// the fleet is asked for it, of a model.
var counted = []struct {
	metric, labels, match, operation string
	model                            bool
}{
	{"verdicts", ", verdict", `{traffic="real"}`, "rate5m", true},
	{"verdicts", ", verdict", `{traffic="real"}`, "increase1h", true},
	{"findings", ", kind", "", "increase1h", true},
	{"facts_lost", ", stage", "", "rate5m", true},
	{"facts_seen", "", "", "rate5m", true},
	{"unwritten_pages_read", "", "", "increase1h", false},
	{"handoff_pages_reserved", "", "", "rate5m", false},
	{"pages_written_claimed", ", by", "", "rate5m", false},
	{"pages_written_observed", "", "", "rate5m", false},
	{"pages_shared", "", "", "rate5m", false},
	{"pages_cached", "", "", "rate5m", false},
}

// operations are the functions and ranges of what is counted.
var operations = map[string][2]string{"rate5m": {"rate", "5m"}, "increase1h": {"increase", "1h"}}

// gauges are recorded at the level of an engine.
var gauges = []struct{ metric, operation, labels, match string }{
	{"pool_capacity_tokens", "min", "", ""},
	{"context_tokens", "max", ", which", ""},
	{"pool_pages", "sum", ", pool, state", ""},
	{"protection_state", "max", ", protection, state", " == 1"},
	{"source_coverage", "max", ", source", ""},
}

// ofNodes are the gauges that are recorded at the level of a node.
var ofNodes = []struct{ metric, operation, match string }{
	{"shadow", "max", ""},
	{"engines_live", "sum", ""},
	{"engines_configured", "sum", ""},
	{"fullness_ratio", "max", `{thing!="ended"}`},
}

const modelLabels = "cluster, model"

// Recordings are what dashboards ask for instead of the series of a fleet; each
// level is made from the one before.
func Recordings() (all []Recording) {
	add := func(level, metric, operation, form string, args ...any) {
		all = append(all, Recording{level + ":kvwitness_" + metric + ":" + operation, fmt.Sprintf(form, args...)})
	}
	for _, c := range counted {
		f := operations[c.operation]
		add("node", c.metric, c.operation, "sum by (%s%s) (%s(kvwitness_%s_total%s[%s]))", Where, c.labels, f[0], c.metric, c.match, f[1])
		if c.model {
			add("model", c.metric, c.operation, "sum by (%s%s) (node:kvwitness_%s:%s)", modelLabels, c.labels, c.metric, c.operation)
		}
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
		// 1 where no source sees the bytes that come into an engine that takes handoffs.
		{"engine:kvwitness_path_blind:max", "(1 - max by (" + engineLabels + `) (kvwitness_source_coverage{source=~"rdma|tcp"})) * on (` + engineLabels + ") (sum by (" + engineLabels + ") (kvwitness_handoff_pages_reserved_total) > bool 0)"},
		{"node:kvwitness_path_blind:sum", "sum by (" + Where + ") (engine:kvwitness_path_blind:max)"},
		{"model:kvwitness_path_blind:sum", "sum by (" + modelLabels + ") (node:kvwitness_path_blind:sum)"},
		// What the pool holds of the context that is served: below 1 fails the gate.
		{"engine:kvwitness_pool_per_context:ratio", `engine:kvwitness_pool_capacity_tokens:min / on (` + engineLabels + `) engine:kvwitness_context_tokens:max{which="effective"}`},
		{"model:kvwitness_pool_per_context:min", "min by (" + modelLabels + ") (engine:kvwitness_pool_per_context:ratio)"},
		{"model:kvwitness_pool_gate_failed:count", "sum by (" + modelLabels + ") (engine:kvwitness_pool_per_context:ratio < bool 1)"},
		{"node:kvwitness_finding_delay_seconds_bucket:rate5m", "sum by (" + Where + ", le) (rate(kvwitness_finding_delay_seconds_bucket[5m]))"},
		{"model:kvwitness_finding_delay_seconds_bucket:rate5m", "sum by (" + modelLabels + ", le) (node:kvwitness_finding_delay_seconds_bucket:rate5m)"},
		{"model:kvwitness_protections:count", "count by (" + modelLabels + ", protection, state) (engine:kvwitness_protection_state:max)"},
		{"model:process_resident_memory_bytes:max", "max by (" + modelLabels + `) (process_resident_memory_bytes{job="` + Job + `"})`},
	}
}
