package main

// handoffKinds are the ways in which a handoff can be broken: short_handoff,
// write_after_release, content_mismatch, rejected_handoff, early_release and
// claim_mismatch.
var handoffKinds = []mutant{
	{
		rule: "short_handoff", clause: "read-own", file: "handoff.go",
		off: "a page that its request has filled itself is not owed, and reading it judges nothing",
		old: `c.pool.pages[at].flags&local == 0 && l.names(`,
		new: `l.names(`,
	},
	{
		rule: "short_handoff", clause: "missing", file: "short_handoff.go",
		off: "owed pages that are not written",
		old: `		b := l.shortIn(h, p.pool)
		b.pages = append(b.pages, p.at)`,
		new: `		if true {
			continue
		}
		b := l.shortIn(h, p.pool)
		b.pages = append(b.pages, p.at)`,
	},
	{
		rule: "short_handoff", clause: "unreserved", file: "short_handoff.go",
		off: "owed pages that were never reserved",
		old: `l.shortIn(h, pl).also(fmt.Sprintf("%d pages were never reserved", n))`,
		new: `_, _ = pl, n`,
	},
	{
		rule: "short_handoff", clause: "staged", file: "short_handoff.go",
		off: "owed bytes that never came to a staging region",
		old: `l.shortIn(h, pl).also(fmt.Sprintf("%d bytes never came to the staging region", n))`,
		new: `_, _ = pl, n`,
	},
	{
		rule: "short_handoff", clause: "tokens", file: "short_handoff.go",
		off: "fewer tokens than owed, even within the last page",
		old: `
	l.fewTokens(h)
`,
		new: `
`,
	},
	{
		rule: "short_handoff", clause: "incomplete", file: "handoff.go",
		off: "a handoff that was never completed nor used is not short",
		old: `if used {
		l.shortHandoff(h, &s)`,
		new: `if true {
		l.shortHandoff(h, &s)`,
	},
	{
		rule: "write_after_release", clause: "bytes", file: "writer.go",
		off: "bytes that land after their generation had ended",
		old: `l.writeAfterRelease(c, rec, pl, at, p)`,
		new: ``,
	},
	{
		rule: "write_after_release", clause: "named", file: "write_after_release.go",
		off: "what was posted lands when the transfer that it names completes",
		old: `if named := l.runningAs(c); named != nil {`,
		new: `if named := l.runningAs(c); false {`,
	},
	{
		rule: "write_after_release", clause: "free-page", file: "writer.go",
		off: "the same on a page that nobody holds any more",
		old: `if rec.born == p.born && p.held() {
		return a`,
		new: `if rec.born == p.born {
		return a`,
	},
	{
		rule: "write_after_release", clause: "claimed", file: "foreign_page.go",
		off: "a claimed write whose writer had given the page back is not foreign_page",
		old: `case p.owner == c.req.party || c.req.past.find(c.pool.index, at) != nil || c.req.lost.find(c.pool.index, at) != nil:`,
		new: `case false:`,
	},
	{
		rule: "content_mismatch", clause: "sole-sender", file: "content_mismatch.go",
		off: "with several senders a digest of one says nothing of the whole",
		old: `if !c.room.soleSender(recv, send) {`,
		new: `if false && !c.room.soleSender(recv, send) {`,
	},
	{
		rule: "content_mismatch", clause: "same-page", file: "content_mismatch.go",
		off: "digests of different pages of the prompt are not compared",
		old: `other.page != d.page || `,
		new: ``,
	},
	{
		rule: "content_mismatch", clause: "sender-last", file: "content_mismatch.go",
		off: "the sender's digest may come after the receiver's",
		old: `if other.side == d.side ||`,
		new: `if other.side == d.side || d.side == lifecycle.Sender ||`,
	},
	{
		rule: "rejected_handoff", clause: "start", file: "rejected_handoff.go",
		off: "who rejected starts a transfer",
		old: `case c.room.rejectedBy(c.inst) != nil:`,
		new: `case false:`,
	},
	{
		rule: "rejected_handoff", clause: "start-aborted", file: "rejected_handoff.go",
		off: "who aborted starts a transfer",
		old: `case c.req != nil && c.req.aborted:`,
		new: `case false:`,
	},
	{
		rule: "rejected_handoff", clause: "completion", file: "rejected_handoff.go",
		off: "the completion of what the rejecting sender started",
		old: `l.wentOn(c, "rejected by "+t.send.name, "then its transfer was completed")`,
		new: ``,
	},
	{
		rule: "rejected_handoff", clause: "completion-receiver", file: "rejected_handoff.go",
		off: "the completion of what the rejecting receiver started",
		old: `l.wentOn(c, "rejected by "+t.recv.name, "then its transfer was completed")`,
		new: ``,
	},
	{
		rule: "rejected_handoff", clause: "success", file: "rejected_handoff.go",
		off: "a success of a rejected room",
		old: `if len(c.room.rejects) > 0 && !recomputed && !unsure {`,
		new: `if false && !recomputed && !unsure {`,
	},
	{
		rule: "rejected_handoff", clause: "success-aborted", file: "rejected_handoff.go",
		off: "a success of an aborted request",
		old: `} else if c.req.aborted {`,
		new: `} else if false {`,
	},
	{
		rule: "rejected_handoff", clause: "reservation-aborted", file: "double_hold.go",
		off: "an aborted request takes new pages",
		old: `	l.abortedReservation(c)
`,
		new: ``,
	},
	{
		rule: "early_release", clause: "target", file: "early_release.go",
		off: "a page that a transfer writes",
		old: `if rec.born == p.born && l.of(rec).running()`,
		new: `if rec.source && rec.born == p.born && l.of(rec).running()`,
	},
	{
		rule: "early_release", clause: "source", file: "early_release.go",
		off: "a page that a transfer reads",
		old: `if rec.born == p.born && l.of(rec).running()`,
		new: `if !rec.source && rec.born == p.born && l.of(rec).running()`,
	},
	{
		rule: "early_release", clause: "generation", file: "early_release.go",
		off: "only the generation that the transfer named counts",
		old: `if rec.born == p.born && l.of(rec).running()`,
		new: `if l.of(rec).running()`,
	},
	{
		rule: "early_release", clause: "released", file: "double_release.go",
		off: "a request gives the last reference back",
		old: `if p.act != 0 && p.refs == 1 && p.flags&cached == 0 {`,
		new: `if false {`,
	},
	{
		rule: "early_release", clause: "last-reference", file: "double_release.go",
		off: "only the last reference counts: not where the cache holds the page",
		old: `if p.act != 0 && p.refs == 1 && p.flags&cached == 0 {`,
		new: `if p.act != 0 && p.refs == 1 {`,
	},
	{
		rule: "early_release", clause: "last-request", file: "double_release.go",
		off: "only the last reference counts: not where another request holds the page",
		old: `if p.act != 0 && p.refs == 1 && p.flags&cached == 0 {`,
		new: `if p.act != 0 && p.flags&cached == 0 {`,
	},
	{
		rule: "early_release", clause: "evicted", file: "double_release.go",
		off: "the cache gives the last reference back",
		old: `				if p.act != 0 && p.refs == 0 {`,
		new: `				if false {`,
	},
	{
		rule: "early_release", clause: "handed-out", file: "double_hold.go",
		off: "a page is handed out again over its holder",
		old: `			l.handedOutEarly(c, at, p)
`,
		new: ``,
	},
	{
		rule: "early_release", clause: "wire", file: "transfers.go",
		off: "the wire names a page anew",
		old: `if p := &c.pool.pages[at]; p.act != 0 {`,
		new: `if p := &c.pool.pages[at]; false {`,
	},
	{
		rule: "early_release", clause: "out-of-sight", file: "early_release.go",
		off: "it accuses only where neither side was out of sight since the transfer began",
		old: `if began <= t.recv.seenSince || began <= t.send.seenSince {`,
		new: `if began == 0 {`,
	},
	{
		rule: "early_release", clause: "unheard", file: "early_release.go",
		off: "it accuses only where somebody would have told of the drain",
		old: `return t.recv.followed() && (t.send.followed() || !t.recv.engine)`,
		new: `return true`,
	},
	{
		rule: "claim_mismatch", clause: "misnamed", file: "claim_mismatch.go",
		off: "where foreign_page has said that the halves differ, they are not compared",
		old: `if !h.startedByReceiver() || h.misnamed {`,
		new: `if !h.startedByReceiver() {`,
	},
	{
		rule: "claim_mismatch", clause: "unseen", file: "handoff.go",
		off: "pages claimed written that were not seen to be",
		old: `if h.proven && (s.used || h.anyEnded()) { // else what is claimed may only be posted yet
		l.claimedUnseen(h, &s)`,
		new: `if false {
		l.claimedUnseen(h, &s)`,
	},
	{
		rule: "claim_mismatch", clause: "unnamed", file: "claim_mismatch.go",
		off: "the same of pages that no transfer names",
		old: `if g.shared || pl == nil || !pl.shows() {`,
		new: `if true || pl == nil {`,
	},
	{
		rule: "claim_mismatch", clause: "unnamed-local", file: "claim_mismatch.go",
		off: "unless they were written locally",
		old: `if p.flags&(claimed|local|observed) != claimed ||`,
		new: `if p.flags&(claimed|observed) != claimed ||`,
	},
	{
		rule: "claim_mismatch", clause: "unnamed-observed", file: "claim_mismatch.go",
		off: "or seen to arrive",
		old: `if p.flags&(claimed|local|observed) != claimed ||`,
		new: `if p.flags&(claimed|local) != claimed ||`,
	},
	{
		rule: "claim_mismatch", clause: "completion", file: "transfers.go",
		off: "a completion's pages are claims",
		old: `	l.claimPages(c)
`,
		new: ``,
	},
	{
		rule: "claim_mismatch", clause: "handed-on", file: "short_handoff.go",
		off: "though the page was handed out again since",
		old: `claim: rec.claimed,`,
		new: ``,
	},
	{
		rule: "claim_mismatch", clause: "prompt", file: "ledger.go",
		off: "halves of a room with different prompts",
		old: `		l.promptMismatch(c)
`,
		new: ``,
	},
	{
		rule: "claim_mismatch", clause: "pages", file: "handoff.go",
		off: "halves of a room that name different numbers of pages",
		old: `if h.completed && !h.short {`,
		new: `if false {`,
	},
	{
		rule: "claim_mismatch", clause: "pages-by-sender", file: "claim_mismatch.go",
		off: "pages are counted for each sender",
		old: `		if t.send != send {
			continue
		}
		if t.gone`,
		new: `		collect(targets, t.targets)
		if t.send != send {
			continue
		}
		if t.gone`,
	},
	{
		rule: "claim_mismatch", clause: "pages-out-of-sight", file: "claim_mismatch.go",
		off: "halves are compared only where both were in sight since the handoff began",
		old: `if send.seenSince >= h.began || h.recv.seenSince >= h.began {`,
		new: `if false {`,
	},
	{
		rule: "claim_mismatch", clause: "pages-short", file: "handoff.go",
		off: "where the handoff is short, the number of pages is not said again",
		old: `if h.completed && !h.short {`,
		new: `if h.completed {`,
	},
	{
		rule: "claim_mismatch", clause: "page-size", file: "claim_mismatch.go",
		off: "numbers of pages of different sizes are not compared",
		old: `			n := count[p.pool.PageTokens]
			n[side]++
			count[p.pool.PageTokens] = n`,
		new: `			n := count[0*p.pool.PageTokens]
			n[side]++
			count[0] = n`,
	},
}
