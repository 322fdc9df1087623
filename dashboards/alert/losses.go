package alert

// losses are the alerts that say that facts were lost, or come late.
func losses() []Rule {
	return []Rule{
		{
			Name: "KVWitnessFactsLost", Urgency: Ticket, Keep: "10m",
			Expr:    `sum by (` + engineLabels + `, stage) (increase(kvwitness_facts_lost_total[10m])) > 0`,
			Summary: "facts of {{ $labels.engine }} on {{ $labels.node }} were lost at the stage {{ $labels.stage }}", Next: askState,
			Runbook: witness("Facts were lost before the judge saw them. The requests concerned are unwitnessed.", "`kvwitness_facts_lost_total` grew; its labels name stage and reason.",
				[]string{"engine: the engine dropped for a slow subscriber, or kept too little. stream, decode: what came was out of order or malformed. guard: more than the limits allow. intake: the judge was too slow.", "Is the node short of CPU just then?"},
				[]string{"Give the sidecar more CPU, or the queue more room (`kvwitness config`).", "Malformed or foreign facts: find out who publishes at that endpoint."}),
		},
		{
			Name: "KVWitnessFactsUnusable", Urgency: Ticket, Keep: "10m",
			Expr:    `sum by (` + Where + `) (increase(kvwitness_ledger_unusable_total[10m])) > 0`,
			Summary: "the judge on {{ $labels.node }} was told of pools, pages or bytes that are not there", Next: "on the node: curl -s 127.0.0.1:9464/api/v1/state | jq .judge",
			Runbook: witness("Facts named pools that were never opened, pages beyond a pool, or bytes outside every region. Either the engine's events are wrong, or the sidecar missed their beginning.", "Facts that could not be applied.",
				[]string{"`judge` in `/api/v1/state`: NoPool, Impossible, Elsewhere or Void?", "Did the engine restart a moment ago? A few of them are harmless then."},
				[]string{"If it goes on: record a trace (`--record`), replay it, and report it to whoever maintains the engine's events."}),
		},
		{
			Name: "KVWitnessStreamUnsteady", Urgency: Ticket, For: "10m",
			Expr:    `sum by (` + engineLabels + `) (increase(kvwitness_stream_events_total{event=~"gap|silence|restart"}[1h])) > 5`,
			Summary: "the stream of {{ $labels.engine }} on {{ $labels.node }} breaks again and again", Next: askState,
			Runbook: witness("The stream broke off, fell silent or began anew more than five times within an hour. Each time leaves handoffs unwitnessed.", "`kvwitness_stream_events_total` by event.",
				[]string{"restart: does the engine crash in a loop? That is an incident of its own.", "gap: does the engine's queue overflow under load? silence: does its process stand still?"},
				[]string{"Mend the engine, or give its publisher a longer queue."}),
		},
		{
			Name: "KVWitnessPollsFail", Urgency: Ticket, For: "10m",
			Expr: lines(
				`sum by (`+engineLabels+`, endpoint) (increase(kvwitness_polls_total{result="failed"}[10m])) > 0`,
				"unless",
				`sum by (`+engineLabels+`, endpoint) (increase(kvwitness_polls_total{result="ok"}[10m])) > 0`),
			Summary: "{{ $labels.engine }} on {{ $labels.node }} does not answer {{ $labels.endpoint }}", Next: "on the node: curl -s ENGINE/{{ $labels.endpoint }}",
			Runbook: witness("The engine's HTTP endpoint has not answered the sidecar for ten minutes: context, pool and protections are not known.", "Only failed polls.",
				[]string{"Does the endpoint answer on the node by hand?", "401 or 403: is `engine_key_file` right?"},
				[]string{"Correct the URL or the key."}),
		},
		{
			Name: "KVWitnessFactsLate", Urgency: Ticket, For: "10m",
			Expr:    `max by (` + engineLabels + `) (kvwitness_fact_delay_expected_seconds) > 1`,
			Summary: "facts of {{ $labels.engine }} on {{ $labels.node }} come {{ $value | humanizeDuration }} late", Next: askState,
			Runbook: witness("Facts of this engine arrive late, and the judge waits for them. Findings come as much later.", "The delay that is waited for.",
				[]string{"Is the node short of CPU? Do clocks differ (facts are refused ahead of the clock)?", "Does one engine hold back the others (`kvwitness_held_back_seconds_total`)?"},
				[]string{"Give the sidecar CPU of its own."}),
		},
		{
			Name: "KVWitnessFindingsSlow", Urgency: Ticket, For: "5m",
			Expr:    `histogram_quantile(0.9, sum by (` + Where + `, le) (increase(kvwitness_finding_delay_seconds_bucket[15m]))) > 0.25`,
			Summary: "findings on {{ $labels.node }} come more than a quarter of a second after their facts", Next: askState,
			Runbook: witness("The time from a fact to its finding is far above its goal of 10 ms.", "`kvwitness_finding_delay_seconds`; its exemplars are ids of findings.",
				[]string{"Is KVWitnessFactsLate there? Then facts come late, and the judge is not slow.", "`kvwitness_fullness_ratio{thing=\"window\"}`: does the judge fall behind?"},
				[]string{"Give the sidecar CPU of its own; have it follow fewer engines."}),
		},
	}
}

// pressure are the alerts that say that something is full, forgotten or dropped.
func pressure() []Rule {
	return []Rule{
		{
			Name: "KVWitnessForgets", Urgency: Ticket, Keep: "10m",
			Expr:    `sum by (` + Where + `, thing) (increase(kvwitness_ledger_forgotten_total{thing!="ended"}[10m])) > 0`,
			Summary: "the judge on {{ $labels.node }} forgot {{ $labels.thing }} at a limit", Next: "on the node: kvwitness config | grep limits",
			Runbook: witness("The judge met a limit and forgot something that it still needed. The requests concerned are unwitnessed. (Rooms that ended are forgotten all the time, and are no reason.)", "`kvwitness_ledger_forgotten_total` by thing.",
				[]string{"Is traffic much higher than usual, or does a thing grow without end (requests that never finish)?", "`kvwitness_fullness_ratio` over the last day: a slope, or a step?"},
				[]string{"Raise the limit of that thing within the memory that the sidecar has.", "A slope is a leak: record a trace and look for requests that are never finished."}),
		},
		{
			Name: "KVWitnessFull", Urgency: Ticket, For: "10m",
			Expr:    `max by (` + Where + `, thing) (kvwitness_fullness_ratio{thing!="ended"}) > 0.8`,
			Summary: "{{ $labels.thing }} of the sidecar on {{ $labels.node }} are {{ $value | humanizePercentage }} full", Next: "on the node: kvwitness config | grep limits",
			Runbook: witness("A bounded thing of the sidecar is almost full. Beyond its limit it forgets or drops.", "`kvwitness_fullness_ratio` by thing.",
				[]string{"A slope or a step?", "lines, record: is the reader of its output, or its disk, too slow?"},
				[]string{"Raise the limit, or speed up the reader or the disk."}),
		},
		{
			Name: "KVWitnessQueueFull", Urgency: Ticket, For: "2m",
			Expr:    `max by (` + engineLabels + `, queue) (kvwitness_queue_fullness_ratio) > 0.8`,
			Summary: "the {{ $labels.queue }} queue of {{ $labels.engine }} on {{ $labels.node }} is {{ $value | humanizePercentage }} full", Next: askState,
			Runbook: witness("Facts of this engine come faster than they are judged. When the queue is full they are lost.", "`kvwitness_queue_fullness_ratio`.",
				[]string{"Is the node short of CPU?", "Is one engine catching up and holding back the others?"},
				[]string{"Give the sidecar more CPU; have it follow fewer engines."}),
		},
		{
			Name: "KVWitnessOutputDropped", Urgency: Ticket, Keep: "10m",
			Expr:    `sum by (` + Where + `, sink) (increase(kvwitness_output_dropped_total[10m])) > 0`,
			Summary: "the sidecar on {{ $labels.node }} dropped output ({{ $labels.sink }})", Next: "on the node: df -h; journalctl -u kvwitness",
			Runbook: witness("Lines or recorded facts were dropped because their reader or their disk was too slow. Metrics are right; the JSON lines or the trace have a hole.", "`kvwitness_output_dropped_total` by sink.",
				[]string{"Is the disk full or slow? Does the reader of standard output stand still?"},
				[]string{"Mend disk or reader. A trace with a hole says so when it is replayed."}),
		},
	}
}
