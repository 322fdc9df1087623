package alert

// engineLabels are those of one engine.
const engineLabels = Where + ", engine"

// witness is the runbook of an alert that accuses the witness.
func witness(means, seen string, confirm, contain []string) Runbook {
	return Runbook{
		Means: means, Claimed: "Nothing. The engine is not accused: it may be well, and nobody would know if it were not.", Seen: seen,
		Confirm: confirm, Contain: contain,
		Whose: "Nobody's. But as long as this lasts, silence does not mean that all is well.", Wake: wakeFor(Ticket),
	}
}

const (
	askState  = "on the node: curl -s 127.0.0.1:9464/api/v1/state | jq '.engines[] | {name, state, refused, facts_lost, gaps}'"
	askHealth = "on the node: curl -s 127.0.0.1:9464/healthz"
)

// absence are the alerts that say that a sidecar is not there: silence must not look
// like health.
func absence() []Rule {
	return []Rule{
		{
			Name: "KVWitnessAbsent", Urgency: Ticket, For: "5m",
			Expr:    `absent(up{job="` + Job + `"})`,
			Summary: "no sidecar is scraped at all", Next: "in Prometheus: Status, Targets: is there a job " + Job + "?",
			Runbook: witness("Prometheus knows no target of the job "+Job+". Every other alert of kvwitness is silent for that reason.", "No series of the job.",
				[]string{"Does the scrape configuration still have the job, with that name?", "Does service discovery find nobody (namespace, selector, ServiceMonitor labels)?"},
				[]string{"Restore the scrape job; see that KVWitnessWatchdog fires again."}),
		},
		{
			Name: "KVWitnessDown", Urgency: Ticket, For: "5m",
			Expr:    `max by (` + Where + `) (up{job="` + Job + `"}) == 0`,
			Summary: "the sidecar on {{ $labels.node }} does not answer", Next: "on the node: systemctl status kvwitness, or kubectl logs of its pod",
			Runbook: witness("The sidecar of this node cannot be scraped.", "The scrape fails.",
				[]string{"Does it run? `curl -s 127.0.0.1:9464/livez` on the node.", "Does it ask for a token that the scrape does not show (401), or is it behind a network policy?"},
				[]string{"Start it again; its last words are in the journal.", "If it was killed for memory, see limits (`kvwitness config`) before raising its bound."}),
		},
		{
			Name: "KVWitnessGone", Urgency: Ticket, For: "10m",
			Expr: lines(
				`group by (`+Where+`) (last_over_time(up{job="`+Job+`"}[6h]))`,
				"unless",
				`group by (`+Where+`) (up{job="`+Job+`"})`),
			Summary: "the sidecar on {{ $labels.node }} has left the list of targets", Next: "is the node still in service? If engines run on it, its sidecar is missing",
			Runbook: witness("This node had a sidecar in the last six hours and is no longer among the targets. A rule on `up` is silent about it.", "The series ended.",
				[]string{"Was the node taken out of service on purpose? Then this ends by itself within six hours.", "Do engines still run there?"},
				[]string{"Bring the sidecar back wherever engines run; a DaemonSet whose selector no longer fits is the usual cause."}),
		},
	}
}

// unseen are the alerts that say that a sidecar that runs does not see.
func unseen() []Rule {
	return []Rule{
		{
			Name: "KVWitnessSeesNothing", Urgency: Ticket, For: "5m",
			Expr: lines(
				"sum by ("+Where+") (kvwitness_engines_live) == 0",
				"and",
				"sum by ("+Where+") (kvwitness_engines_configured) > 0"),
			Summary: "the sidecar on {{ $labels.node }} sees none of its engines", Next: askHealth,
			Runbook: witness("The sidecar runs and follows no live stream. It finds nothing because it sees nothing.", "No engine's stream is live.",
				[]string{"`curl -s 127.0.0.1:9464/healthz` says of each engine why it is not seen.", "Do the engines publish events at all, and is their folder the one of `events_dir`?"},
				[]string{"Correct the addresses (`kvwitness config` shows them) and send SIGHUP.", "Let the sidecar run as a user who may open the engines' sockets."}),
		},
		{
			Name: "KVWitnessEngineUnseen", Urgency: Ticket, For: "5m",
			Expr:    `max by (` + engineLabels + `) (kvwitness_stream_standing{standing="live"}) == 0`,
			Summary: "{{ $labels.engine }} on {{ $labels.node }} is not seen", Next: askState,
			Runbook: witness("The stream of this engine is not live: the sidecar waits for it, or cannot catch up.", "No live stream for five minutes.",
				[]string{"Does the engine run? If it is meant to be gone, take it out of `engines`.", "Standing `catching up` for minutes: the snapshot is refused or too large (`snapshot_bytes`); the sidecar's log says so."},
				[]string{"Correct `engines`, send SIGHUP.", "If the engine is stuck, that is an incident of its own."}),
		},
		{
			Name: "KVWitnessStale", Urgency: Ticket, For: "1m",
			Expr:    `max by (` + engineLabels + `) (kvwitness_last_fact_age_seconds) > 30`,
			Summary: "{{ $labels.engine }} on {{ $labels.node }} has said nothing for {{ $value | humanizeDuration }}", Next: askState,
			Runbook: witness("An engine that is well says something each second, even when idle. This one has been silent: what is shown of it is old.", "The age of its last fact.",
				[]string{"Does it answer `/health`? If not, the engine is stuck or gone.", "If it answers: was its publisher switched off, or its socket taken away?"},
				[]string{"Restart the engine's publisher or the engine; the sidecar takes up the stream by itself."}),
		},
		{
			Name: "KVWitnessSourceLost", Urgency: Ticket, For: "5m",
			Expr: lines(
				"max by ("+engineLabels+", source) (max_over_time(kvwitness_source_coverage[1h])) == 1",
				"and",
				"max by ("+engineLabels+", source) (kvwitness_source_coverage) == 0"),
			Summary: "{{ $labels.source }} no longer sees {{ $labels.engine }} on {{ $labels.node }}", Next: askState,
			Runbook: witness("A source that saw all it could of this engine within the last hour does not any more. Rules that need it fall silent; handoffs become unwitnessed.", "Coverage went from 1 to 0.",
				[]string{"http: does the engine answer `/server_info` with the sidecar's key?", "lifecycle: see KVWitnessEngineUnseen.", "rdma, tcp, cuda: did the engine restart, or its library change, without a new attachment?"},
				[]string{"Restart the source. A path that cannot be seen stays blind, and says so: do not count it as clean."}),
		},
		{
			Name: "KVWitnessSightLost", Urgency: Ticket,
			Expr: lines(
				`sum by (`+Where+`) (increase(kvwitness_verdicts_total{verdict="clean",traffic="real"}[1h] offset 30m)) > 0`,
				"and",
				`sum by (`+Where+`) (increase(kvwitness_verdicts_total{verdict="unwitnessed",traffic="real"}[30m])) > 0`,
				"unless",
				`sum by (`+Where+`) (increase(kvwitness_verdicts_total{verdict="clean",traffic="real"}[30m])) > 0`),
			Summary: "handoffs on {{ $labels.node }} were witnessed and no longer are", Next: "on the node: curl -s 127.0.0.1:9464/api/v1/verdicts?limit=20 | jq '.verdicts[].said.why'",
			Runbook: witness("There are handoffs, and none of the last half hour was clean; before that, some were. Nothing is known to be wrong, and nothing would be.", "Verdicts: unwitnessed only.",
				[]string{"`why` of the last verdicts names what was not seen.", "Is KVWitnessSourceLost or KVWitnessFactsLost there for the same node? Then that is the cause."},
				[]string{"Mend the source that `why` names."}),
		},
	}
}
