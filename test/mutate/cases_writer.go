package main

// casesWriter are the clauses of the hard cases 8 (whose write), 9 (steps) and
// 10 (unknown).
var casesWriter = []mutant{
	{
		rule: "case-08", clause: "unheard", file: "writer.go",
		off: "bytes that name a transfer are of no other",
		old: `if c.f.Xfer != "" {
		return 0, l.ofUnheard(c, pl, p, fits)
	}`,
		new: ``,
	},
	{
		rule: "case-08", clause: "unheard-owed", file: "writer.go",
		off: "bytes of a transfer whose start nobody saw may be what their page was owed",
		old: `	if owed != nil {
		l.blur(owed)
	}`,
		new: ``,
	},
	{
		rule: "case-08", clause: "gone-and-named", file: "writer.go",
		off: "bytes that name a transfer of their page's handoff are its, though it is said to be gone",
		old: `if owed != nil && owed.started(c) {`,
		new: `if false {`,
	},
	{
		rule: "case-11", clause: "copy-in-batch", file: "batch.go",
		off: "a copy waits for what its batch says of its pages",
		old: `return l.copiesTooSoon(&c)`,
		new: `return false`,
	},
	{
		rule: "case-11", clause: "late-number", file: "ledger.go",
		off: "a number that came too late is not missing",
		old: `if what == fills {`,
		new: `if false {`,
	},
	{
		rule: "case-07", clause: "posted-there", file: "coverage.go",
		off: "a completion settles only what was posted into its page",
		old: `n = t.unposted(n)
	for a :=`,
		new: `n = t.unposted(n)
	for _, other := range t.into.transfers {
		n = other.unposted(n)
	}
	for a :=`,
	},
	{
		rule: "case-11", clause: "late-names", file: "late.go",
		off: "a room that only a late fact names has a verdict",
		old: `if rm.named == nil {`,
		new: `if false {`,
	},
	{
		rule: "case-08", clause: "by-xfer", file: "writer.go",
		off: "by xfer",
		old: `	if c.f.Xfer != "" {
		if a := l.newestOf`,
		new: `	if false {
		if a := l.newestOf`,
	},
	{
		rule: "case-08", clause: "by-source", file: "writer.go",
		off: "else by the source address's holder on the sender",
		old: `rooms := l.sourceRooms(c, from); len(rooms) > 0 {`,
		new: `rooms := l.sourceRooms(c, from); false {`,
	},
	{
		rule: "case-08", clause: "source-elsewhere", file: "writer.go",
		off: "whose write it is though none of its transfers targets the page",
		old: `if a != 0 || c.f.Xfer == "" && len(rooms) == 1 {`,
		new: `if a != 0 {`,
	},
	{
		rule: "case-08", clause: "from-that-peer", file: "writer.go",
		off: "else by the one open transfer from that peer",
		old: `fits := func(t *transfer) bool { return from == nil && c.f.From == "" || t.send == from && from != nil }`,
		new: `fits := func(*transfer) bool { return true }`,
	},
	{
		rule: "case-08", clause: "one-open", file: "writer.go",
		off: "else by the one open transfer, before one that has ended",
		old: `if rec.source || !l.of(rec).open() || !fits(l.of(rec)) {`,
		new: `if true {`,
	},
	{
		rule: "case-08", clause: "last-ended", file: "writer.go",
		off: "else by the last that ended: late, not foreign",
		old: `	if pick == 0 {
		pick = l.newestOf(pl, p, fits)
	}
	return`,
		new: `	return`,
	},
	{
		rule: "case-08", clause: "the-last", file: "writer.go",
		off: "the last one",
		old: `a.endedTick > b.endedTick`,
		new: `a.endedTick < b.endedTick`,
	},
	{
		rule: "case-08", clause: "two-cover-neither", file: "writer.go",
		off: "what two could own covers neither",
		old: `			l.couldOwn(pl, p, fits)
			return 0, true`,
		new: `			l.couldOwn(pl, p, fits)`,
	},
	{
		rule: "case-08", clause: "two-unwitnessed", file: "writer.go",
		off: "and both are unwitnessed",
		old: `			l.blur(l.of(rec).into)
`,
		new: ``,
	},
	{
		rule: "case-08", clause: "two-not-missing", file: "handoff.go",
		off: "what is missing in either does not accuse",
		old: `		h.blurred = true
		l.unwatch(h)`,
		new: ``,
	},
	{
		rule: "case-08", clause: "staged-two", file: "staged.go",
		off: "bytes at a staging region that two could own cover neither",
		old: `			l.blur(owner.into)
			l.blur(t.into)
			return`,
		new: ``,
	},
	{
		rule: "case-08", clause: "holder-writes", file: "writer.go",
		off: "a stranger's bytes in a page that its own request holds are no foreign_page",
		old: `req != nil && req.holds(pl, at, p) {`,
		new: `false {`,
	},
	{
		rule: "case-08", clause: "victim", file: "breach.go",
		off: "whose page is hit is violated too",
		old: `			if r != b.req {
				l.violate(`,
		new: `			if false {
				l.violate(`,
	},
	{
		rule: "case-08", clause: "victim-of-critical", file: "breach.go",
		off: "but only by a critical finding",
		old: `if b.kind.Severity() != finding.Critical || b.pool == nil || b.kind == finding.ShortHandoff {`,
		new: `if b.pool == nil || b.kind == finding.ShortHandoff {`,
	},
	{
		rule: "case-08", clause: "victim-then", file: "breach.go",
		off: "whoever got the page after the wrong act is no victim",
		old: `if b.asOf != 0 && b.pool`,
		new: `if false && b.pool`,
	},
	{
		rule: "case-08", clause: "victim-of-waiting", file: "breach.go",
		off: "of a read that waited for its step, who held the page when it was read is a victim, and nobody else",
		old: `if b.before {`,
		new: `if false {`,
	},
	{
		rule: "case-09", clause: "writes-first", file: "pages.go",
		off: "within one step writes come before reads",
		old: `if len(c.inst.pending) > 0 {`,
		new: `if false {`,
	},
	{
		rule: "case-09", clause: "writes-first-handoff", file: "stale_read.go",
		off: "also for the handoff that the read judges",
		old: `		pr.short.writtenInStep(c, pr.step, pr.tick)
		pr.pages =`,
		new: `		pr.pages =`,
	},
	{
		rule: "case-09", clause: "same-step", file: "stale_read.go",
		off: "a write of a later step does not help",
		old: `if pr.step < c.f.Step.V || pr.pool != c.pool {`,
		new: `if pr.pool != c.pool {`,
	},
	{
		rule: "case-09", clause: "not-at-once", file: "stale_read.go",
		off: "a stale read with a step is not said at once",
		old: `if !c.f.Step.Has {
				l.staleRead(c, at, p)`,
		new: `if true {
				l.staleRead(c, at, p)`,
	},
	{
		rule: "case-09", clause: "later-step", file: "ledger.go",
		off: "but when a later step has come",
		old: `			l.mature(inst, f.Step.V)
`,
		new: ``,
	},
	{
		rule: "case-09", clause: "settle-time", file: "stale_read.go",
		off: "or the settle time has passed",
		old: `if pr.step < now || pr.due <= l.now {`,
		new: `if pr.step < now {`,
	},
	{
		rule: "case-09", clause: "released-in-step", file: "foreign_page.go",
		off: "a read or write of the step of the release is no finding",
		old: `sameStep := c.f.Step.Has && s.step >= c.f.Step.V`,
		new: `sameStep := false`,
	},
	{
		rule: "case-09", clause: "earlier-step", file: "foreign_page.go",
		off: "nor is one of an earlier step",
		old: `sameStep := c.f.Step.Has && s.step >= c.f.Step.V`,
		new: `sameStep := c.f.Step.Has && s.step == c.f.Step.V`,
	},
	{
		rule: "case-09", clause: "step-after-release", file: "foreign_page.go",
		off: "but one of a later step is",
		old: `sameStep := c.f.Step.Has && s.step >= c.f.Step.V`,
		new: `sameStep := c.f.Step.Has`,
	},
	{
		rule: "case-09", clause: "handed-out-again", file: "foreign_page.go",
		off: "a hand-out alone does not make it one",
		old: `return !again || p.flags&wasRead == 0`,
		new: `return !again || false && p.flags&wasRead == 0`,
	},
	{
		rule: "case-09", clause: "read-meanwhile", file: "foreign_page.go",
		off: "another generation was read meanwhile",
		old: `return !again || p.flags&wasRead == 0 && `,
		new: `return !again || `,
	},
	{
		rule: "case-09", clause: "filled-meanwhile", file: "foreign_page.go",
		off: "another generation was filled meanwhile",
		old: ` && !p.filled() && `,
		new: ` && `,
	},
	{
		rule: "case-09", clause: "partly-filled-meanwhile", file: "foreign_page.go",
		off: "or partly, as was seen",
		old: ` && !l.partlyFilled(c.pool, p)`,
		new: ``,
	},
	{
		rule: "case-09", clause: "without-step", file: "foreign_page.go",
		off: "without a step a read after the release is one",
		old: `sameStep := c.f.Step.Has && s.step >= c.f.Step.V`,
		new: `sameStep := !c.f.Step.Has || s.step >= c.f.Step.V`,
	},
	{
		rule: "case-10", clause: "attach", file: "pool.go",
		off: "a pool opened since attach starts with every page unknown",
		old: `if s.Since == lifecycle.SinceAttach {`,
		new: `if false {`,
	},
	{
		rule: "case-10", clause: "until-handed-out", file: "page.go",
		off: "until it is handed out again",
		old: `p.born < pl.knownFrom`,
		new: `pl.knownFrom != 0`,
	},
	{
		rule: "case-10", clause: "gap", file: "sight.go",
		off: "after a gap pages are unknown",
		old: `pl.knownFrom = l.tick + 1`,
		new: `pl.knownFrom += 0`,
	},
	{
		rule: "case-10", clause: "gap-of-wire", file: "sight.go",
		off: "a gap on the wire makes no pages unknown that a stream tells of",
		old: `if of == lifecycle.Engine || !inst.engine {`,
		new: `if true {`,
	},
	{
		rule: "case-10", clause: "gap-unwitnessed", file: "sight.go",
		off: "after a gap what depends on it is unwitnessed",
		old: `	case of == lifecycle.Engine, of == lifecycle.Wire:
		inst.outOfSight(l.tick)`,
		new: `	case of == lifecycle.Engine, of == lifecycle.Wire:
		if true {
			return
		}
		inst.outOfSight(l.tick)`,
	},
	{
		rule: "case-10", clause: "steps-before-sight", file: "foreign_page.go",
		off: "who held a page in a step that was out of sight is not known",
		old: `if c.f.Step.Has && c.f.Step.V <= c.inst.blindTo {`,
		new: `if false {`,
	},
	{
		rule: "case-10", clause: "gap-after-judgement", file: "verdict.go",
		off: "what is not seen at a sender after the judgement takes nothing back",
		old: `if u.inst == nil || u.inst == h.recv {`,
		new: `if u.inst == nil || u.inst == h.recv || !u.own && h.sentBy(u.inst) {`,
	},
	{
		rule: "case-10", clause: "gap-of-log", file: "sight.go",
		off: "a gap of http, log or nvml costs no sight",
		old: `case of == lifecycle.Engine, of == lifecycle.Wire:
		inst.outOfSight`,
		new: `default:
		inst.outOfSight`,
	},
	{
		rule: "case-10", clause: "loss-unwitnessed", file: "sight.go",
		off: "after a loss of an observing source open handoffs are unwitnessed",
		old: `l.loseSight(inst, of, "", func(bool) {})
		for h := range inst.waiting {
			unsee(h.room, inst, what)
		}`,
		new: ``,
	},
	{
		rule: "case-10", clause: "unknown-in-transfer", file: "transfers.go",
		off: "a request that transfers unknown pages is unwitnessed",
		old: `			if c.pool.unseen(p) {
				unsee(`,
		new: `			if false {
				unsee(`,
	},
	{
		rule: "case-10", clause: "unknown-copied", file: "pages.go",
		off: "a copy of an unknown page is unknown",
		old: `		q.flags |= unknown
`,
		new: ``,
	},
	{
		rule: "case-10", clause: "nameless", file: "pages.go",
		off: "pages reserved by nobody are unknown",
		old: `state = ownerRef | unknown //`,
		new: `state = ownerRef //`,
	},
	{
		rule: "case-10", clause: "absent-domain-of-page", file: "tenant_crossing.go",
		off: "a page of unknown domain accuses nobody",
		old: `!page.Has || !asker.Has || page.V == "" ||`,
		new: `!asker.Has || page.Has && page.V == "" ||`,
	},
	{
		rule: "case-10", clause: "absent-domain-of-reader", file: "tenant_crossing.go",
		off: "a reader of unknown domain is not accused",
		old: `!page.Has || !asker.Has || page.V == "" ||`,
		new: `!page.Has || page.V == "" ||`,
	},
	{
		rule: "case-10", clause: "never-watched", file: "sight.go",
		off: "coverage that ends while no handoff is open is no finding",
		old: `		if open {
			l.blind(`,
		new: `		if true {
			l.blind(`,
	},
}
