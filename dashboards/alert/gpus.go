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
	}
}
