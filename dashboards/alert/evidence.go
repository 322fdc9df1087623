package alert

// evidence are the alerts that say that evidence is lost, or that nobody could be told
// at once.
func evidence() []Rule {
	return []Rule{
		{
			Name: "KVWitnessEvidenceLost", Urgency: Ticket, Keep: "10m",
			Expr:    `sum by (` + Where + `, what) (increase(kvwitness_evidence_lost_total[10m])) > 0`,
			Summary: "{{ $labels.what }} did not become evidence on {{ $labels.node }}", Next: "on the node: curl -s 127.0.0.1:9464/api/v1/state | jq .evidence",
			Runbook: witness("Incidents are found and told as ever, but not all of their evidence is kept. facts: they came too fast to be remembered. incidents: so many came at once that some have no evidence of their own. entries: they did not reach the disk.", "`kvwitness_evidence_lost_total` grew; its label says what.",
				[]string{"entries: is the disk of the evidence folder full, or read-only? The log says why.", "incidents: one fault on every request makes thousands; the first ones of each kind are kept."},
				[]string{"Make room on the disk; then go on. What was acknowledged before is whole (`kvwitness findings verify`).", "Copy the first incidents away: `kvwitness findings export`."}),
		},
		{
			Name: "KVWitnessEvidenceSetAside", Urgency: Ticket,
			Expr:    `max by (` + Where + `) (kvwitness_evidence_set_aside) == 1`,
			Summary: "the evidence on {{ $labels.node }} was damaged and is set aside", Next: "on the node: curl -s 127.0.0.1:9464/api/v1/state | jq .evidence.set_aside",
			Runbook: witness("The evidence on disk did not verify when the sidecar opened it: the disk damaged it, or somebody changed it. It lies beside, whole, and a new store takes what comes. Earlier disclosures are no longer open for the sidecar.", "A hash that is not that of its entry, or a file that cannot be read.",
				[]string{"Does the disk report errors (`dmesg`)?", "Who may write to the folder? Only the sidecar's own user should."},
				[]string{"Keep the file that was set aside; compare exports that were made before with the heads in their alerts.", "See to it that earlier disclosures are not forgotten: their alerts end now.", "Restart the sidecar when that is done."}),
		},
		{
			Name: "KVWitnessPushFails", Urgency: Ticket, For: "5m",
			Expr: lines(
				`sum by (`+Where+`) (increase(kvwitness_alert_pushes_total{result="failed"}[10m])) > 0`,
				"unless",
				`sum by (`+Where+`) (increase(kvwitness_alert_pushes_total{result="ok"}[10m])) > 0`),
			Summary: "the sidecar on {{ $labels.node }} cannot tell Alertmanager at once", Next: "on the node: curl -s 127.0.0.1:9464/api/v1/state | jq .alerts",
			Runbook: witness("A disclosure is open, and no Alertmanager of the configuration takes it. The rule of its kind tells of it all the same, a scrape and an evaluation later.", "Only failed pushes for ten minutes.",
				[]string{"`.alerts[].problem` in the state says why: address, certificate, token?", "Does Alertmanager run?"},
				[]string{"Correct `alertmanagers`, `alertmanager_ca_file` or `alertmanager_token_file`, and restart the sidecar."}),
		},
	}
}
