package board

var fleet = Board{
	UID: "kvwitness-fleet", Title: "kvwitness: Fleet",
	About: "All clusters and models at once: which are clean, which are blind, which fail the pool gate. Everything here is made by recording rules.",
	rows: []row{
		{"Now", []panel{
			{
				shape: stat, title: "Sidecars", unit: "none", width: 4, height: 5,
				about: "Sidecars that answer, and all that are known to Prometheus.",
				asks: []ask{
					{expr: `sum(model:kvwitness_up:sum{` + ofModels + `})`, legend: "up"},
					{expr: `sum(model:kvwitness_up:count{` + ofModels + `})`, legend: "known"},
				},
			},
			{
				shape: stat, title: "Engines", unit: "none", width: 4, height: 5,
				about: "Engines whose stream is live, and all that are configured.",
				asks: []ask{
					{expr: `sum(model:kvwitness_engines_live:sum{` + ofModels + `})`, legend: "live"},
					{expr: `sum(model:kvwitness_engines_configured:sum{` + ofModels + `})`, legend: "configured"},
				},
			},
			{
				shape: stat, title: "Violated, last hour", unit: "none", width: 4, height: 5, limit: onePlus,
				about: "Requests that carry a critical or high finding, or were hit by another's.",
				asks:  []ask{{expr: `sum(model:kvwitness_verdicts:increase1h{` + ofModels + `,verdict="violated"})`, legend: "requests"}},
			},
			{
				shape: stat, title: "Blind paths", unit: "none", width: 4, height: 5, limit: onePlus,
				about: "Engines that take handoffs and into which no source sees the bytes come.",
				asks:  []ask{{expr: `sum(model:kvwitness_path_blind:sum{` + ofModels + `})`, legend: "engines"}},
			},
			{
				shape: stat, title: "Fail the pool gate", unit: "none", width: 4, height: 5, limit: onePlus,
				about: "Engines that accept prompts that their pool cannot hold.",
				asks:  []ask{{expr: `sum(model:kvwitness_pool_gate_failed:count{` + ofModels + `})`, legend: "engines"}},
			},
			{
				shape: stat, title: "In shadow mode", unit: "none", width: 4, height: 5, limit: &limit{orange: 0.5, red: 1e9},
				about: "Sidecars that report everything and wake nobody.",
				asks:  []ask{{expr: `sum(model:kvwitness_shadow:sum{` + ofModels + `})`, legend: "sidecars"}},
			},
		}},
		{"By cluster and model", []panel{
			{
				shape: table, title: "Verdicts of the last hour", unit: "none", number: "requests", width: 12, height: 9,
				about: "Requests by cluster, model and verdict.",
				asks:  []ask{{expr: `sum by (cluster, model, verdict) (model:kvwitness_verdicts:increase1h{` + ofModels + `})`, legend: "{{cluster}} {{model}} {{verdict}}"}},
			},
			{
				shape: graph, title: "Violated requests", unit: "suffix:requests/s", width: 12, height: 9,
				about: "By cluster and model.",
				asks:  []ask{{expr: `sum by (cluster, model) (model:kvwitness_verdicts:rate5m{` + ofModels + `,verdict="violated"})`, legend: "{{cluster}} {{model}}"}},
			},
			{
				shape: stack, title: "Findings by kind", unit: "none", width: 12, height: 9,
				about: "Broken rules of the hour before.",
				asks:  []ask{{expr: `sum by (kind) (model:kvwitness_findings:increase1h{` + ofModels + `}) > 0`, legend: "{{kind}}"}},
			},
			{
				shape: graph, title: "Unwitnessed share", unit: "percentunit", width: 12, height: 9,
				about: "Share of requests that nobody saw well enough to call clean or violated.",
				asks: []ask{{
					expr:   `sum by (cluster, model) (model:kvwitness_verdicts:rate5m{` + ofModels + `,verdict="unwitnessed"}) / (sum by (cluster, model) (model:kvwitness_verdicts:rate5m{` + ofModels + `}) > 0)`,
					legend: "{{cluster}} {{model}}",
				}},
			},
		}},
		{"Deployments", []panel{
			{
				shape: table, title: "Deployments that fail the pool gate", unit: "percentunit", number: "pool / context", width: 12, height: 9,
				about: "Engines whose pool holds less than the context that they serve, the lowest fifty. Empty is as it should be.",
				asks:  []ask{{expr: `bottomk(50, engine:kvwitness_pool_per_context:ratio{` + ofEngines + `} < 1)`, legend: "{{node}} {{engine}}"}},
			},
			{
				shape: bars, title: "Lowest pool for each token of context", unit: "percentunit", width: 12, height: 9, limit: &limit{orange: 1, red: 0.999, below: true},
				about: "By cluster and model.",
				asks:  []ask{{expr: `model:kvwitness_pool_per_context:min{` + ofModels + `}`, legend: "{{cluster}} {{model}}"}},
			},
			{
				shape: table, title: "Protections", unit: "none", number: "engines", width: 12, height: 9,
				about: "Engines by the state of each protection. Only ran counts as one.",
				asks:  []ask{{expr: `model:kvwitness_protections:count{` + ofModels + `}`, legend: "{{protection}} {{state}}"}},
			},
			{
				shape: table, title: "Nodes with findings, last hour", unit: "none", number: "findings", width: 12, height: 9,
				about: "The twenty with the most. Open Ownership for the node to see what it was.",
				asks:  []ask{{expr: `topk(20, sum by (cluster, model, node) (node:kvwitness_findings:increase1h{` + ofNodes + `}) > 0)`, legend: "{{node}}"}},
			},
		}},
		{"The witness itself", []panel{
			{
				shape: graph, title: "Facts lost", unit: "suffix:facts/s", width: 8, height: 8,
				about: "By stage. What is lost leaves requests unwitnessed.",
				asks:  []ask{{expr: `sum by (stage) (model:kvwitness_facts_lost:rate5m{` + ofModels + `})`, legend: "{{stage}}"}},
			},
			{
				shape: graph, title: "Facts", unit: "suffix:facts/s", width: 8, height: 8,
				about: "Facts that came, by cluster and model.",
				asks:  []ask{{expr: `sum by (cluster, model) (model:kvwitness_facts_seen:rate5m{` + ofModels + `})`, legend: "{{cluster}} {{model}}"}},
			},
			{
				shape: graph, title: "Largest memory of a sidecar", unit: "bytes", width: 8, height: 8,
				about: "Resident bytes, by cluster and model.",
				asks:  []ask{{expr: `model:process_resident_memory_bytes:max{` + ofModels + `}`, legend: "{{cluster}} {{model}}"}},
			},
			{
				shape: bars, title: "Fullest nodes", unit: "percentunit", width: 12, height: 8, limit: &limit{orange: 0.6, red: 0.8},
				about: "The fullest bounded thing of a sidecar, the highest ten.",
				asks:  []ask{{expr: `topk(10, node:kvwitness_fullness_ratio:max{` + ofNodes + `})`, legend: "{{node}}"}},
			},
			{
				shape: graph, title: "Time from fact to finding, 99 of 100", unit: "s", width: 12, height: 8,
				about: "By cluster and model; empty while nothing is found.",
				asks:  []ask{{expr: `histogram_quantile(0.99, sum by (cluster, model, le) (model:kvwitness_finding_delay_seconds_bucket:rate5m{` + ofModels + `}))`, legend: "{{cluster}} {{model}}"}},
			},
		}},
	},
}
