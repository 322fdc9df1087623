package finding

// The explanations of the kinds that are about pages: who read, wrote, shared
// or released what.

var staleRead = Explanation{
	Rule:    "a page was read (by attention, or as the source of a transfer) that was not written in its present generation",
	Meaning: "A request read a page that had been handed out to it, but that nobody had filled since. Pages are not zeroed: it read what the page's earlier holder left there.",
	Matters: "The answer was computed from another request's keys and values. The exposed list names whose. The client saw HTTP 200 and fluent text.",
	Causes: []string{
		"A handoff was completed with fewer pages than were reserved, and decode reads up to the reserved length (look for short_handoff of the same room).",
		"Decode began before a reload from host memory or disk had finished.",
		"A page was put into the prefix cache before its forward pass had written it.",
	},
	Reports: []Report{
		{"sglang", 30233, "a prompt longer than the prefill pool: prefill reports 1 token, decode emits unrelated text"},
		{"vllm", 38715, "a block was inserted into the prefix cache and hit by another request before it was written"},
		{"glm-5", 0, "the provider's own report: HiCache pages were read before their reload had finished"},
	},
	Todo: []string{
		"Take the instance out of rotation; every further answer may carry others' data.",
		"Find out whose data was exposed: kvwitness replay --json on the recorded trace, field exposed.",
		"Withhold or recall the answers of the requests named.",
		"If a short_handoff came first, follow that one: this read is its consequence.",
	},
}

var foreignPage = Explanation{
	Rule:    "a reader without a reference, a writer that is not the request that reserved the generation, or a transfer that names a page its request does not hold",
	Meaning: "A request touched a page that is not its own: it read without holding a reference, wrote into another request's page, or a transfer named a page that its request does not hold.",
	Matters: "A foreign read exposes the page's holder; a foreign write corrupts its answer. Both requests are affected: the one that broke the rule and the victim.",
	Causes: []string{
		"A block table kept an entry after the page was released and handed out again.",
		"A zeroer or an offload worker acted on page ids of an earlier step.",
		"A retry or a late result used the metadata slot of a request that had ended.",
	},
	Reports: []Report{
		{"vllm", 43990, "the zeroer wiped the head of a neighbouring live block"},
		{"vllm", 25562, "blocks released after 120 s were used again by the finish path"},
		{"sglang", 24226, "decode offload freed slots of a running request; about 5% of answers continued a peer's prompt"},
	},
	Todo: []string{
		"Take the instance out of rotation.",
		"Look at claim and observation: a write from a peer points to the sender's tables, a read to this instance's own.",
		"Treat the answers of both the request and the exposed ones as damaged.",
		"Keep the recorded trace; switch off offload or deferred features on the instance one at a time.",
	},
}

var tenantCrossing = Explanation{
	Rule:    "a page of one domain was shared with, or read under a reference by, a request of another",
	Meaning: "The prefix cache gave a request pages that belong to another isolation domain (tenant or cache salt). The engine kept its own books correctly, but not the boundary it was told to keep.",
	Matters: "One tenant's cached prompt serves another's request: its presence leaks by timing, and with a wrong key its content leaks too.",
	Causes: []string{
		"The salt was dropped on the way: a router, a storage tier or a connector does not forward it.",
		"Keys of the cache or of an external store are computed without the salt.",
		"A request came without a domain through a path that older clients use.",
	},
	Reports: []Report{
		{"LMCache", 4825, "the salt is dropped"},
		{"sglang", 37160, "the salt is dropped"},
		{"sglang", 26785, "storage keys ignore the extra key"},
		{"ktransformers", 2184, "the salt is computed but never delivered"},
	},
	Todo: []string{
		"Switch prefix caching off on the instance, or route the two tenants apart, until the path is found.",
		"Compare the domains in exposed with the request's own: which hop last had both?",
		"Flush the cache tiers that were filled without a salt before caching is switched on again.",
	},
}

var wrongBlock = Explanation{
	Rule:    "a shared page's prefix key is not the one asked for",
	Meaning: "The prefix cache answered with a page of another prefix: the key that the page was cached under is not the key that the request asked for.",
	Matters: "The request computes with keys and values of a different text. Within one tenant that is a wrong answer; across tenants it is a leak as well.",
	Causes: []string{
		"A stale count of cached tokens shifts the block table by a block.",
		"A page was evicted and reused while its key still pointed to it.",
		"Two prefixes share a truncated or unsalted hash.",
	},
	Reports: []Report{
		{"vllm", 18957, "a stale cached-token count assigned wrong blocks"},
		{"LMCache", 4385, "content of another request came back by way of the local disk"},
	},
	Todo: []string{
		"Switch prefix caching off on the instance, or flush it.",
		"Treat the request's answer as damaged.",
		"If the page came from a host or disk tier, flush that tier as well: it keeps the wrong key.",
	},
}

var writeAfterRelease = Explanation{
	Rule:    "a write landed on a page after the writer's generation of it had ended",
	Meaning: "A write of an old request arrived when its page had already been released or given to somebody else: the page was freed before the writer was done.",
	Matters: "If the page has a new holder, part of its context was overwritten with another request's data. No status code and no length shows it.",
	Causes: []string{
		"An abort or a timeout on the receiver freed the pages while the sender's RDMA writes were still running.",
		"The sender was told of the abort late, and its queue went on.",
		"An asynchronous step wrote pages that the step before had freed.",
	},
	Reports: []Report{
		{"sglang", 32564, "abort frees the pages, the transfer runs on"},
		{"sglang", 27372, "prefill is told of the abort; a window of up to 30 s stays"},
		{"vllm", 45357, "an asynchronous step n+1 wrote pages freed after step n"},
		{"glm-5", 0, "the provider's own report: decode timed out and freed pages that the old write still filled; over 10 anomalies per 10,000 requests before explicit synchronisation"},
	},
	Todo: []string{
		"Treat the answers of the page's present holders (exposed) as damaged.",
		"Switch deferred release on at both roles, and check by protection facts that it really runs.",
		"Keep load balancers from turning a client's disconnect into an abort in the middle of a transfer.",
	},
}

var earlyRelease = Explanation{
	Rule:    "the last reference on a page ended, or it was handed out again, while a transfer that targets or reads it was not drained",
	Meaning: "A page was given up while a transfer could still write into it or read from it. Nothing wrong has landed yet as far as was seen; nothing prevents it either.",
	Matters: "This is the open door through which write_after_release and stale sources come. It is a race: under load it will be lost some time.",
	Causes: []string{
		"The allocator follows the request's life and not the writer's.",
		"A completion or a drain acknowledgement was lost, or not all peers were waited for.",
		"Eviction took a block that was still to be sent.",
	},
	Reports: []Report{
		{"sglang", 24527, "the allocator follows the request's life, not the writer's"},
		{"sglang", 40645, "lost drain acknowledgements"},
		{"sglang", 41402, "not all decode peers covered by the drain"},
		{"TensorRT-LLM", 12542, "a block was evicted before it was sent; decode waits for ever"},
	},
	Todo: []string{
		"Look for write_after_release on the same pages: if it is there, follow that one.",
		"Switch deferred release on where the engine supports it.",
		"Bound transfer batches, so that draining takes a known time.",
	},
}

var doubleHold = Explanation{
	Rule:    "a page was reserved while held",
	Meaning: "The allocator handed out a page that somebody still holds: two requests now believe that the page is theirs.",
	Matters: "Whoever writes last wins; the other reads foreign data. Findings of foreign_page or stale_read follow as a rule.",
	Causes: []string{
		"A page was freed twice and so stood twice in the free list (look for double_release).",
		"Two allocators, for example offload and scheduler, manage the same pool.",
		"A count of references was set back to zero to hide an imbalance.",
	},
	Reports: []Report{
		{"sglang", 24226, "decode offload freed slots of a running request"},
		{"LMCache", 1365, "a reference count of -2"},
	},
	Todo: []string{
		"Take the instance out of rotation and restart it: its free list is no longer true.",
		"Treat the answers of both holders as damaged.",
		"Look for the double_release before it: that is the cause.",
	},
}

var doubleRelease = Explanation{
	Rule:    "a page was released while not held",
	Meaning: "A request released a page that it did not hold, or released it twice.",
	Matters: "The page may now stand twice in the free list and be handed out to two requests: the next step is double_hold.",
	Causes: []string{
		"Abort and finish both ran for one request.",
		"A reference count went below zero and was corrected without finding out why.",
		"A late result freed what a retry already owned.",
	},
	Reports: []Report{
		{"LMCache", 1365, "a reference count of -2, set back to 0"},
		{"LMCache", 3381, "a reference count of -1, set back to 0"},
	},
	Todo: []string{
		"Look for double_hold on the same pages; if it is there, take the instance out of rotation.",
		"Restart the instance at the next chance: its free list may hold the page twice.",
		"Report both releases (request, step) upstream; the trace has them.",
	},
}
