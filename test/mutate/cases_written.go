package main

// casesWritten are the clauses of the hard cases 1 (written) and 2 (when a
// missing write accuses).
var casesWritten = []mutant{
	{
		rule: "case-01", clause: "every-region", file: "coverage.go",
		off: "every region of the pool must be covered",
		old: `return 1<<n - 1`,
		new: `return 1`,
	},
	{
		rule: "case-01", clause: "every-byte", file: "coverage.go",
		off: "every byte of a region must be covered",
		old: `return reach >= pl.each[region]`,
		new: `return len(pieces) > 0`,
	},
	{
		rule: "case-01", clause: "no-hole", file: "coverage.go",
		off: "no byte may be missing between two pieces",
		old: `if g.lo > reach {
			return false`,
		new: `if false {
			return false`,
	},
	{
		rule: "case-01", clause: "first-byte", file: "coverage.go",
		off: "a piece must begin at the first byte",
		old: `g.posted == posted && g.lo == 0 && g.hi == each {`,
		new: `g.posted == posted && g.hi == each {`,
	},
	{
		rule: "case-01", clause: "several-writers", file: "coverage.go",
		off: "several writers may cover a page together, each some regions",
		old: `ok |= pl.okBits(a)[word]`,
		new: `ok = pl.okBits(a)[word]`,
	},
	{
		rule: "case-01", clause: "seen-to-end", file: "write_after_release.go",
		off: "a write that counted when its transfer completed lands no more when it is seen to end",
		old: ` || l.landed(c, l.of(rec).send, at) {`,
		new: ` {`,
	},
	{
		rule: "case-01", clause: "stray", file: "coverage.go",
		off: "what was posted where nothing is known has landed when its transfer completed",
		old: `		l.straysFrom(c, at)
`,
		new: ``,
	},
	{
		rule: "case-01", clause: "stray-ends-once", file: "stray.go",
		off: "and it ends once",
		old: `	x.landed.cut(lo, hi-1)
`,
		new: ``,
	},
	{
		rule: "case-01", clause: "stray-completes", file: "stray.go",
		off: "as long as its transfer is not complete it may land later",
		old: `landed = x.landed.holds(lo, hi-1)`,
		new: `landed = x.landed.holds(lo, hi-1) || x.flying.holds(lo, hi-1)`,
	},
	{
		rule: "case-01", clause: "stray-ok", file: "ledger.go",
		off: "a transfer that failed tells nothing of when it landed",
		old: `if f.Ev == lifecycle.TransferCompleted && f.Outcome == lifecycle.OK {`,
		new: `if f.Ev == lifecycle.TransferCompleted {`,
	},
	{
		rule: "case-01", clause: "stray-whole", file: "stray.go",
		off: "a stray explains no more bytes than were posted",
		old: `landed = x.landed.holds(lo, hi-1)`,
		new: `landed = x.landed.holds(lo, lo) || x.landed.holds(hi-1, hi-1)`,
	},
	{
		rule: "case-01", clause: "stray-name-again", file: "stray.go",
		off: "a transfer of the same name may fill the page later",
		old: `if rec := &pl.acts[a]; !rec.source && rec.born == p.born && p.held() && names(l.of(rec)) {`,
		new: `if rec := &pl.acts[a]; false && names(l.of(rec)) {`,
	},
	{
		rule: "case-01", clause: "stray-name-again-unnamed", file: "stray.go",
		off: "also where its receiver names no pages",
		old: `return h != nil && slices.ContainsFunc(h.transfers, func(t *transfer) bool { return t.sendTick != 0 && t.recvTick == 0 && names(t) })`,
		new: `return false && h != nil`,
	},
	{
		rule: "case-07", clause: "each-writer", file: "handoff.go",
		off: "each writer of a page must complete it",
		old: `if _, done := ok[t.send][pageOf{n.pool, at}]; !done {`,
		new: `if _, done := ok[h.transfers[0].send][pageOf{n.pool, at}]; !done {`,
	},
	{
		rule: "case-01", clause: "stray-part", file: "stray.go",
		off: "where a part ended the rest may still end",
		old: `	x.landed.cut(lo, hi-1)
`,
		new: `	x.landed.cut(lo, math.MaxUint64)
`,
	},
	{
		rule: "case-14", clause: "posted-long-ago", file: "activity.go",
		off: "what a transfer posted is remembered when it is no longer known to have named the page",
		old: `		l.strayed(pl, at, a)
`,
		new: ``,
	},
	{
		rule: "case-14", clause: "posted-long-ago-pieces", file: "stray.go",
		off: "pieces too",
		old: `if g.posted && int(g.region) == st.bit {`,
		new: `if false && g.posted {`,
	},
	{
		rule: "case-01", clause: "stray-both-sides", file: "stray.go",
		off: "either side's completion tells of it",
		old: `[2][2]string{{f.Inst, f.Peer}, {f.Peer, f.Inst}}`,
		new: `[2][2]string{{f.Inst, f.Peer}, {f.Inst, f.Peer}}`,
	},
	{
		rule: "case-01", clause: "stray-from-anyone", file: "stray.go",
		off: "bytes need not say from whom they come",
		old: `			l.strayLanded(recv, poster{"", f.Xfer})
`,
		new: ``,
	},
	{
		rule: "case-01", clause: "stray-restart", file: "pool.go",
		off: "a restart ends what was posted before, as it closes every pool",
		old: `if len(inst.byName) == 0 {
		l.forgetStrays(inst)`,
		new: `if false {
		l.forgetStrays(inst)`,
	},
	{
		rule: "case-01", clause: "stray-beyond", file: "stray.go",
		off: "more may have been posted astray than is remembered",
		old: `unsure := !posted && l.now < s.beyond`,
		new: `unsure := !posted && false`,
	},
	{
		rule: "case-01", clause: "stray-beyond-ends", file: "stray.go",
		off: "but no longer than its end may come",
		old: `unsure := !posted && l.now < s.beyond`,
		new: `unsure := !posted && s.beyond != 0`,
	},
	{
		rule: "case-01", clause: "stray-makes-room", file: "stray.go",
		off: "what was not seen to end for a minute makes room",
		old: ` && !l.forgetOldStrays():`,
		new: `:`,
	},
	{
		rule: "case-01", clause: "stray-young", file: "stray.go",
		off: "what is younger stays",
		old: `if x.at <= l.now-strayTime {`,
		new: `if true {`,
	},
	{
		rule: "case-01", clause: "stray-landed-late", file: "stray.go",
		off: "its age counts from when it landed",
		old: `x.flying, x.at = nil, l.now`,
		new: `x.flying = nil`,
	},
	{
		rule: "case-10", clause: "claim-on-unknown", file: "sight.go",
		off: "of a page of which nothing is known a claim says whose data came",
		old: `pl.shows() && !pl.unseen(p) &&`,
		new: `pl.shows() &&`,
	},
	{
		rule: "case-10", clause: "cached-by-writer", file: "pages.go",
		off: "who caches what it wrote on a page that was handed out to nobody known tells its own domain",
		old: `if who == 0 && c.req != nil && p.content == c.req.party {`,
		new: `if false && c.req != nil {`,
	},
	{
		rule: "case-01", clause: "stray-beyond-unwitnessed", file: "stray.go",
		off: "which costs sight",
		old: `if unsure && f.Outcome != lifecycle.Errored {`,
		new: `if unsure && false {`,
	},
	{
		rule: "case-01", clause: "ends-once", file: "coverage.go",
		off: "and it ends once",
		old: `			l.unpost(pl, a, c.hit.st, c.hit.lo, c.hit.hi)
`,
		new: ``,
	},
	{
		rule: "case-01", clause: "several-pieces", file: "coverage.go",
		off: "or each a piece of a region",
		old: `		for _, g := range pl.frags[a] {
			if int(g.region) == region && !g.posted {`,
		new: `		pieces = nil
		for _, g := range pl.frags[a] {
			if int(g.region) == region && !g.posted {`,
	},
	{
		rule: "case-01", clause: "this-generation", file: "coverage.go",
		off: "what arrived in an earlier generation of the page does not count",
		old: `if rec := &pl.acts[a]; rec.born == p.born && !rec.source {
			ok |=`,
		new: `if rec := &pl.acts[a]; !rec.source {
			ok |=`,
	},
	{
		rule: "case-01", clause: "or-a-claim", file: "page.go",
		off: "where nobody watches, a claim by transfer counts",
		old: `return p.flags&(local|claimed|observed) != 0
}

// filled`,
		new: `return p.flags&(local|observed) != 0
}

// filled`,
	},
	{
		rule: "case-01", clause: "claim-does-not-count", file: "page.go",
		off: "where all is watched, a claim by transfer does not count",
		old: `if p.flags&watched != 0 {`,
		new: `if false {`,
	},
	{
		rule: "case-01", clause: "forward", file: "pages.go",
		off: "forward is always taken as claimed",
		old: `if c.f.By == lifecycle.ByTransfer {`,
		new: `if c.f.By == lifecycle.ByTransfer || c.f.By == lifecycle.ByForward {`,
	},
	{
		rule: "case-01", clause: "reload", file: "pages.go",
		off: "reload is always taken as claimed",
		old: `if c.f.By == lifecycle.ByTransfer {`,
		new: `if c.f.By == lifecycle.ByTransfer || c.f.By == lifecycle.ByReload {`,
	},
	{
		rule: "case-01", clause: "copy", file: "pages.go",
		off: "copy is always taken as claimed",
		old: `if c.f.By == lifecycle.ByTransfer {`,
		new: `if c.f.By == lifecycle.ByTransfer || c.f.By == lifecycle.ByCopy {`,
	},
	{
		rule: "case-01", clause: "copied", file: "pages.go",
		off: "a copy of a written page is written",
		old: `q.flags |= local | copied
`,
		new: `q.flags |= copied
`,
	},
	{
		rule: "case-01", clause: "copied-unwritten", file: "pages.go",
		off: "a copy of an unwritten page is not written",
		old: `q.flags &^= local | claimed | observed`,
		new: `q.flags |= local`,
	},
	{
		rule: "case-01", clause: "retries-once", file: "coverage.go",
		off: "the same bytes twice count once",
		old: `n.lo, n.hi = min(n.lo, g.lo), max(n.hi, g.hi)`,
		new: `n.lo, n.hi = g.lo, min(g.hi+n.hi-n.lo, pl.each[n.region])`,
	},
	{
		rule: "case-01", clause: "posted-completes", file: "transfers.go",
		off: "posted writes count when their transfer completes",
		old: `		l.promote(t)
`,
		new: ``,
	},
	{
		rule: "case-01", clause: "posted-waits", file: "coverage.go",
		off: "and not before",
		old: `l.cover(pl, a, st, lo, hi, true)`,
		new: `l.cover(pl, a, st, lo, hi, false)`,
	},
	{
		rule: "case-01", clause: "posted-error", file: "coverage.go",
		off: "a posted write that ends with an error counts no more",
		old: `		l.unpost(pl, a, st, lo, hi)
		return
`,
		new: `		return
`,
	},
	{
		rule: "case-01", clause: "ended-in-time", file: "coverage.go",
		off: "what was seen to end before its transfer has ended",
		old: `		l.cover(pl, a, st, lo, hi, false)
		l.unpost(pl, a, st, lo, hi)
`,
		new: `		l.cover(pl, a, st, lo, hi, false)
`,
	},
	{
		rule: "case-01", clause: "error", file: "coverage.go",
		off: "a write with an error never counts",
		old: `		l.unpost(pl, a, st, lo, hi)
		return
`,
		new: `		l.cover(pl, a, st, lo, hi, false)
`,
	},
	{
		rule: "case-01", clause: "staged-bytes", file: "staged.go",
		off: "the bytes at the staging region count",
		old: `s.ok += n`,
		new: `s.ok += 0`,
	},
	{
		rule: "case-01", clause: "staged-posted", file: "coverage.go",
		off: "those that were posted count when the transfer completes",
		old: `stagedBytes{ok: s.ok + s.posted}`,
		new: `stagedBytes{ok: s.ok}`,
	},
	{
		rule: "case-01", clause: "staged-error", file: "staged.go",
		off: "those that ended with an error never do",
		old: `	case lifecycle.Errored:
		s.posted -= min(n, s.posted)`,
		new: `	case lifecycle.Errored:
		s.ok += n`,
	},
	{
		rule: "case-01", clause: "staged-posted-error", file: "staged.go",
		off: "nor those that were posted and ended with an error",
		old: `	case lifecycle.Errored:
		s.posted -= min(n, s.posted)`,
		new: `	case lifecycle.Errored:`,
	},
	{
		rule: "case-01", clause: "staged-unwatched", file: "short_handoff.go",
		off: "a staged pool that nobody watches accuses nobody",
		old: `pl.pageBytes() > 0 && h.covered() {`,
		new: `pl.pageBytes() > 0 {`,
	},
	{
		rule: "case-01", clause: "staged-vouches", file: "handoff.go",
		off: "the pages of a staged pool whose bytes all came were seen to be written",
		old: `case h.sealed && pl.Path == lifecycle.PathStaged:
			p.flags |= observed`,
		new: `case h.sealed && pl.Path == lifecycle.PathStaged:`,
	},
	{
		rule: "case-02", clause: "observed", file: "short_handoff.go",
		off: "a missing page accuses by observation",
		old: `accuse: watching || pl.promises(`,
		new: `accuse: watching && false || pl.promises(`,
	},
	{
		rule: "case-02", clause: "claimed", file: "short_handoff.go",
		off: "a missing page accuses by claim",
		old: `accuse: watching || pl.promises(lifecycle.PagesWritten) && h.recv.engine, watched: watching,
	})`,
		new: `accuse: watching, watched: watching,
	})`,
	},
	{
		rule: "case-02", clause: "declared-before", file: "sight.go",
		off: "coverage must be declared before the transfer started",
		old: `since != 0 && since < before {`,
		new: `since != 0 {`,
	},
	{
		rule: "case-02", clause: "loss-withdraws", file: "sight.go",
		off: "a loss withdraws coverage",
		old: `l.loseSight(inst, of, "", func(bool) {})
		for`,
		new: `for`,
	},
	{
		rule: "case-02", clause: "held-until-judged", file: "sight.go",
		off: "coverage that is declared over is over",
		old: `	inst.sight.withdraw(of, peer, l.cfg.Limits.Peers)
`,
		new: ``,
	},
	{
		rule: "case-02", clause: "for-this-peer", file: "sight.go",
		off: "coverage declared for a peer is for that peer",
		old: `	if peer == "" {
		if s.all[src] == 0 {`,
		new: `	if true {
		if s.all[src] == 0 {`,
	},
	{
		rule: "case-02", clause: "withdrawn-for-peer", file: "sight.go",
		off: "coverage declared for all may end for one peer",
		old: `s.peers[src][peer] = 0
}`,
		new: `}`,
	},
	{
		rule: "case-02", clause: "withdrawn-for-all", file: "sight.go",
		off: "coverage declared for one peer may end for all",
		old: `s.all[src], s.peers[src] = 0, nil`,
		new: `s.all[src] = 0`,
	},
	{
		rule: "case-02", clause: "every-peer", file: "handoff.go",
		off: "every peer that sends must be covered",
		old: `if !h.recv.sight.complete(t.send.name, h.began) {
			return false
		}`,
		new: `if h.recv.sight.complete(t.send.name, h.began) {
			return true
		}`,
	},
	{
		rule: "case-02", clause: "read-promised", file: "stale_read.go",
		off: "a read accuses by claim only where pages_written is promised",
		old: `case pl.promises(lifecycle.PagesWritten) && pl.inst.engine:`,
		new: `case pl.inst.engine:`,
	},
	{
		rule: "case-02", clause: "handoff-promised", file: "short_handoff.go",
		off: "a handoff accuses by claim only where pages_written is promised",
		old: `accuse: watching || pl.promises(lifecycle.PagesWritten) && h.recv.engine, watched: watching,
	})`,
		new: `accuse: watching || h.recv.engine, watched: watching,
	})`,
	},
	{
		rule: "case-02", clause: "own-stream", file: "short_handoff.go",
		off: "a handoff accuses by claim only where the engine has a stream",
		old: `accuse: watching || pl.promises(lifecycle.PagesWritten) && h.recv.engine, watched: watching,
	})`,
		new: `accuse: watching || pl.promises(lifecycle.PagesWritten), watched: watching,
	})`,
	},
	{
		rule: "case-02", clause: "unnamed-promised", file: "short_handoff.go",
		off: "pages that were never named accuse only where they would be",
		old: `if !h.knowsGiven(pl) {`,
		new: `if false {`,
	},
}
