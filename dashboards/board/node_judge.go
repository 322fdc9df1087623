package board

var nodeJudge = []row{{"The judge", []panel{
	{
		shape: graph, title: "Time from fact to finding", unit: "s", width: 12, height: 8,
		about: "The goal is 10 ms. The points are exemplars: ids of findings in /api/v1/findings.",
		asks: []ask{
			{expr: `histogram_quantile(0.5, sum by (le) (` + per("finding_delay_seconds_bucket", ofNode) + `))`, legend: "half", exemplars: true},
			{expr: `histogram_quantile(0.99, sum by (le) (` + per("finding_delay_seconds_bucket", ofNode) + `))`, legend: "99 of 100"},
		},
	},
	{
		shape: stack, title: "Findings", unit: "suffix:findings/s", width: 12, height: 8,
		about: "By kind, and whether they wake somebody: those of warm-up traffic and in shadow mode do not.",
		asks: []ask{
			{expr: `sum by (kind, wakes) (` + per("findings_total", ofNode) + `) > 0`, legend: "{{kind}}, wakes: {{wakes}}"},
			{expr: `sum(` + per("findings_without_delay_total", ofNode) + `)`, legend: "of them without a delay"},
		},
	},
	{
		shape: stack, title: "Verdicts", unit: "suffix:requests/s", width: 12, height: 8,
		about: "By verdict and traffic; synthetic is warm-up and health traffic.",
		asks:  []ask{{expr: `sum by (verdict, traffic) (` + per("verdicts_total", ofNode) + `)`, legend: "{{verdict}}, {{traffic}}"}},
	},
	{
		shape: graph, title: "Unwritten pages read", unit: "suffix:pages/s", width: 12, height: 8,
		about: "Pages of stale reads.",
		asks:  []ask{{expr: `sum(` + per("unwritten_pages_read_total", ofNode) + `)`, legend: "pages"}},
	},
}}}

var nodeCost = []row{{"The sidecar's own cost", []panel{
	{
		shape: graph, title: "CPU", unit: "suffix:cores", width: 6, height: 7,
		about: "Cores that the sidecar uses.",
		asks:  []ask{{expr: `sum(rate(process_cpu_seconds_total{job="kvwitness",` + ofNode + `}[$__rate_interval]))`, legend: "cores"}},
	},
	{
		shape: graph, title: "Memory", unit: "bytes", width: 6, height: 7,
		about: "Resident bytes, and those of Go's heap.",
		asks: []ask{
			{expr: `sum(process_resident_memory_bytes{job="kvwitness",` + ofNode + `})`, legend: "resident"},
			{expr: `sum(go_memstats_heap_alloc_bytes{job="kvwitness",` + ofNode + `})`, legend: "heap"},
		},
	},
	{
		shape: graph, title: "Goroutines and files", unit: "none", width: 6, height: 7,
		about: "Both are bounded by the number of engines and of connections.",
		asks: []ask{
			{expr: `sum(go_goroutines{job="kvwitness",` + ofNode + `})`, legend: "goroutines"},
			{expr: `sum(process_open_fds{job="kvwitness",` + ofNode + `})`, legend: "open files"},
		},
	},
	{
		shape: graph, title: "Scrape", unit: "s", width: 6, height: 7,
		about: "How long a scrape takes.",
		asks:  []ask{{expr: `max(scrape_duration_seconds{job="kvwitness",` + ofNode + `})`, legend: "duration"}},
	},
	{
		shape: stat, title: "Configuration", unit: "bool_yes_no", width: 12, height: 5,
		about: "Whether it was read well when it was read last, and whether it says shadow mode.",
		asks: []ask{
			{expr: `min(kvwitness_config_last_reload_success{` + ofNode + `})`, legend: "read well"},
			{expr: `max(kvwitness_shadow{` + ofNode + `})`, legend: "shadow"},
		},
	},
	{
		shape: stat, title: "Since", unit: "s", width: 12, height: 5,
		about: "Since it was started, and since its configuration was read.",
		asks: []ask{
			{expr: `time() - max(process_start_time_seconds{job="kvwitness",` + ofNode + `})`, legend: "started"},
			{expr: `time() - max(kvwitness_config_last_reload_timestamp_seconds{` + ofNode + `})`, legend: "configured"},
		},
	},
}}}
