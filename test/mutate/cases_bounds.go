package main

// casesBounds are the clauses of the hard cases 13 (cached, synthetic, null) and
// 14 (one finding; what is remembered is bounded).
var casesBounds = []mutant{
	{
		rule: "case-13", clause: "cached-in-the-sum", file: "pool_imbalance.go",
		off: "cached pages are in the sum of the pool",
		old: `a.Free + a.Cached + a.Held`,
		new: `a.Free + a.Held`,
	},
	{
		rule: "case-13", clause: "cached-not-held", file: "pages.go",
		off: "a page that only the cache holds is held by no request",
		old: `if p.refs--; p.refs == 0 {`,
		new: `if p.refs--; p.refs == 0 && p.flags&cached == 0 {`,
	},
	{
		rule: "case-13", clause: "null-in-the-sum", file: "pool_imbalance.go",
		off: "null pages are in the sum of the pool",
		old: ` + a.PendingDrain + pl.nulls; sum`,
		new: ` + a.PendingDrain; sum`,
	},
	{
		rule: "case-13", clause: "null-silent", file: "page.go",
		off: "a null page accuses nobody",
		old: `return p.flags&(null|unknown) != 0 || p.born`,
		new: `return p.flags&unknown != 0 || p.born`,
	},
	{
		rule: "case-13", clause: "null-no-generation", file: "pages.go",
		off: "a null page is never handed out",
		old: `		p := &pages[i]
		if p.flags&null != 0 {
			continue
		}
		if p.act != 0 {`,
		new: `		p := &pages[i]
		if p.act != 0 {`,
	},
	{
		rule: "case-13", clause: "null-not-owed", file: "short_handoff.go",
		off: "a null page that is named as a target is not owed",
		old: `				if pl.pages[at].flags&null == 0 {
					rising`,
		new: `				if true {
					rising`,
	},
	{
		rule: "case-13", clause: "synthetic", file: "resolve.go",
		off: "a warm-up's findings are marked synthetic",
		old: `		c.req.synthetic = c.req.synthetic || f.Synthetic
`,
		new: ``,
	},
	{
		rule: "case-13", clause: "synthetic-transfer", file: "transfers.go",
		off: "also where only its transfer says so",
		old: `	if f.Synthetic {
		c.room.synthetic = true
	}
`,
		new: ``,
	},
	{
		rule: "case-14", clause: "pages-merged", file: "breach.go",
		off: "the pages of one finding are merged",
		old: `		if b.kind == kind && b.inst == inst && b.req == req && b.room == rm && b.pool == pl {
			return b`,
		new: `		if false {
			return b`,
	},
	{
		rule: "case-14", clause: "each-kind", file: "breach.go",
		off: "one finding for each kind",
		old: `if b.kind == kind && b.inst`,
		new: `if b.inst`,
	},
	{
		rule: "case-14", clause: "each-request", file: "breach.go",
		off: "one finding for each request",
		old: ` && b.req == req && b.room == rm && b.pool`,
		new: ` && b.pool`,
	},
	{
		rule: "case-14", clause: "each-fact", file: "breach.go",
		off: "one finding for each fact",
		old: `	l.breaches = l.breaches[:0]
}

func (l *Ledger) publish`,
		new: `}

func (l *Ledger) publish`,
	},
	{
		rule: "case-14", clause: "duplicate", file: "ledger.go",
		off: "a number that came before is a duplicate",
		old: `case what == duplicate:`,
		new: `case false:`,
	},
	{
		rule: "case-14", clause: "gap-told-twice", file: "sight.go",
		off: "a gap that is told twice is one finding",
		old: `!c.inst.newGap(f, l.cfg.Limits.Missing) {`,
		new: `!c.inst.newGap(f, l.cfg.Limits.Missing) && false {`,
	},
	{
		rule: "case-14", clause: "gap-told-and-counted", file: "stream.go",
		off: "a gap that is told and then shown by the numbers is one finding",
		old: `gap = !s.known.holds(from, to)`,
		new: `gap = true`,
	},
	{
		rule: "case-14", clause: "gap-counted-and-told", file: "stream.go",
		off: "also the other way round",
		old: `		s.known.add(from, to, limit)
`,
		new: ``,
	},
	{
		rule: "case-14", clause: "limit-generations", file: "activity.go",
		off: "the transfers that one page remembers are bounded",
		old: `if ended >= l.cfg.Limits.PastOwner {`,
		new: `if false {`,
	},
	{
		rule: "case-14", clause: "limit-rooms", file: "forget.go",
		off: "ended rooms, rejected ones too, are bounded",
		old: `for len(l.ended)-l.gone > l.cfg.Limits.Ended {`,
		new: `for false {`,
	},
	{
		rule: "case-14", clause: "limit-requests", file: "forget.go",
		off: "requests that have not ended are bounded",
		old: `for l.live > l.cfg.Limits.Requests && l.oldest != r {`,
		new: `for false {`,
	},
	{
		rule: "case-14", clause: "limit-transfers", file: "transfer.go",
		off: "transfers of a room are bounded",
		old: `if len(rm.transfers) >= l.cfg.Limits.Transfers {`,
		new: `if false {`,
	},
	{
		rule: "case-14", clause: "limit-activity", file: "activity.go",
		off: "pages in transfer are bounded",
		old: `if l.activities >= l.cfg.Limits.Activity {`,
		new: `if false {`,
	},
	{
		rule: "case-14", clause: "limit-numbers", file: "stream.go",
		off: "missing sequence numbers are bounded",
		old: `if len(*r) > limit {`,
		new: `if false {`,
	},
	{
		rule: "case-14", clause: "limit-fragments", file: "coverage.go",
		off: "fragments are bounded",
		old: `if l.fragments >= l.cfg.Limits.Fragments {`,
		new: `if false {`,
	},
	{
		rule: "case-14", clause: "limit-fragments-unwitnessed", file: "coverage.go",
		off: "beyond the limit of fragments the handoff is unwitnessed",
		old: `		unsee(t.room, pl.inst, "more pieces of pages arrived than are remembered")
		l.unwatch(t.into)
`,
		new: `		_ = t
`,
	},
	{
		rule: "case-14", clause: "limit-digests", file: "content_mismatch.go",
		off: "digests are bounded",
		old: `if len(c.room.digests) >= l.cfg.Limits.Digests {`,
		new: `if false {`,
	},
	{
		rule: "case-14", clause: "limit-releases", file: "request.go",
		off: "references given back are bounded",
		old: `if len(r.past) > l.cfg.Limits.Releases {`,
		new: `if false {`,
	},
	{
		rule: "case-14", clause: "limit-pools", file: "pool.go",
		off: "pools and their pages are bounded",
		old: `if l.pools >= l.cfg.Limits.Pools || len(inst.pools) >= l.cfg.Limits.Pools || l.pages+int(s.Pages) > l.cfg.Limits.Pages {`,
		new: `if false {`,
	},
	{
		rule: "case-14", clause: "limit-instances", file: "instance.go",
		off: "instances are bounded",
		old: `if len(l.insts) >= l.cfg.Limits.Instances {`,
		new: `if false {`,
	},
	{
		rule: "case-14", clause: "limit-window", file: "ledger.go",
		off: "facts that wait for their turn are bounded",
		old: `for l.win.len() > l.cfg.Limits.Window {`,
		new: `for false {`,
	},
	{
		rule: "case-14", clause: "limit-pending", file: "stale_read.go",
		off: "reads that wait for their step are bounded",
		old: `if l.pendingReads >= l.cfg.Limits.Pending {`,
		new: `if false {`,
	},
}
