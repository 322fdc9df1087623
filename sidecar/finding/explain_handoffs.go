package finding

// The explanations of the kinds that are about handoffs and about instances.

var shortHandoff = Explanation{
	Rule:    "a handoff was completed with less written than owed",
	Meaning: "Prefill said that the handoff was complete, but fewer pages (or tokens) arrived than the receiver had reserved for this prompt.",
	Matters: "Decode reads up to the reserved length: the pages that did not arrive still hold earlier requests' data. This is the shape of the incident that kvwitness was built for: 8 pages reserved, 1 written, 155 answers with other tenants' data, all HTTP 200.",
	Causes: []string{
		"The prompt is longer than the prefill pool and was cut or replaced by a placeholder (look for capacity_inversion).",
		"A request was rejected or aborted on prefill, and its empty result was sent all the same (look for rejected_handoff).",
		"Ranks disagree about how many pages a prompt has (look for layout_mismatch).",
	},
	Reports: []Report{
		{"sglang", 30233, "a prompt of 284,937 tokens against a pool of 284,928: prefill reports 1 token, decode emits unrelated text"},
		{"sglang", 34208, "prefill aborted, decode runs with a metadata length of 1"},
		{"sglang", 35421, "decode pool larger than prefill pool: 200 and garbage"},
		{"vllm", 19338, "ranks with different numbers of blocks"},
	},
	Todo: []string{
		"Take the receiver out of rotation, or refuse prompts longer than the smallest pool at the router, now.",
		"Find out whose data was exposed: kvwitness replay --json, field exposed.",
		"Compare the context length with the pools of both sides; upgrade to an engine that rejects before the handoff.",
	},
}

var contentMismatch = Explanation{
	Rule:    "digests of sender and receiver differ",
	Meaning: "Sender and receiver both computed a digest of the same page of the same prompt, and the two differ: the bytes changed on the way, or they are not the same page.",
	Matters: "Length and ownership may be right and the content is still wrong. A digest at the handoff says nothing of later reads.",
	Causes: []string{
		"A late write of another request hit the page between transfer and digest.",
		"Peers lay out the page differently: dtype, heads per rank, page size.",
		"A host or disk tier changed bytes on the round trip.",
	},
	Reports: []Report{
		{"sglang", 38031, "a host round trip changes bytes"},
		{"sglang", 39500, "the optional handoff checksum that produces these digests"},
	},
	Todo: []string{
		"Treat the answer as damaged.",
		"Look for write_after_release, early_release and layout_mismatch of the same pair.",
		"If it comes back on one pair of nodes only, take the pair out and check its links and memory.",
	},
}

var rejectedHandoff = Explanation{
	Rule:    "a rejected or aborted request went on as if it were not",
	Meaning: "An instance rejected or aborted a request, and then started a transfer for it, completed one, or answered it with success.",
	Matters: "What was transferred is not the prompt. Decode computes with a placeholder and with whatever its other pages hold.",
	Causes: []string{
		"Admission asks a flag that the rejection does not set (to_finish against finished_reason).",
		"Bootstrap or the router checks another limit than admission does.",
		"The receiver was never told of the rejection.",
	},
	Reports: []Report{
		{"sglang", 36988, "the repair of results: an aborted prefill result is retired and late ones are ignored"},
		{"sglang", 34208, "prefill aborted, decode runs with a metadata length of 1"},
		{"sglang", 30325, "bootstrap checks the pool, which is larger than the longest request"},
		{"sglang", 38935, "the repair of admission: reject at the admission doors, before bootstrap, metadata and transfer"},
	},
	Todo: []string{
		"Look for short_handoff and stale_read of the same room; if they are there, follow them.",
		"Withhold the answer of this request.",
		"Upgrade to an engine that rejects before the handoff; test it with new, re-entering and preempted requests.",
	},
}

var claimMismatch = Explanation{
	Rule:    "claims differ from observations, or the two halves of a room differ (prompt length, pages)",
	Meaning: "What the engine says is not what was seen, or prefill and decode say different things about the same request.",
	Matters: "One of the two is wrong about what lies in memory. Every protection that is built on the engine's own count is blind to it.",
	Causes: []string{
		"Pages are reported as transferred that no write was seen for.",
		"Prefill counts a replaced or truncated prompt, decode the original.",
		"Ranks of one instance name different pages.",
	},
	Reports: []Report{
		{"sglang", 30233, "prompt_tokens=1 on prefill, 284,937 on decode"},
		{"vllm", 19338, "ranks with different numbers of blocks"},
	},
	Todo: []string{
		"Read claim and observation side by side: is it a length, a number of pages, or written pages?",
		"Look for short_handoff of the same room.",
		"If only written pages differ, check that no path is in use that the witness cannot see (kvwitness would then say blind).",
	},
}

var capacityInversion = Explanation{
	Rule:    "the declared context is longer than a pool that owes all can hold, here or on a peer, less what is never handed out",
	Meaning: "The engine accepts prompts that its KV pool, or its peer's, cannot hold.",
	Matters: "It is no leak by itself, but the precondition of one: the first prompt between the two limits goes down a path that nobody tested.",
	Causes: []string{
		"The pool shrank after a change of weights, quantisation, parallelism or memory share, and the context was left as it was.",
		"The context is set on one role only.",
		"Prefill and decode were sized apart.",
	},
	Reports: []Report{
		{"sglang", 30233, "context 1,048,576 tokens against a pool of 284,928"},
		{"sglang", 35421, "decode pool larger than prefill pool: 200 and garbage"},
		{"public benchmark", 0, "context set on prefill only: 33 of 1000 requests hang"},
	},
	Todo: []string{
		"Set the context (or the router's limit) below the smallest pool of both roles.",
		"Send a prompt between the two limits: it must be refused in words.",
		"Measure again after each change of weights, quantisation, parallelism or memory share.",
	},
}

var layoutMismatch = Explanation{
	Rule:    "peers differ in what must be equal for the bytes to mean the same: page tokens, normalised dtype, bytes per token, layer and head",
	Meaning: "Two instances that hand pages to each other lay them out differently.",
	Matters: "The bytes arrive whole and mean something else. Lengths, statuses and even coverage look right.",
	Causes: []string{
		"Different page sizes, KV dtypes or attention backends on the two roles.",
		"Different tensor parallelism with no conversion in between.",
		"One role was upgraded before the other.",
	},
	Reports: []Report{
		{"sglang", 14474, "page size differs between prefill and decode"},
		{"sglang", 19398, "dtype differs: silent at low load, crash at high"},
		{"vllm", 41037, "block size depends on TP"},
		{"vllm", 43523, "TP4 prefill, TP1 decode"},
	},
	Todo: []string{
		"Stop handoffs between the two instances until their settings agree.",
		"Start both roles from one configuration; compare page size, KV dtype and parallelism.",
		"Treat the answers that went over this pair as damaged.",
	},
}

var vramMismatch = Explanation{
	Rule:    "a pool, or a registered region, larger than or outside what the driver says its processes hold; a foreign process on the engine's GPU",
	Meaning: "The memory that the engine claims does not fit what the driver reports, or a process that no engine named uses the same GPU, or opened the engine's memory by a handle or descriptor.",
	Matters: "A pool that is not really there means that its addresses belong to something else. A foreign process competes for memory that the pool was sized with; one that opened the pool can read and write all tenants' pages.",
	Causes: []string{
		"A restarted engine left its predecessor's process behind.",
		"A second workload was scheduled on the GPU.",
		"The pool's size was declared for another GPU or another share of memory.",
		"A transfer agent, a debugger or a second engine opened the pool's memory, and no engine names its process.",
	},
	Todo: []string{
		"List the processes on the GPU and compare them with the pids in the finding.",
		"End the leftover process, or move the second workload.",
		"If the finding says that memory was opened, find out whose process that is before anything else: it could read whatever the pool has held since.",
		"If no foreign process is there, compare the pool's declared size with the memory share it was started with.",
	},
}

var poolImbalance = Explanation{
	Rule:    "free + cached + held + pending + null ≠ pages, or held ≠ the ledger's own count beyond a grace time",
	Meaning: "The engine's own count of its pages does not add up, or differs from what its events say. A missing page is a leak, one too many a surplus.",
	Matters: "A leak ends in refused requests. A surplus is the graver sign: a page counted twice will be handed out twice (double_hold).",
	Causes: []string{
		"An abort or a retry skipped the clean-up of its pages.",
		"A reference count was corrected by setting it to zero.",
		"Pages in deferred release are counted as free already.",
	},
	Reports: []Report{
		{"sglang", 11970, "a leak of 59 tokens"},
		{"LMCache", 3381, "a reference count of -1, set back to 0"},
	},
	Todo: []string{
		"Read the sign: a surplus needs the instance taken out; a leak needs a restart at the next chance.",
		"Look for double_release and stalled_reservation of the same instance.",
		"See whether it grows with aborts: that names the path.",
	},
}

var stalledReservation = Explanation{
	Rule:    "pages reserved with no progress for longer than the limit",
	Meaning: "A request holds pages, and nothing has been heard of it for longer than the stall limit.",
	Matters: "The pages are lost to others for that time; enough of them stop the instance. When a timeout frees them at last, a late write may still be on its way.",
	Causes: []string{
		"Prefill died or rejected the request and decode was not told.",
		"An acknowledgement was lost and nothing repeats it.",
		"Many clients left at once and their clean-up waits in one queue.",
	},
	Reports: []Report{
		{"sglang", 28651, "abort storm in production: 12 groups, 89% failures, 300 s holds"},
		{"ROCm/mori", 655, "one lost acknowledgement stops decode for good"},
		{"TensorRT-LLM", 12542, "a block was evicted before it was sent; decode waits for ever"},
	},
	Todo: []string{
		"Ask the peer: is the room's sender alive, and did it reject?",
		"If many stall at once, look for a dead prefill instance or a client that aborts in bulk.",
		"When the timeout frees the pages, watch for early_release and write_after_release.",
	},
}

var blind = Explanation{
	Rule:    "a gap, a loss, or a path that cannot be seen, leaves handoffs unwitnessed",
	Meaning: "The witness itself could not see: events were lost, a stream has a gap, or coverage ended while a handoff was open. Nothing is said about the engine.",
	Matters: "The handoffs of that time are unwitnessed: neither clean nor violated. Whoever counts on \"no finding\" must know it.",
	Causes: []string{
		"A ring buffer or queue was too small for a burst.",
		"The engine dropped events for a slow subscriber.",
		"Bytes take a path that the source cannot see, or the source was detached.",
	},
	Todo: []string{
		"See the stage and reason in the finding: which queue, which source.",
		"Run kvwitness replay on the recorded trace to see which requests are unwitnessed and why.",
		"Give the sidecar more CPU or larger buffers if it comes back under load.",
	},
}

var explanations = [NumKind]Explanation{
	StaleRead: staleRead, ForeignPage: foreignPage, TenantCrossing: tenantCrossing,
	WrongBlock: wrongBlock, ShortHandoff: shortHandoff, WriteAfterRelease: writeAfterRelease,
	ContentMismatch: contentMismatch, RejectedHandoff: rejectedHandoff, EarlyRelease: earlyRelease,
	ClaimMismatch: claimMismatch, CapacityInversion: capacityInversion, LayoutMismatch: layoutMismatch,
	DoubleHold: doubleHold, DoubleRelease: doubleRelease, VRAMMismatch: vramMismatch,
	PoolImbalance: poolImbalance, StalledReservation: stalledReservation, Blind: blind,
}
