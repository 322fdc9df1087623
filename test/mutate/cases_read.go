package main

// casesRead are clauses of the hard cases that DESIGN leaves to
// sidecar/ledger/READINGS.md.
var casesRead = []mutant{
	{
		rule: "case-01", clause: "staged-gone-before", file: "staged.go",
		off: "bytes of a transfer that goes on though its peer was said to be gone count",
		old: `owner = c.inst.parted(c.f.Xfer, from)`,
		new: `owner = nil`,
	},
	{
		rule: "case-09", clause: "late-room", file: "stale_read.go",
		off: "a read that waits is one of the room that was told meanwhile",
		old: `if room.gone && pr.req != nil {`,
		new: `if false {`,
	},
	{
		rule: "case-01", clause: "staged-failed", file: "short_handoff.go",
		off: "what a transfer that failed left in the staging buffer does not count",
		old: `lost := t.failed() || t.gone`,
		new: `lost := t.gone`,
	},
	{
		rule: "case-01", clause: "staged-gone", file: "short_handoff.go",
		off: "nor what one left there whose peer is gone",
		old: `lost := t.failed() || t.gone && t.outcome != lifecycle.OK;`,
		new: `lost := t.failed();`,
	},
	{
		rule: "case-01", clause: "staged-unsized", file: "short_handoff.go",
		off: "bytes are held against a staged pool only where the length of its pages is known",
		old: `pl.Path == lifecycle.PathStaged && pl.pageBytes() > 0 && h.covered() {`,
		new: `pl.Path == lifecycle.PathStaged && h.covered() {`,
	},
	{
		rule: "case-01", clause: "staged-local-then", file: "short_handoff.go",
		off: "a page that was written locally is owed no bytes, though it was handed out again",
		old: `return rec != nil && rec.local`,
		new: `return false && rec.local`,
	},
	{
		rule: "case-02", clause: "regions-known", file: "pool.go",
		off: "writes are seen only in pools whose regions are known",
		old: `return pl.Path == lifecycle.PathDirect && pl.direct > 0 }`,
		new: `return pl.Path == lifecycle.PathDirect }`,
	},
	{
		rule: "case-02", clause: "claimed-not-clean", file: "handoff.go",
		off: "a handoff of which a page is only claimed to be written is not clean",
		old: `s.blank == "" && !s.claimed && len`,
		new: `s.blank == "" && len`,
	},
	{
		rule: "case-02", clause: "reservations-promised", file: "short_handoff.go",
		off: "pages that were never reserved accuse only where reservations are promised",
		old: `h.recv.engine && pl.promises(lifecycle.PagesReserved) && pl`,
		new: `h.recv.engine && pl`,
	},
	{
		rule: "case-02", clause: "shares-promised", file: "short_handoff.go",
		off: "and shares",
		old: ` && pl.promises(lifecycle.PagesShared) && !h`,
		new: ` && !h`,
	},
	{
		rule: "case-02", clause: "would-be-missed", file: "short_handoff.go",
		off: "and a page that is not written would accuse",
		old: `return missed && h.recv.engine`,
		new: `return (missed || true) && h.recv.engine`,
	},
	{
		rule: "case-03", clause: "told-by-the-sender", file: "resolve.go",
		off: "where its peer receives already, the transfer is into that",
		old: `case other != nil && (other.startedByReceiver() || !rm.receiverSpoke()):`,
		new: `case other == nil && false:`,
	},
	{
		rule: "case-04", clause: "followed", file: "owed.go",
		off: "the tokens of a request that nobody follows owe nothing",
		old: `return r != nil && r.admitted != 0 && r.inst.engine && r.fullySeen()`,
		new: `return r != nil`,
	},
	{
		rule: "case-04", clause: "admitted", file: "owed.go",
		off: "nor those of one whose admission was not said",
		old: `r != nil && r.admitted != 0 && r`,
		new: `r != nil && r`,
	},
	{
		rule: "case-05", clause: "wire-more-to-come", file: "handoff.go",
		off: "on the wire alone more may come as long as the prompt needs more than was named",
		old: `return named > 0 && last-first > named`,
		new: `return false && last-first > named`,
	},
	{
		rule: "case-05", clause: "wire-other-pool", file: "handoff.go",
		off: "but not in a pool of which nothing was named",
		old: `return named > 0 && last-first > named`,
		new: `return last-first > named`,
	},
	{
		rule: "case-05", clause: "named-evenly", file: "handoff.go",
		off: "of several writers each is to be named for each page",
		old: `if !h.namedEvenly() {`,
		new: `if false {`,
	},
	{
		rule: "case-05", clause: "sender-restarts", file: "requests.go",
		off: "what is missing when the sender restarts need not come",
		old: `l.sever(func(t *transfer) bool { return t.recv == inst || t.send == inst })`,
		new: `l.sever(func(t *transfer) bool { return t.recv == inst })`,
	},
	{
		rule: "case-05", clause: "sender-unfinished", file: "handoff.go",
		off: "what only the sender named must complete too",
		old: `return t.open() || t.outcome != lifecycle.OK && unnamed`,
		new: `return t.open() || false && unnamed`,
	},
	{
		rule: "case-08", clause: "named-elsewhere", file: "writer.go",
		off: "a transfer of which the receiver named other pages writes no unnamed ones",
		old: `if t.sendTick == 0 || t.recvTick != 0 || open`,
		new: `if t.sendTick == 0 || open`,
	},
	{
		rule: "case-09", clause: "only-the-receiver", file: "stale_read.go",
		off: "a read with a step is judged by what was seen to arrive only at the receiver",
		old: `pr.lost || !pr.into.waits() || !pr`,
		new: `pr.lost || pr.into.judged || !pr`,
	},
	{
		rule: "case-09", clause: "staged-in-step", file: "stale_read.go",
		off: "what is written locally in the step of the read that judges is owed no bytes",
		old: `if pr.short.staged != nil {`,
		new: `if false {`,
	},
	{
		rule: "case-10", clause: "gap-lifts-rejection", file: "sight.go",
		off: "in a gap who rejected may have admitted again",
		old: `r.room.forgive(inst) // it may have been admitted again`,
		new: ``,
	},
	{
		rule: "case-10", clause: "gap-lifts-abort", file: "sight.go",
		off: "so may who aborted",
		old: `			r.aborted = false
`,
		new: ``,
	},
	{
		rule: "case-10", clause: "staged-unknown", file: "short_handoff.go",
		off: "missing bytes of a staged pool say nothing where its pages are unknown",
		old: `return p.born <= o.tick && pl.unseen(p) }`,
		new: `return p.born <= o.tick && pl.unseen(p) && false }`,
	},
	{
		rule: "case-10", clause: "write-on-unknown", file: "write_after_release.go",
		off: "bytes on an unknown page say nothing of whose they look",
		old: `c.f.Outcome == lifecycle.Errored || pl.mute(p) ||`,
		new: `c.f.Outcome == lifecycle.Errored ||`,
	},
	{
		rule: "case-10", clause: "told-early", file: "handoff.go",
		off: "what began before its receiver had pages may have begun out of sight",
		old: `h.latecomer = rm.begunBefore != nil && slices`,
		new: `h.latecomer = rm.begunBefore != nil && false && slices`,
	},
	{
		rule: "case-03", clause: "drained-before", file: "ledger.go",
		off: "what is drained and was not seen to start began before",
		old: `				l.drainedOfNothing(&c)
`,
		new: ``,
	},
	{
		rule: "case-03", clause: "drained-by-writer", file: "transfers.go",
		off: "a writer's drain of its own does not say to whom it wrote",
		old: `if c.f.Peer == c.f.Inst {`,
		new: `if false {`,
	},
	{
		rule: "case-03", clause: "drained-before-sight", file: "transfers.go",
		off: "it can have begun out of sight only where there was a time out of sight",
		old: `if recv != nil && recv.missedBefore(c.room.on(recv)) {`,
		new: `if recv != nil {`,
	},
	{
		rule: "case-11", clause: "first-epoch", file: "instance.go",
		off: "the first epoch that anybody names is the current one",
		old: `		i.epoch = f.Epoch
	}
	return i`,
		new: `		return false
	}
	return i`,
	},
	{
		rule: "case-11", clause: "epoch-never-opened", file: "instance.go",
		off: "facts of an epoch that nobody opened are ignored",
		old: `return i.epoch != f.Epoch`,
		new: `return false`,
	},
	{
		rule: "case-11", clause: "late-held", file: "late.go",
		off: "who holds a page of a late fact is unwitnessed",
		old: `	l.eachHolder(pl, at, func(r *request) { unsee(r.room, pl.inst, why) })
`,
		new: ``,
	},
	{
		rule: "case-11", clause: "late-tokens", file: "short_handoff.go",
		off: "too few tokens do not accuse in a room that a late fact named",
		old: `!h.tokens.Has || h.room.late || !h`,
		new: `!h.tokens.Has || !h`,
	},
	{
		rule: "case-11", clause: "late-unreserved", file: "short_handoff.go",
		off: "nor do pages that were never reserved",
		old: `pl.promises(lifecycle.PagesShared) && !h.room.late`,
		new: `pl.promises(lifecycle.PagesShared)`,
	},
	{
		rule: "case-13", clause: "warm-up-anew", file: "resolve.go",
		off: "a warm-up begins the room anew that an earlier one had",
		old: `|| f.Synthetic && rm.allOver()) {`,
		new: `|| f.Synthetic && rm.allOver() && false) {`,
	},
	{
		rule: "case-13", clause: "warm-up-over", file: "room.go",
		off: "but only if that gave all back",
		old: `if !r.over() || !r.inst.engine && !r.ended`,
		new: `if !r.inst.engine && !r.ended`,
	},
	{
		rule: "case-14", clause: "limit-open-rooms", file: "room.go",
		off: "rooms of which no request is known are bounded",
		old: `for l.alive > l.mostRooms {`,
		new: `for false {`,
	},
	{
		rule: "double_release", clause: "before-the-room", file: "room.go",
		off: "a finding is of its request's room, though that is said later",
		old: `	rm.violated = firstOf(rm.violated, old.violated)
`,
		new: ``,
	},
	{
		rule: "short_handoff", clause: "tokens-followed", file: "short_handoff.go",
		off: "too few tokens accuse only where what the request had already is known",
		old: `|| !h.req.followed() && (h.req == nil || !h.req.prefix.Has) {`,
		new: `|| h.req == nil {`,
	},
}
