package alert

import "github.com/kvwitness/kvwitness/sidecar/finding"

// known is what a runbook adds to the explanation of a kind.
type known struct {
	claimed, seen    string
	confirm, contain []string
	whose            string
}

const (
	whoseExposed = "`exposed` in the finding lists instance, request and domain (a keyed hash of the tenant) of those whose data lay in the pages. Map the hash to a tenant with the key of the engine's key file; kvwitness cannot. The request in `req` is the one that got the data."
	whoseVictims = "`exposed` lists the present holders: their answers may be damaged by another's data. The writer's request is in `req`, and it is the writer's data that lies in their pages."
	whoseNobody  = "Nobody's data is known to be exposed by this alone. A critical finding of the same room or pages says whose."
	drainNode    = "Drain: take the instance out of the router's list and let running requests end; do not abort them in bulk, an abort in the middle of a transfer is how late writes begin."
	deferred     = "Switch deferred release (drain before release) on, on both roles, and see that `kvwitness_protection_state{protection=\"drain-before-release\",state=\"ran\"}` becomes 1."
)

var runbooks = [finding.NumKind]known{
	finding.StaleRead: {
		claimed: "That the request's attention, or a transfer that reads the page, used the page. Reads are always claimed: nobody sees inside the GPU.",
		seen:    "That no write filled the page in its present generation: by the engine's own promise to report all writes, or by a source that saw all incoming bytes. `observation` says which.",
		confirm: []string{"Is there a short_handoff or rejected_handoff of the same `room`? Then this is its consequence, and prefill is where it began.", "Are all findings of one instance? Then it is that instance; of many, suspect what was deployed last."},
		contain: []string{drainNode, "If prompts longer than prefill's pool came before it: restart prefill with a larger pool, or lower the context at the router first."},
		whose:   whoseExposed,
	},
	finding.ForeignPage: {
		claimed: "Which request holds the page, and who read it or was to write it.",
		seen:    "A read without a reference, bytes of another sender in the page, or a transfer that names it.",
		confirm: []string{"Does `observation` name a peer (a write) or the instance itself (a read)?", "Are double_hold or double_release of the same instance there? Then its free list is wrong."},
		contain: []string{drainNode, "Restart the instance before it gets traffic again: its tables are no longer true."},
		whose:   whoseExposed,
	},
	finding.TenantCrossing: {
		claimed: "The domain of the page in the prefix cache and the domain of the request; both are the engine's own words.",
		seen:    "Nothing from outside: sharing is bookkeeping, and it is the engine's own account that breaks the rule.",
		confirm: []string{"Compare the request's `domain` with those in `exposed`: two tenants, or one tenant with two salts?", "Which hop (router, connector, storage tier) had both last?"},
		contain: []string{"Switch prefix caching off on the instance, or pin each tenant to instances of its own."},
		whose:   whoseExposed,
	},
	finding.WrongBlock: {
		claimed: "The prefix key that the request asked for, and the key that the page was cached under.",
		seen:    "Nothing from outside: both keys are the engine's own.",
		confirm: []string{"Did eviction, a reload from a host tier or a restart come before it?", "One instance, or all that share a storage tier?"},
		contain: []string{"Flush the prefix cache and every tier that the page came from."},
		whose:   whoseExposed,
	},
	finding.WriteAfterRelease: {
		claimed: "That the page was released, and by which request.",
		seen:    "Bytes that arrived in it afterwards; where no source sees bytes, the engine's own report of a late write. `observation` says which.",
		confirm: []string{"Are there aborts or timeouts in the engine's log just before?", "Is early_release of the same pages there? It says who released too soon."},
		contain: []string{deferred, "Restart decode instances whose pages were hit, once drained: what lies in their prefix cache may be damaged."},
		whose:   whoseVictims,
	},
	finding.EarlyRelease: {
		claimed: "That the last reference ended, or the page was handed out again, and which transfer was open on it.",
		seen:    "That no drain, completion or end of the connection was seen for that writer.",
		confirm: []string{"Is write_after_release there for the same pages? Follow that.", "Do all come from aborts, or from one peer?"},
		contain: []string{deferred},
		whose:   whoseNobody,
	},
	finding.DoubleHold: {
		claimed: "Both reservations, by the engine's own events.",
		seen:    "Nothing from outside.",
		confirm: []string{"Is double_release of the same pages there before it? That is the cause.", "Does the engine run offload or a second allocator?"},
		contain: []string{drainNode, "Restart it: a free list with a page twice does not heal."},
		whose:   whoseExposed,
	},
	finding.DoubleRelease: {
		claimed: "Both releases, by the engine's own events.",
		seen:    "Nothing from outside.",
		confirm: []string{"Did abort and finish both run for `req`? The engine's log of that request says so.", "Is double_hold there already?"},
		contain: []string{"Restart the instance at the next quiet hour, at once if double_hold follows."},
		whose:   whoseNobody,
	},
	finding.ShortHandoff:       shortHandoff,
	finding.ContentMismatch:    contentMismatch,
	finding.RejectedHandoff:    rejectedHandoff,
	finding.ClaimMismatch:      claimMismatch,
	finding.CapacityInversion:  capacityInversion,
	finding.LayoutMismatch:     layoutMismatch,
	finding.VRAMMismatch:       vramMismatch,
	finding.PoolImbalance:      poolImbalance,
	finding.StalledReservation: stalledReservation,
	finding.Blind:              blind,
}
