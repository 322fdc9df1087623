package board

import "slices"

var node = Board{
	UID: "kvwitness-node", Title: "kvwitness: Node", oneNode: true,
	About: "One sidecar: what it sees of its engines, what it loses, how full it is, and what it costs.",
	rows:  slices.Concat(nodeSight, nodePages, nodeJudge, nodeMore, nodeGPUs, nodeCost),
}

// per is a rate of the node's own series.
func per(metric, match string) string {
	return `rate(kvwitness_` + metric + `{` + match + `}[$__rate_interval])`
}

var nodeSight = []row{
	{"Sources", []panel{
		{
			shape: stat, title: "Engines", unit: "none", width: 4, height: 7,
			about: "Engines whose stream is live, and all that are configured.",
			asks: []ask{
				{expr: `sum(kvwitness_engines_live{` + ofNode + `})`, legend: "live"},
				{expr: `sum(kvwitness_engines_configured{` + ofNode + `})`, legend: "configured"},
			},
		},
		{
			shape: table, title: "Coverage", unit: "bool_yes_no", number: "sees all it can", width: 10, height: 7,
			about: "Yes where a source sees all that it can of the engine now. rdma and tcp see the bytes of handoffs; without either, no handoff is clean.",
			asks:  []ask{{expr: `sort_desc(max by (engine, source) (kvwitness_source_coverage{` + ofNodeEngine + `}))`, legend: "{{engine}} {{source}}"}},
		},
		{
			shape: table, title: "How the streams stand", unit: "none", width: 10, height: 7,
			about: "Waiting, catching up or live.",
			asks:  []ask{{expr: `max by (engine, standing) (kvwitness_stream_standing{` + ofNodeEngine + `}) == 1`, legend: "{{engine}} {{standing}}"}},
		},
		{
			shape: graph, title: "Age of the last fact", unit: "s", width: 8, height: 7, limit: &limit{orange: 5, red: 30},
			about: "An engine that is well says something each second.",
			asks:  []ask{{expr: `max by (engine) (kvwitness_last_fact_age_seconds{` + ofNodeEngine + `})`, legend: "{{engine}}"}},
		},
		{
			shape: graph, title: "Polls of HTTP endpoints", unit: "suffix:polls/s", width: 8, height: 7,
			about: "server_info and models of the engines.",
			asks:  []ask{{expr: `sum by (endpoint, result) (` + per("polls_total", ofNodeEngine) + `)`, legend: "{{endpoint}} {{result}}"}},
		},
		{
			shape: graph, title: "Events of the streams", unit: "suffix:events/s", width: 8, height: 7,
			about: "Gaps, silences and restarts leave handoffs unwitnessed.",
			asks:  []ask{{expr: `sum by (event) (` + per("stream_events_total", ofNodeEngine) + `)`, legend: "{{event}}"}},
		},
	}},
	{"Losses", []panel{
		{
			shape: graph, title: "Facts seen and handled", unit: "suffix:facts/s", width: 8, height: 7,
			about: "Seen = handled + lost + those that wait.",
			asks: []ask{
				{expr: `sum by (engine) (` + per("facts_seen_total", ofNodeEngine) + `)`, legend: "{{engine}} seen"},
				{expr: `sum by (engine) (` + per("facts_handled_total", ofNodeEngine) + `)`, legend: "{{engine}} handled"},
			},
		},
		{
			shape: graph, title: "Facts lost, by stage and reason", unit: "suffix:facts/s", width: 8, height: 7,
			about: "What is lost leaves requests unwitnessed.",
			asks:  []ask{{expr: `sum by (engine, stage, reason) (` + per("facts_lost_total", ofNodeEngine) + `) > 0`, legend: "{{engine}} {{stage}}: {{reason}}"}},
		},
		{
			shape: graph, title: "What became of facts", unit: "suffix:facts/s", width: 8, height: 7,
			about: "Of those that reached the judge; missing are sequence numbers that never came, unusable name what is not there.",
			asks: []ask{
				{expr: `sum by (outcome) (` + per("ledger_facts_total", ofNode) + `)`, legend: "{{outcome}}"},
				{expr: `sum(` + per("ledger_missing_total", ofNode) + `)`, legend: "missing"},
				{expr: `sum(` + per("ledger_unusable_total", ofNode) + `)`, legend: "unusable"},
			},
		},
		{
			shape: graph, title: "Forgotten at a limit", unit: "suffix:/s", width: 12, height: 7,
			about: "Rooms that ended are forgotten all the time; whatever else is forgotten leaves requests unwitnessed.",
			asks:  []ask{{expr: `sum by (thing) (` + per("ledger_forgotten_total", ofNode) + `)`, legend: "{{thing}}"}},
		},
		{
			shape: graph, title: "Output dropped", unit: "suffix:/s", width: 12, height: 7,
			about: "Lines and recorded facts whose reader or disk was too slow.",
			asks:  []ask{{expr: `sum by (sink) (` + per("output_dropped_total", ofNode) + `)`, legend: "{{sink}}"}},
		},
	}},
	{"Fullness and lag", []panel{
		{
			shape: graph, title: "Fullness of the judge", unit: "percentunit", width: 8, height: 7, limit: &limit{orange: 0.6, red: 0.8},
			about: "Of each bounded thing. Ended rooms are kept until there are enough, so that this one is often full.",
			asks:  []ask{{expr: `max by (thing) (kvwitness_fullness_ratio{` + ofNode + `})`, legend: "{{thing}}"}},
		},
		{
			shape: graph, title: "Fullness of queues", unit: "percentunit", width: 8, height: 7, limit: &limit{orange: 0.6, red: 0.8},
			about: "Between an engine and the judge.",
			asks:  []ask{{expr: `max by (engine, queue) (kvwitness_queue_fullness_ratio{` + ofNodeEngine + `})`, legend: "{{engine}} {{queue}}"}},
		},
		{
			shape: graph, title: "Lag", unit: "s", width: 8, height: 7,
			about: "How late facts of an engine are expected, and for how much of each second it holds back the others.",
			asks: []ask{
				{expr: `max by (engine) (kvwitness_fact_delay_expected_seconds{` + ofNodeEngine + `})`, legend: "{{engine}} delay"},
				{expr: `sum by (engine) (` + per("held_back_seconds_total", ofNodeEngine) + `)`, legend: "{{engine}} holds back"},
			},
		},
	}},
}
