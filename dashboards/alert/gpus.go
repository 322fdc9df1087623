package alert

// gpus are the alerts about what the driver says of GPUs.
func gpus() []Rule {
	return []Rule{
		{
			Name: "KVWitnessGPUUnreadable", Urgency: Ticket, For: "2m",
			Expr:    `min by (` + Where + `, gpu) (kvwitness_gpu_readable) == 0`,
			Summary: "the driver on {{ $labels.node }} no longer tells of {{ $labels.gpu }}", Next: "on the node: curl -s 127.0.0.1:9464/api/v1/state | jq .gpus",
			Runbook: witness("A GPU that the driver told of since the sidecar began is gone, lost or blank. Nothing is concluded about the memory of the engines that used it.", "`kvwitness_gpu_readable` is 0.",
				[]string{"`devices` in `/api/v1/state` names its state, and the call that failed.", "`dmesg | grep -i xid` on the node: 79 is a GPU that fell off the bus.", "Was it taken from the node on purpose, or split into MIG instances anew?"},
				[]string{"Drain the engine, reset the GPU or reboot the node.", "If it was taken away on purpose, restart the sidecar."}),
		},
		{
			Name: "KVWitnessContextBeyondGPU", Urgency: Ticket, For: "5m",
			Expr: lines(
				"max by ("+engineLabels+") (kvwitness_gpu_capacity_tokens)",
				"<",
				`max by (`+engineLabels+`) (kvwitness_context_tokens{which="effective"})`),
			Summary: "{{ $labels.engine }} on {{ $labels.node }} accepts prompts longer than the {{ $value }} tokens that its GPUs could hold at most", Next: "on the node: curl -s 127.0.0.1:9464/api/v1/state | jq .gpus",
			Runbook: Runbook{
				Means:   "Had the engine's pools all memory of its GPUs but what others hold, they would still be smaller than the context that it serves. No setting of the engine mends that, and KVWitnessPoolBelowContext fires or is about to.",
				Claimed: "The context, by `/v1/models`, and what a token takes, by the pools.", Seen: "The memory of the GPUs and what other processes hold of it, by the driver.",
				Confirm: []string{"Does another process hold much of that GPU? `devices` in `/api/v1/state` names who.", "Is the model served on fewer GPUs, or with wider keys and values, than planned?"},
				Contain: []string{refuseLong}, Whose: whoseNobody, Wake: wakeFor(Ticket),
			},
		},
	}
}
