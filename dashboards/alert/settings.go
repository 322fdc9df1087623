package alert

// settings are the alerts on how the sidecar and the engines are set up, and the
// one that says that all others can be heard.
func settings() []Rule {
	return []Rule{
		{
			Name: "KVWitnessPoolBelowContext", Urgency: Ticket, For: "5m",
			Expr: lines(
				"min by ("+engineLabels+") (kvwitness_pool_capacity_tokens)",
				"<",
				`max by (`+engineLabels+`) (kvwitness_context_tokens{which="effective"})`),
			Summary: "{{ $labels.engine }} on {{ $labels.node }} accepts prompts that its pool of {{ $value }} tokens cannot hold", Next: "on the node: curl -s ENGINE/server_info | jq '{max_total_num_tokens, context_length}'",
			Runbook: Runbook{
				Means:   "The context that the engine serves is longer than its pool. It is no leak by itself but the precondition of one: the first prompt between the two goes down a path that nobody tested. This deployment fails the pool gate.",
				Claimed: "Both numbers: the pool by `/server_info`, the context by `/v1/models`.", Seen: "Nothing from outside.",
				Confirm: []string{"What changed last: weights, quantisation, parallelism, memory share?", "Is capacity_inversion found as well? It also compares with the pools of peers."},
				Contain: []string{refuseLong, restartPrefill}, Whose: whoseNobody, Wake: wakeFor(Ticket),
			},
		},
		{
			Name: "KVWitnessProtectionLost", Urgency: Ticket, For: "15m",
			Expr: lines(
				`max by (`+engineLabels+`, protection) (max_over_time(kvwitness_protection_state{state="ran"}[1d])) == 1`,
				"and",
				`max by (`+engineLabels+`, protection) (kvwitness_protection_state{state=~"off|unsupported"}) == 1`),
			Summary: "{{ $labels.protection }} of {{ $labels.engine }} on {{ $labels.node }} ran within the last day and is off now", Next: "on the node: curl -s ENGINE/server_info",
			Runbook: Runbook{
				Means:   "A protection that has run on this engine is switched off or no longer supported. What it stopped is stopped no more.",
				Claimed: "The state of the protection, by its stream or by `/server_info`.", Seen: "Nothing from outside. Only a protection that ran counts as one.",
				Confirm: []string{"Was the engine deployed anew with other settings or another version?", "Is a drill going on? A drill switches off the protections that would stop it."},
				Contain: []string{"Switch it on again, or write down why it is off and silence this alert with that reason."}, Whose: whoseNobody, Wake: wakeFor(Ticket),
			},
		},
		{
			Name: "KVWitnessConfigRefused", Urgency: Ticket, For: "5m",
			Expr:    "min by (" + Where + ") (kvwitness_config_last_reload_success) == 0",
			Summary: "the sidecar on {{ $labels.node }} refused its configuration and runs on with the old one", Next: "on the node: kvwitness config",
			Runbook: witness("The configuration was read and is wrong, or changes what only a restart can. The old one stays in force.", "`kvwitness_config_last_reload_success` is 0 since `kvwitness_config_last_reload_timestamp_seconds`.",
				[]string{"`kvwitness config` with the same file says what is wrong and what is allowed; the log says which keys need a restart."},
				[]string{"Correct the file and send SIGHUP, or restart."}),
		},
		{
			Name: "KVWitnessRestarts", Urgency: Ticket,
			Expr:    `max by (` + Where + `) (changes(process_start_time_seconds{job="` + Job + `"}[1h])) > 2`,
			Summary: "the sidecar on {{ $labels.node }} restarted {{ $value }} times within an hour", Next: "on the node: journalctl -u kvwitness --since -1h",
			Runbook: witness("The sidecar ends and is started again and again. In between nothing is seen, and what it knew is lost.", "Its start time changed.",
				[]string{"Killed for memory? The kernel's log, or `kubectl describe pod`.", "Does it say why at its end? An error in its settings is its last line."},
				[]string{"Correct the settings, or its bounds."}),
		},
		{
			Name: "KVWitnessShadow", Urgency: None, For: "1h",
			Expr:    "max by (" + Where + ") (kvwitness_shadow) == 1",
			Summary: "the sidecar on {{ $labels.node }} is in shadow mode: nothing that it finds wakes anybody", Next: "on the node: kvwitness config | grep shadow",
			Runbook: witness("Shadow mode is for the first days: everything is reported and nobody is woken. It is easily forgotten.", "`kvwitness_shadow` is 1.",
				[]string{"Is it meant to be? Who switches it off, and when?"},
				[]string{"Set `shadow: false` and send SIGHUP once its findings of some days have been looked at."}),
		},
		{
			Name: "KVWitnessFoundInShadow", Urgency: None, Keep: "10m",
			Expr: lines(
				`sum by (`+Where+`, kind) (increase(kvwitness_findings_total{wakes="no",severity=~"critical|high"}[15m])) > 0`,
				"and on ("+Where+")",
				"max by ("+Where+") (kvwitness_shadow) == 1"),
			Summary: "{{ $labels.kind }} on {{ $labels.node }}, found in shadow mode", Next: "on the node: curl -s 127.0.0.1:9464/api/v1/findings | jq '.findings[] | select(.shadow)'",
			Runbook: witness("A finding that would have opened a ticket or paged, had the sidecar not been in shadow mode.", "The finding itself, with claim and observation, in `/api/v1/findings`.",
				[]string{"`kvwitness explain KIND` says what it means; the runbook of that kind says how to confirm it."},
				[]string{"Do as that runbook says. If it was right, it is time to end shadow mode."}),
		},
		{
			Name: "KVWitnessWatchdog", Urgency: None,
			Expr:    `count(up{job="` + Job + `"} == 1) > 0`,
			Summary: "{{ $value }} sidecars are scraped; this alert fires always", Next: "nothing: be worried when it is missing",
			Runbook: witness("This alert fires as long as at least one sidecar is scraped. Route it to a receiver that raises an alarm when it is no longer heard: then the way from sidecar to Prometheus to Alertmanager to receiver is known to work.", "At least one scrape succeeds.",
				[]string{"Missing at the receiver, firing in Prometheus: look at Alertmanager. Missing in Prometheus: see KVWitnessAbsent and KVWitnessDown."},
				[]string{"Mend the part of the way that is broken; meanwhile nobody is woken for anything."}),
		},
	}
}
