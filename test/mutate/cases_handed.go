package main

// casesHanded are the clauses of the hard cases 6 (rejected) and 7 (drained).
// What a rejection or a missing drain accuses of stands in kinds_handoff.go.
var casesHanded = []mutant{
	{
		rule: "case-06", clause: "recompute", file: "rejected_handoff.go",
		off: "a success is none of a rejected handoff where every page was computed locally",
		old: `recomputed := c.req.read && !c.req.readFar`,
		new: `recomputed := false`,
	},
	{
		rule: "case-06", clause: "recompute-every-page", file: "rejected_handoff.go",
		off: "every page, not some",
		old: `recomputed := c.req.read && !c.req.readFar`,
		new: `recomputed := c.req.read`,
	},
	{
		rule: "case-06", clause: "recompute-reads", file: "rejected_handoff.go",
		off: "and at least one must have been read",
		old: `recomputed := c.req.read && !c.req.readFar`,
		new: `recomputed := !c.req.readFar`,
	},
	{
		rule: "case-06", clause: "recompute-by-the-end", file: "rejected_handoff.go",
		off: "what its step has not written when it ends is not computed locally",
		old: ` && !c.inst.awaitsWrite(c.req)`,
		new: ``,
	},
	{
		rule: "case-06", clause: "recompute-nobodys", file: "pages.go",
		off: "who reads nothing but what nobody gave it has computed nothing",
		old: `r.read = r.read || p.flags&null == 0 && l.mayRead(c, run.First+uint32(i), p)`,
		new: `r.read = true`,
	},
	{
		rule: "case-06", clause: "recompute-read-late", file: "pages.go",
		off: "what it read in the step in which it gave it back was its own",
		old: `return c.req.holds(c.pool, at, p) || l.inTime(c, at, p)`,
		new: `return c.req.holds(c.pool, at, p)`,
	},
	{
		rule: "case-06", clause: "recompute-beside", file: "pages.go",
		off: "what it read of others is no part of what it computed",
		old: `if r.holds(c.pool, run.First+uint32(i), p) || c.pool.unseen(p) {`,
		new: `if r.readFar = r.readFar || !p.written(); true {`,
	},
	{
		rule: "case-06", clause: "recompute-in-step", file: "stale_read.go",
		off: "a page read in the step before its write is told is not computed locally yet",
		old: `		pr.req.readFar = true
`,
		new: `		_ = pr
`,
	},
	{
		rule: "case-06", clause: "started-before", file: "rejected_handoff.go",
		off: "what was started before the rejection may complete",
		old: `(t.sendTick == 0 || t.sendTick > rej.tick)`,
		new: `true`,
	},
	{
		rule: "case-06", clause: "named-before", file: "rejected_handoff.go",
		off: "what the receiver named before it rejected may complete",
		old: `rej != nil && t.recvTick > rej.tick {`,
		new: `rej != nil {`,
	},
	{
		rule: "case-06", clause: "crossing", file: "rejected_handoff.go",
		off: "the start of the peer of who rejected may cross the rejection",
		old: `case c.room.rejectedBy(c.inst) != nil:`,
		new: `case len(c.room.rejects) > 0:`,
	},
	{
		rule: "case-06", clause: "crossing-abort", file: "rejected_handoff.go",
		off: "an abort scopes to the instance that said so",
		old: `case c.req != nil && c.req.aborted:`,
		new: `case c.room.givenUp():`,
	},
	{
		rule: "case-06", clause: "reservation-crosses", file: "rejected_handoff.go",
		off: "a peer's reservation may cross the abort",
		old: `if c.req != nil && c.req.aborted {
		l.wentOn(c, "aborted", "then pages`,
		new: `if c.req != nil && c.room.givenUp() {
		l.wentOn(c, "aborted", "then pages`,
	},
	{
		rule: "case-06", clause: "abort-runs-out", file: "rejected_handoff.go",
		off: "a transfer that runs when its request is aborted may run to its end",
		old: `	if rej := c.room.rejectedBy(t.send); rej != nil && (`,
		new: `	if r := c.room.on(t.send); r != nil && r.aborted {
		l.wentOn(c, "aborted", "then its transfer was completed")
	}
	if rej := c.room.rejectedBy(t.send); rej != nil && (`,
	},
	{
		rule: "case-06", clause: "success-of-the-room", file: "rejected_handoff.go",
		off: "a success on either instance of the room",
		old: `if len(c.room.rejects) > 0 && !recomputed`,
		new: `if c.room.rejectedBy(c.inst) != nil && !recomputed`,
	},
	{
		rule: "case-06", clause: "readmitted", file: "requests.go",
		off: "an admission by who rejected starts anew",
		old: `	r.room.forgive(c.inst)
`,
		new: ``,
	},
	{
		rule: "case-06", clause: "readmitted-by-whom", file: "room.go",
		off: "an admission by another instance does not",
		old: `if rej.inst != inst {`,
		new: `if false {`,
	},
	{
		rule: "case-06", clause: "readmitted-after-abort", file: "requests.go",
		off: "an admission by who aborted starts anew",
		old: `r.admitted, r.ended, r.finished, r.aborted, r.stalled = l.tick, false, false, false, false`,
		new: `r.admitted, r.ended, r.finished, r.stalled = l.tick, false, false, false`,
	},
	{
		rule: "case-06", clause: "same-room-again", file: "resolve.go",
		off: "a new request in a room whose request has ended starts it anew",
		old: `		l.renew(inst, f)
`,
		new: ``,
	},
	{
		rule: "case-06", clause: "success-is-2xx", file: "rejected_handoff.go",
		off: "what finished by abort, by error or without a 2xx is no success",
		old: `if !c.f.Success() {
		return
	}
	recomputed`,
		new: `recomputed`,
	},
	{
		rule: "case-06", clause: "recompute-unseen", file: "rejected_handoff.go",
		off: "what may have been recomputed out of sight accuses nobody",
		old: `if len(c.room.rejects) > 0 && !recomputed && !unsure {`,
		new: `if len(c.room.rejects) > 0 && !recomputed && (unsure || true) {`,
	},
	{
		rule: "case-07", clause: "drained", file: "ledger.go",
		off: "the writer says transfer_drained",
		old: `		l.drain(c.tr)
`,
		new: ``,
	},
	{
		rule: "case-07", clause: "completed", file: "transfers.go",
		off: "its transfer completed ok",
		old: `		l.promote(t)
		l.drain(t)
`,
		new: `		l.promote(t)
`,
	},
	{
		rule: "case-07", clause: "peer-gone", file: "transfers.go",
		off: "its peer is gone",
		old: `		t.gone = true
		l.drain(t)
`,
		new: `		t.gone = true
`,
	},
	{
		rule: "case-07", clause: "peer-restarts", file: "requests.go",
		off: "its peer restarts",
		old: `	l.parted(inst, func(*transfer) bool { return true })
`,
		new: ``,
	},
	{
		rule: "case-07", clause: "seen-to-end", file: "early_release.go",
		off: "all its writes were seen to end",
		old: `return t.failed() && t.posted == 0 && len(t.doubts) == 0 && !t.into.blurred && t.recv.sight.complete(t.send.name, t.began())`,
		new: `return false`,
	},
	{
		rule: "case-07", clause: "none-outstanding", file: "early_release.go",
		off: "and none that was posted is outstanding",
		old: `return t.failed() && t.posted == 0 && len(t.doubts) == 0 && !t.into.blurred && t.recv.sight.complete(t.send.name, t.began())`,
		new: `return t.failed() && !t.into.blurred && t.recv.sight.complete(t.send.name, t.began())`,
	},
	{
		rule: "case-07", clause: "seen-completely", file: "early_release.go",
		off: "and the coverage is complete",
		old: `return t.failed() && t.posted == 0 && len(t.doubts) == 0 && !t.into.blurred && t.recv.sight.complete(t.send.name, t.began())`,
		new: `return t.failed() && t.posted == 0 && len(t.doubts) == 0`,
	},
	{
		rule: "case-07", clause: "failed-only", file: "early_release.go",
		off: "and the transfer is over: one that is open may post more",
		old: `return t.failed() && t.posted == 0 && len(t.doubts) == 0 && !t.into.blurred && t.recv.sight.complete(t.send.name, t.began())`,
		new: `return t.posted == 0 && len(t.doubts) == 0 && !t.into.blurred && t.recv.sight.complete(t.send.name, t.began())`,
	},
	{
		rule: "case-07", clause: "every-writer", file: "transfer.go",
		off: "every writer of the room must be drained",
		old: `		t.drained = true
`,
		new: `		t.drained = true
		for _, other := range t.into.transfers {
			other.drained = true
		}
`,
	},
	{
		rule: "case-07", clause: "which-transfer", file: "transfer.go",
		off: "a drain is of the transfer that it names",
		old: `	if t := rm.find(transferID{inst, peer, xfer}); t != nil {
		return t
	}
	return`,
		new: `	for _, t := range rm.transfers {
		if t.recv == inst && t.send == peer || t.recv == peer && t.send == inst {
			return t
		}
	}
	return`,
	},
}
