package board

// Colours of what has a meaning.
var (
	byVerdict = map[string]string{"clean": "green", "unwitnessed": "orange", "violated": "red"}
	byPages   = map[string]string{"reserved": "blue", "written (claimed)": "orange", "written (observed)": "green", "read": "purple"}
	byState   = map[string]string{"held": "blue", "cached": "green", "free": "text", "pending_drain": "orange"}
)

// onePlus is bad from the first on.
var onePlus = &limit{orange: 0.01, red: 0.5}

var ownership = Board{
	UID: "kvwitness-ownership", Title: "kvwitness: Ownership",
	About: "Was every handoff witnessed and clean? Which pages were reserved, which written, which read, and whose were they?",
	rows: []row{
		{"The last hour", []panel{
			{
				shape: stat, title: "Handoffs by verdict", unit: "none", width: 8, height: 6, colours: byVerdict,
				about: "Verdicts on requests of the last hour, warm-up traffic left out. Only clean means that every owed byte was seen to be written. Unwitnessed is neither good nor bad: nobody saw it.",
				asks: []ask{
					{expr: `sum(node:kvwitness_verdicts:increase1h{` + ofNodes + `,verdict="clean"})`, legend: "clean"},
					{expr: `sum(node:kvwitness_verdicts:increase1h{` + ofNodes + `,verdict="unwitnessed"})`, legend: "unwitnessed"},
					{expr: `sum(node:kvwitness_verdicts:increase1h{` + ofNodes + `,verdict="violated"})`, legend: "violated"},
				},
			},
			{
				shape: graph, title: "Reserved against written", unit: "suffix:pages/s", width: 8, height: 6, colours: byPages,
				about: "Pages that receivers named as targets of transfers, against those written. Claimed is the engine's word, observed was seen from outside. A gap between reserved and written is the shape of the incident.",
				asks: []ask{
					{expr: `sum(node:kvwitness_handoff_pages_reserved:rate5m{` + ofNodes + `})`, legend: "reserved"},
					{expr: `sum(node:kvwitness_pages_written_claimed:rate5m{` + ofNodes + `,by="transfer"})`, legend: "written (claimed)"},
					{expr: `sum(node:kvwitness_pages_written_observed:rate5m{` + ofNodes + `})`, legend: "written (observed)"},
				},
			},
			{
				shape: stat, title: "Unwritten pages read", unit: "none", width: 4, height: 6, limit: onePlus,
				about: "Pages of the last hour that were read before anybody had filled them in their present generation. They hold what an earlier request left there.",
				asks:  []ask{{expr: `sum(node:kvwitness_unwritten_pages_read:increase1h{` + ofNodes + `})`, legend: "pages"}},
			},
			{
				shape: stat, title: "Blind paths", unit: "none", width: 4, height: 6, limit: onePlus,
				about: "Engines that take handoffs and into which no source sees the bytes come. Their handoffs are unwitnessed at best.",
				asks:  []ask{{expr: `sum(engine:kvwitness_path_blind:max{` + ofEngines + `})`, legend: "engines"}},
			},
		}},
		{"Verdicts and findings", []panel{
			{
				shape: stack, title: "Verdicts", unit: "suffix:requests/s", width: 12, height: 8, colours: byVerdict,
				about: "Verdicts on requests, per second, warm-up traffic left out.",
				asks:  []ask{{expr: `sum by (verdict) (node:kvwitness_verdicts:rate5m{` + ofNodes + `})`, legend: "{{verdict}}"}},
			},
			{
				shape: stack, title: "Findings by kind", unit: "none", width: 12, height: 8,
				about: "Broken rules of the hour before, by kind, with those that wake nobody. kvwitness explain KIND says what each means.",
				asks:  []ask{{expr: `sum by (kind) (node:kvwitness_findings:increase1h{` + ofNodes + `}) > 0`, legend: "{{kind}}"}},
			},
			{
				shape: table, title: "Findings of the last hour", unit: "none", number: "findings", width: 24, height: 7,
				about: "Where they were found. The facts of each, and whose data was exposed, are in the sidecar's /api/v1/findings.",
				asks:  []ask{{expr: `topk(50, node:kvwitness_findings:increase1h{` + ofNodes + `} > 0)`, legend: "{{node}} {{kind}}"}},
			},
		}},
		{"Pool against context", []panel{
			{
				shape: bars, title: "Pool for each token of context", unit: "percentunit", width: 12, height: 8, limit: &limit{orange: 1, red: 0.999, below: true},
				about: "What the pool can hold of the context that the engine serves, the lowest twenty. Below 100% the engine accepts prompts that it cannot hold.",
				asks:  []ask{{expr: `bottomk(20, engine:kvwitness_pool_per_context:ratio{` + ofEngines + `})`, legend: "{{node}} {{engine}}"}},
			},
			{
				shape: stack, title: "Pages by state", unit: "suffix:pages", width: 12, height: 8, colours: byState,
				about: "The engines' own count of their pages. Cached is not leaked: the prefix cache gives its pages back when they are needed.",
				asks:  []ask{{expr: `sum by (state) (engine:kvwitness_pool_pages:sum{` + ofEngines + `,pool="kv"})`, legend: "{{state}}"}},
			},
		}},
		{"Drains, late writes, sharing", []panel{
			{
				shape: graph, title: "Pages that wait for a drain", unit: "suffix:pages", width: 8, height: 8,
				about: "Pages that are given up and held back until no write can still arrive. Always zero on an engine that has transfers means that deferred release is off.",
				asks:  []ask{{expr: `topk(20, sum by (node, engine) (engine:kvwitness_pool_pages:sum{` + ofEngines + `,state="pending_drain"}))`, legend: "{{node}} {{engine}}"}},
			},
			{
				shape: graph, title: "Late writes and early releases", unit: "none", width: 8, height: 8,
				about: "Findings of the hour before: pages given up while a transfer was open, and bytes that came after that.",
				asks:  []ask{{expr: `sum by (kind) (node:kvwitness_findings:increase1h{` + ofNodes + `,kind=~"early_release|write_after_release"})`, legend: "{{kind}}"}},
			},
			{
				shape: graph, title: "Sharing of cached pages", unit: "suffix:pages/s", width: 8, height: 8,
				about: "References of requests on pages of the prefix cache, and pages that entered it. Findings of crossings between tenants are beside them, for the hour before.",
				asks: []ask{
					{expr: `sum(node:kvwitness_pages_shared:rate5m{` + ofNodes + `})`, legend: "shared"},
					{expr: `sum(node:kvwitness_pages_cached:rate5m{` + ofNodes + `})`, legend: "cached"},
					{expr: `sum(node:kvwitness_findings:increase1h{` + ofNodes + `,kind=~"tenant_crossing|wrong_block"})`, legend: "crossings and wrong blocks (1 h)"},
				},
			},
		}},
		{"Time to finding", []panel{
			{
				shape: graph, title: "Time from fact to finding", unit: "s", width: 24, height: 8,
				about: "How long after the fact that broke a rule the finding is said. Empty while nothing is found. The exemplars, ids of findings, are on the Node dashboard: they belong to one sidecar.",
				asks: []ask{
					{expr: `histogram_quantile(0.5, sum by (le) (node:kvwitness_finding_delay_seconds_bucket:rate5m{` + ofNodes + `}))`, legend: "half"},
					{expr: `histogram_quantile(0.99, sum by (le) (node:kvwitness_finding_delay_seconds_bucket:rate5m{` + ofNodes + `}))`, legend: "99 of 100"},
				},
			},
		}},
	},
}
