package main

// pageKinds are the ways in which a page's state can be broken: stale_read,
// foreign_page, tenant_crossing, wrong_block, double_hold and double_release.
var pageKinds = []mutant{
	{
		rule: "stale_read", clause: "without-step", file: "stale_read.go",
		off: "a read without a step of an unwritten page",
		old: `if !c.f.Step.Has {
				l.staleRead(c, at, p)`,
		new: `if false {
				l.staleRead(c, at, p)`,
	},
	{
		rule: "stale_read", clause: "with-step", file: "stale_read.go",
		off: "a read with a step, when it is judged",
		old: `for _, pp := range pr.pages {`,
		new: `for _, pp := range pr.pages[:0] {`,
	},
	{
		rule: "stale_read", clause: "observed", file: "stale_read.go",
		off: "a missing write accuses a read by observation",
		old: `return claim, unseenWrite, true`,
		new: `return claim, unseenWrite, false`,
	},
	{
		rule: "stale_read", clause: "claimed", file: "stale_read.go",
		off: "a missing write accuses a read by claim",
		old: `"read, never claimed written in its present generation", "not watched", true`,
		new: `"read, never claimed written in its present generation", "not watched", false`,
	},
	{
		rule: "stale_read", clause: "source", file: "transfers.go",
		off: "a transfer that names an unwritten page as its source",
		old: `if c.f.Side == lifecycle.Sender && !c.f.Step.Has {`,
		new: `if false {`,
	},
	{
		rule: "stale_read", clause: "source-with-step", file: "transfers.go",
		off: "the same where the start has a step",
		old: `if source && c.f.Step.Has {`,
		new: `if false {`,
	},
	{
		rule: "stale_read", clause: "source-bytes", file: "coverage.go",
		off: "bytes that come from an unwritten page",
		old: `if f.FromAddr.Has && from != nil {`,
		new: `if false {`,
	},
	{
		rule: "foreign_page", clause: "reader", file: "foreign_page.go",
		off: "a reader without a reference",
		old: `if !l.inTime(c, at, p) && c.pool.tellsHolders() {`,
		new: `if false {`,
	},
	{
		rule: "foreign_page", clause: "writer", file: "foreign_page.go",
		off: "a writer that did not reserve the page",
		old: `	default:
		l.accuse(finding.ForeignPage, c.inst, c.req, c.room, c.pool).on(l, at, p.content).
			say("written by "`,
		new: `	case false:
		l.accuse(finding.ForeignPage, c.inst, c.req, c.room, c.pool).on(l, at, p.content).
			say("written by "`,
	},
	{
		rule: "foreign_page", clause: "cached", file: "foreign_page.go",
		off: "a page put into the cache by one that does not hold it",
		old: `if c.pool.mute(p) || p.held() && (c.req == nil || c.req.holds(c.pool, at, p)) {`,
		new: `if true {`,
	},
	{
		rule: "foreign_page", clause: "shared", file: "foreign_page.go",
		off: "a page shared that neither the cache nor another holds",
		old: `if p.flags&cached == 0 && others == 0 &&`,
		new: `if false && others == 0 &&`,
	},
	{
		rule: "foreign_page", clause: "target", file: "transfers.go",
		off: "a transfer's target that its request does not hold",
		old: `if c.pool.mute(p) || l.foreignTransfer(c, at, p) {`,
		new: `if c.pool.mute(p) || c.f.Side == lifecycle.Sender && l.foreignTransfer(c, at, p) {`,
	},
	{
		rule: "foreign_page", clause: "source", file: "transfers.go",
		off: "a transfer's source that its request does not hold",
		old: `if c.pool.mute(p) || l.foreignTransfer(c, at, p) {`,
		new: `if c.pool.mute(p) || c.f.Side == lifecycle.Receiver && l.foreignTransfer(c, at, p) {`,
	},
	{
		rule: "foreign_page", clause: "bytes", file: "writer.go",
		off: "bytes on a page that no transfer names",
		old: `	if a == 0 {
		l.strangersBytes(c, pl, at, p)`,
		new: `	if a == 0 {`,
	},
	{
		rule: "foreign_page", clause: "alone", file: "foreign_page.go",
		off: "a reader without a reference is foreign_page alone, not stale or crossing too",
		old: `the reader holds no reference on it")
	}
	return true`,
		new: `the reader holds no reference on it")
	}
	return false`,
	},
	{
		rule: "foreign_page", clause: "unpromised", file: "foreign_page.go",
		off: "a room without a request accuses only where requests are promised to be said",
		old: `if c.req == nil && !c.inst.tellsAllRequests() {`,
		new: `if false {`,
	},
	{
		rule: "tenant_crossing", clause: "shared", file: "tenant_crossing.go",
		off: "a page shared across domains",
		old: `l.tenantCrossing(c, at, p, "shared")`,
		new: ``,
	},
	{
		rule: "tenant_crossing", clause: "read", file: "stale_read.go",
		off: "a page read across domains under a reference",
		old: `l.tenantCrossing(c, at, p, "read")`,
		new: ``,
	},
	{
		rule: "tenant_crossing", clause: "copied", file: "tenant_crossing.go",
		off: "a copy keeps the domain of its source",
		old: `if p.flags&copied != 0 {`,
		new: `if false {`,
	},
	{
		rule: "tenant_crossing", clause: "public", file: "tenant_crossing.go",
		off: "a page of the empty domain may be shared by all",
		old: `page.V == "" || page.V == asker.V`,
		new: `page.V == asker.V`,
	},
	{
		rule: "tenant_crossing", clause: "said-when-cached", file: "pages.go",
		off: "pages_cached may say the domain",
		old: `if c.f.Domain.Has && who != 0 && !l.parties.all[who].domain.Has {`,
		new: `if false {`,
	},
	{
		rule: "tenant_crossing", clause: "said-when-shared", file: "tenant_crossing.go",
		off: "pages_shared may say the domain",
		old: `if !asker.Has && c.f.Ev == lifecycle.PagesShared {`,
		new: `if false {`,
	},
	{
		rule: "tenant_crossing", clause: "request-says", file: "pages.go",
		off: "what pages_shared says of the domain counts only where the request said none",
		old: `if c.f.Domain.Has && !c.req.domain(l).Has {`,
		new: `if c.f.Domain.Has {`,
	},
	{
		rule: "wrong_block", clause: "unasked", file: "wrong_block.go",
		off: "a share without a key accuses nobody",
		old: `asked == 0 || p.key == 0 || p.key == asked`,
		new: `p.key == 0 || p.key == asked`,
	},
	{
		rule: "wrong_block", clause: "keyless", file: "wrong_block.go",
		off: "a page cached without a key accuses nobody",
		old: `asked == 0 || p.key == 0 || p.key == asked`,
		new: `asked == 0 || p.key == asked`,
	},
	{
		rule: "double_hold", clause: "cache", file: "double_hold.go",
		off: "a page handed out that only the cache holds",
		old: `|| p.flags&cached != 0 && pl.promises(lifecycle.PagesEvicted)`,
		new: ``,
	},
	{
		rule: "double_hold", clause: "request", file: "double_hold.go",
		off: "a page handed out that a request holds",
		old: `return p.refs > 0 && pl.promises(lifecycle.PagesReleased) ||`,
		new: `return`,
	},
	{
		rule: "double_hold", clause: "twice-in-one", file: "double_hold.go",
		off: "one reservation names a page twice",
		old: `twice := named[at]`,
		new: `twice := false`,
	},
	{
		rule: "double_hold", clause: "wire", file: "double_hold.go",
		off: "an instance without a stream says no releases, so it never holds twice",
		old: `|| !c.inst.engine || !c.pool.stillHeld(p) && !twice`,
		new: `|| !c.pool.stillHeld(p) && !twice`,
	},
	{
		rule: "double_release", clause: "request", file: "double_release.go",
		off: "a request gives back what it does not hold",
		old: `			default:
				l.doubleRelease(c, at, p)`,
		new: `			default:`,
	},
	{
		rule: "double_release", clause: "evicted", file: "double_release.go",
		off: "the cache gives back what it does not hold",
		old: `: // else a hand-out took it: double_hold said so
				l.doubleRelease(c, at, p)`,
		new: `:`,
	},
	{
		rule: "double_release", clause: "overheld", file: "double_release.go",
		off: "a page lost to a double_hold is given back in good faith",
		old: `c.req.lost.find(c.pool.index, at) != nil ||`,
		new: ``,
	},
	{
		rule: "double_release", clause: "evicted-overheld", file: "pages.go",
		off: "a page that the cache lost to a double_hold is evicted in good faith",
		old: `lost = robbed // its`,
		new: `lost = 0 // its`,
	},
	{
		rule: "double_release", clause: "evicted-again", file: "pages.go",
		off: "once",
		old: `p.flags &^= robbed`,
		new: `_ = p`,
	},
	{
		rule: "double_hold", clause: "releases-untold", file: "double_hold.go",
		off: "a request whose releases are not promised may have given the page back",
		old: `p.refs > 0 && pl.promises(lifecycle.PagesReleased)`,
		new: `p.refs > 0`,
	},
	{
		rule: "double_hold", clause: "evictions-untold", file: "double_hold.go",
		off: "so may a cache whose evictions are not promised",
		old: `p.flags&cached != 0 && pl.promises(lifecycle.PagesEvicted)`,
		new: `p.flags&cached != 0`,
	},
	{
		rule: "double_release", clause: "holders-untold", file: "double_release.go",
		off: "one whose references are not promised may have had one",
		old: `!c.pool.tellsHolders() || c.req == nil`,
		new: `c.req == nil`,
	},
	{
		rule: "double_release", clause: "cache-untold", file: "double_release.go",
		off: "so may a cache whose pages are not promised",
		old: `c.req == nil && !c.pool.promises(lifecycle.PagesCached)`,
		new: `false && !c.pool.promises(lifecycle.PagesCached)`,
	},
	{
		rule: "double_release", clause: "overheld-beyond", file: "double_release.go",
		off: "one who lost more pages than are remembered may have lost this",
		old: `c.req.lostMore || `,
		new: ``,
	},
	{
		rule: "foreign_page", clause: "reader-untold", file: "foreign_page.go",
		off: "a reader whose references are not promised may have one",
		old: `if !l.inTime(c, at, p) && c.pool.tellsHolders() {`,
		new: `if !l.inTime(c, at, p) && c.inst.engine {`,
	},
	{
		rule: "foreign_page", clause: "writer-untold", file: "foreign_page.go",
		off: "so may a writer",
		old: `l.inTime(c, at, p), !c.pool.tellsHolders():`,
		new: `l.inTime(c, at, p), !c.inst.engine:`,
	},
	{
		rule: "foreign_page", clause: "cached-untold", file: "foreign_page.go",
		off: "and who puts a page into the cache",
		old: ` || !c.pool.tellsHolders() {`,
		new: ` {`,
	},
	{
		rule: "foreign_page", clause: "shared-untold", file: "foreign_page.go",
		off: "and another whose page is shared",
		old: `others == 0 && c.pool.tellsHolders() &&`,
		new: `others == 0 &&`,
	},
	{
		rule: "foreign_page", clause: "transfer-untold", file: "foreign_page.go",
		off: "and who names a page in a transfer",
		old: `if !c.pool.tellsHolders() || c.req != nil`,
		new: `if !c.inst.engine || c.req != nil`,
	},
	{
		rule: "foreign_page", clause: "reservations-untold", file: "pool.go",
		off: "holders are told by their reservations",
		old: `pl.inst.engine && pl.promises(lifecycle.PagesReserved) &&`,
		new: `pl.inst.engine &&`,
	},
	{
		rule: "foreign_page", clause: "shares-untold", file: "pool.go",
		off: "and by what they share",
		old: `pl.promises(lifecycle.PagesReserved) && pl.promises(lifecycle.PagesShared)
}`,
		new: `pl.promises(lifecycle.PagesReserved)
}`,
	},
	{
		rule: "foreign_page", clause: "cached-by-whoever", file: "pages.go",
		off: "what the cache reserved is not anybody's to write",
		old: `&& (owner.req != nil || by == lifecycle.ByReload || by == lifecycle.ByCopy)`,
		new: ``,
	},
	{
		rule: "foreign_page", clause: "writer-unknown", file: "pages.go",
		off: "a page of a request without id may be anybody's",
		old: `(owner.req != nil || by`,
		new: `(by`,
	},
	{
		rule: "foreign_page", clause: "reload-for-cache", file: "pages.go",
		off: "whoever reloads fills what the cache reserved",
		old: `by == lifecycle.ByReload || `,
		new: ``,
	},
	{
		rule: "foreign_page", clause: "copy-for-cache", file: "pages.go",
		off: "so does whoever copies",
		old: ` || by == lifecycle.ByCopy`,
		new: ``,
	},
}
