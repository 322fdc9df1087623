package board

// nodeMore is what comes of findings, and what comes from others than the engines'
// own streams.
var nodeMore = []row{
	{"Evidence and alerts", []panel{
		{
			shape: stat, title: "Open disclosures", unit: "none", width: 6, height: 7, limit: &limit{orange: 1, red: 1},
			about: "Incidents that are evidence of wrong data and that nobody has closed.",
			asks:  []ask{{expr: `sum(kvwitness_disclosures_open{` + ofNode + `})`, legend: "open"}},
		},
		{
			shape: graph, title: "Not kept as evidence", unit: "suffix:/s", width: 6, height: 7,
			about: "Facts that came too fast, incidents that were too many, entries that did not reach the disk; and 1 while a damaged store is set aside.",
			asks: []ask{
				{expr: `sum by (what) (` + per("evidence_lost_total", ofNode) + `)`, legend: "{{what}}"},
				{expr: `max(kvwitness_evidence_set_aside{` + ofNode + `})`, legend: "set aside"},
			},
		},
		{
			shape: graph, title: "Pushed to Alertmanager", unit: "suffix:pushes/s", width: 6, height: 7,
			about: "What the sidecar tells at once, beside the rules.",
			asks:  []ask{{expr: `sum by (result) (` + per("alert_pushes_total", ofNode) + `)`, legend: "{{result}}"}},
		},
		{
			shape: graph, title: "Profiles", unit: "suffix:profiles/s", width: 6, height: 7,
			about: "Sent to Pyroscope, if it is configured; dropped are those that waited too long.",
			asks:  []ask{{expr: `sum by (result) (` + per("profile_uploads_total", ofNode) + `)`, legend: "{{result}}"}},
		},
	}},
	{"KV events and logs", []panel{
		{
			shape: graph, title: "KV events", unit: "suffix:events/s", width: 8, height: 7,
			about: "Of SGLang or vLLM, by what they are.",
			asks:  []ask{{expr: `sum by (event) (` + per("kv_events_total", ofNodeEngine) + `)`, legend: "{{event}}"}},
		},
		{
			shape: graph, title: "Batches and crossings", unit: "suffix:/s", width: 8, height: 7,
			about: "Batches by what became of them, and blocks stored under one salt that were used under another.",
			asks: []ask{
				{expr: `sum by (fate) (` + per("kv_event_batches_total", ofNodeEngine) + `)`, legend: "{{fate}}"},
				{expr: `sum(` + per("kv_event_crossings_total", ofNodeEngine) + `)`, legend: "crossings"},
			},
		},
		{
			shape: graph, title: "Lines of logs", unit: "suffix:lines/s", width: 8, height: 7,
			about: "By what they say; other are those that say nothing here.",
			asks:  []ask{{expr: `sum by (line) (` + per("log_lines_total", ofNodeEngine) + `)`, legend: "{{line}}"}},
		},
	}},
	{"Other nodes", []panel{
		{
			shape: graph, title: "Peers", unit: "none", width: 6, height: 7,
			about: "1 while facts of the peer's node come, and how many of its engines are followed.",
			asks: []ask{
				{expr: `max by (peer) (kvwitness_peer_connected{` + ofNode + `})`, legend: "{{peer}} connected"},
				{expr: `max by (peer) (kvwitness_peer_instances{` + ofNode + `})`, legend: "{{peer}} engines"},
				{expr: `sum by (peer, reason) (` + per("peer_disconnects_total", ofNode) + `)`, legend: "{{peer}} ended: {{reason}}"},
			},
		},
		{
			shape: graph, title: "Clocks of peers", unit: "s", width: 6, height: 7,
			about: "How far ahead of this node's clock, by how much that may be wrong, and the round trip that it is taken from.",
			asks: []ask{
				{expr: `max by (peer) (kvwitness_peer_clock_offset_seconds{` + ofNode + `})`, legend: "{{peer}} offset"},
				{expr: `max by (peer) (kvwitness_peer_clock_error_seconds{` + ofNode + `})`, legend: "{{peer}} error"},
				{expr: `max by (peer) (kvwitness_peer_round_trip_seconds{` + ofNode + `})`, legend: "{{peer}} round trip"},
			},
		},
		{
			shape: graph, title: "Facts of peers", unit: "suffix:facts/s", width: 6, height: 7,
			about: "Received = handled by outcome + lost by reason.",
			asks: []ask{
				{expr: `sum by (peer) (` + per("peer_facts_received_total", ofNode) + `)`, legend: "{{peer}} received"},
				{expr: `sum by (peer, outcome) (` + per("peer_facts_handled_total", ofNode) + `)`, legend: "{{peer}} {{outcome}}"},
				{expr: `sum by (peer, reason) (` + per("peer_facts_lost_total", ofNode) + `)`, legend: "{{peer}} lost: {{reason}}"},
			},
		},
		{
			shape: graph, title: "Told to others", unit: "suffix:/s", width: 6, height: 7,
			about: "Sidecars of other nodes that are served, facts handed to them and missed by them, and who was turned away.",
			asks: []ask{
				{expr: `max(kvwitness_peers_served{` + ofNode + `})`, legend: "served"},
				{expr: `sum(` + per("peers_facts_sent_total", ofNode) + `)`, legend: "sent"},
				{expr: `sum(` + per("peers_facts_missed_total", ofNode) + `)`, legend: "missed"},
				{expr: `sum by (reason) (` + per("peers_turned_away_total", ofNode) + `)`, legend: "turned away: {{reason}}"},
			},
		},
	}},
}
