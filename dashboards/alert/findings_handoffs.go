package alert

// What the runbooks add for the kinds that are about handoffs and instances.

const (
	restartPrefill = "Restart prefill with a pool that holds the whole context (more memory share, fewer bits a token, more ranks), or lower the context on both roles and at the router. The refusal must come in words: send one prompt between the two limits and see a 400."
	refuseLong     = "At once: refuse prompts longer than the smallest pool at the router."
)

var shortHandoff = known{
	claimed: "The pages that the receiver reserved and named, the prompt's length, and that the handoff is complete.",
	seen:    "How many of the owed bytes arrived, where a source watched the path; else how many pages the engine's own stream says were written. `observation` says which.",
	confirm: []string{"`counts` in the alert: are fewer pages written than reserved on this node as a whole, or was it one request?", "Is rejected_handoff or capacity_inversion of the same instance there? Then the prompt did not fit prefill's pool."},
	contain: []string{restartPrefill},
	whose:   whoseExposed,
}

var contentMismatch = known{
	claimed: "Both digests; sender and receiver compute them.",
	seen:    "That they differ. The bytes themselves are never looked at.",
	confirm: []string{"Is it one pair of nodes (links, memory) or all pairs (layout, software)?", "Is write_after_release or layout_mismatch of the same pair there?"},
	contain: []string{"Take the pair apart: let each prefill hand to other decodes, and see on which side it stays."},
	whose:   whoseVictims,
}

var rejectedHandoff = known{
	claimed: "The rejection or abort, and the transfer, completion or success that followed it.",
	seen:    "Bytes of that transfer, where a source watched it. That it was started is the engine's own word.",
	confirm: []string{"Is short_handoff or stale_read of the same `room` there? Those page; this is their cause.", "What does `reason` of the rejection say: too long, queue full, timeout?"},
	contain: []string{refuseLong, restartPrefill, "Upgrade to an engine that rejects before bootstrap, metadata and transfer."},
	whose:   whoseNobody,
}

var claimMismatch = known{
	claimed: "One account of the handoff: pages or prompt length.",
	seen:    "Another: bytes of fewer pages, or the other half of the room that says something else.",
	confirm: []string{"Which differs: length, number of pages, or pages said to be written?", "Is the path of these bytes one that a source can see? `kvwitness_source_coverage` of the engine says so; if it changed just now, suspect the witness first."},
	contain: []string{"Treat the instance's own counters as untrue until the cause is found: every check that is built on them is blind."},
	whose:   whoseNobody,
}

var capacityInversion = known{
	claimed: "The declared context and the size of each pool.",
	seen:    "Nothing from outside; both are the engine's own words.",
	confirm: []string{"`kvwitness_pool_capacity_tokens` below `kvwitness_context_tokens` on this node or on a peer?", "What changed last: weights, quantisation, parallelism, memory share?"},
	contain: []string{refuseLong, restartPrefill},
	whose:   whoseNobody,
}

var layoutMismatch = known{
	claimed: "Both layouts: page tokens, dtype, bytes per token, layer and head.",
	seen:    "Registered regions of another stride, where a source saw them.",
	confirm: []string{"Which of the values differs? `claim` has both.", "Was one role deployed without the other?"},
	contain: []string{"Take the pair apart at the router until both run one configuration."},
	whose:   whoseVictims,
}

var vramMismatch = known{
	claimed: "The pool's size, its regions and the engine's process ids.",
	seen:    "What the driver says of processes and bytes on the GPU.",
	confirm: []string{"`nvidia-smi` on the node: is there a process that no engine named?", "Did the engine restart, and is its predecessor still there?"},
	contain: []string{"End the leftover process, or move the second workload; then restart the engine so that its pool is sized anew."},
	whose:   whoseNobody,
}

var poolImbalance = known{
	claimed: "The engine's own count: free, cached, held, pending.",
	seen:    "Nothing from outside: the ledger's count is made from the engine's events.",
	confirm: []string{"The sign in `observation`: a leak, or a surplus (worse)?", "Does it grow with each abort?"},
	contain: []string{"Surplus: drain the instance and restart it now. Leak: restart at the next quiet hour."},
	whose:   whoseNobody,
}

var stalledReservation = known{
	claimed: "That the pages are reserved, and since when.",
	seen:    "No transfer, write, read or release for longer than the stall limit (`kvwitness config`, key stall).",
	confirm: []string{"One request, or many at once? Many: is a prefill gone?", "Is the peer of `room` alive, and did it reject?"},
	contain: []string{"If they are many: take the dead peer out of the router's list and let timeouts free the pages; then watch for early_release and write_after_release."},
	whose:   whoseNobody,
}

var blind = known{
	claimed: "Nothing. This accuses the witness, never the engine.",
	seen:    "A gap, a loss, or the end of coverage while handoffs were open.",
	confirm: []string{"Which stage lost it? `kvwitness_facts_lost_total` of the engine, by stage and reason.", "Does it come back under load? Then a queue is too small, or the node too busy."},
	contain: []string{"Nothing on the engine. Until it is mended, count the handoffs of that time as unwitnessed, and not as clean."},
	whose:   "Nobody's; but what happened in that time, nobody saw.",
}
