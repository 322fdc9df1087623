package main

// casesOrder are the clauses of the hard case 11 (order) and 12 (addresses).
var casesOrder = []mutant{
	{
		rule: "case-11", clause: "sequence", file: "ledger.go",
		off: "within a stream the sequence goes before the time",
		old: `		h.at = max(h.at, s.lastAt)
`,
		new: ``,
	},
	{
		rule: "case-11", clause: "sequence-late-number", file: "ledger.go",
		off: "also for a number that comes after higher ones",
		old: `		l.win.pushInOrder(h)`,
		new: `		l.win.push(h)`,
	},
	{
		rule: "case-11", clause: "time", file: "window.go",
		off: "else the time decides, not the arrival",
		old: `for ; i > w.head && w.facts[i-1].at > h.at; i-- {`,
		new: `for ; false; i-- {`,
	},
	{
		rule: "case-11", clause: "clock-offset", file: "ledger.go",
		off: "between nodes clock_offset is taken off",
		old: `		at -= l.clocks[f.Node]`,
		new: `		at -= 0`,
	},
	{
		rule: "case-11", clause: "settle", file: "ledger.go",
		off: "facts wait for the settle time",
		old: `until := l.win.high - l.orderTime()`,
		new: `until := l.win.high`,
	},
	{
		rule: "case-11", clause: "gap-of-numbers", file: "batch.go",
		off: "a number that never comes is a gap",
		old: `			if gap {
				l.numbersMissing(inst, f, from, to)
			}`,
		new: `			_, _, _ = from, to, gap`,
	},
	{
		rule: "case-11", clause: "first-number", file: "stream.go",
		off: "the first number of a stream may be any, also a later one than its next",
		old: `		s.lowest = seq
	case`,
		new: `		return tooLate
	case`,
	},
	{
		rule: "case-11", clause: "number-too-late", file: "ledger.go",
		off: "a missing number that comes after what follows it was applied is late",
		old: `case late || what == tooLate:`,
		new: `case late:`,
	},
	{
		rule: "case-11", clause: "batch", file: "batch.go",
		off: "facts of one time of one source are a batch without order",
		old: `		case !l.batch:
			l.apply(h)`,
		new: `		case true:
			l.apply(h)`,
	},
	{
		rule: "case-11", clause: "batch-of-one-source", file: "batch.go",
		off: "facts of one time of several sources are none",
		old: `l.batch = sizes[batchOf(h.f)] > 1`,
		new: `l.batch = len(group) > 1`,
	},
	{
		rule: "case-11", clause: "batch-accuses", file: "batch.go",
		off: "what accuses in every order accuses",
		old: `				if stuck {
					l.apply(h)
				} else {
					l.late(h.inst, h.f)
				}`,
		new: `				l.late(h.inst, h.f)`,
	},
	{
		rule: "case-11", clause: "batch-rejection", file: "batch.go",
		off: "in a batch a rejection or an abort may come last",
		old: `case l.refuses(h.f) && !admitsToo(group, h.f):`,
		new: `case false:`,
	},
	{
		rule: "case-11", clause: "batch-readmitted", file: "batch.go",
		off: "unless the batch admits the request again",
		old: `case l.refuses(h.f) && !admitsToo(group, h.f):`,
		new: `case l.refuses(h.f):`,
	},
	{
		rule: "case-11", clause: "batch-release", file: "foreign_page.go",
		off: "in a batch a read or write may come before the release",
		old: `sameBatch := l.batch && s.t == c.f.T`,
		new: `sameBatch := false`,
	},
	{
		rule: "case-11", clause: "late", file: "ledger.go",
		off: "a fact that comes too late accuses nobody",
		old: `late := at < l.win.horizon(l.orderTime())`,
		new: `late := false`,
	},
	{
		rule: "case-11", clause: "late-pages", file: "late.go",
		off: "pages of a late fact are unknown",
		old: `l.blank(inst, f.Pool, f.Pages)`,
		new: ``,
	},
	{
		rule: "case-11", clause: "late-copy", file: "late.go",
		off: "so are the targets of a late copy",
		old: `l.blank(inst, firstOf(f.CopyTo.Pool, f.Pool), f.CopyTo.Pages)`,
		new: ``,
	},
	{
		rule: "case-11", clause: "late-copy-source", file: "late.go",
		off: "a late copy makes its source unknown",
		old: `l.blank(inst, firstOf(f.CopyFrom.Pool, f.Pool), f.CopyFrom.Pages)`,
		new: ``,
	},
	{
		rule: "case-11", clause: "late-bytes", file: "late.go",
		off: "so are the pages that late bytes hit",
		old: `		l.lateBytes(inst, f)
`,
		new: ``,
	},
	{
		rule: "case-11", clause: "late-room", file: "late.go",
		off: "the room of a late fact is unwitnessed",
		old: `		unsee(rm, nil, why)
`,
		new: ``,
	},
	{
		rule: "case-11", clause: "late-request", file: "late.go",
		off: "the request of a late fact is unwitnessed",
		old: `			unsee(r.room, inst, why)
`,
		new: `			_ = r
`,
	},
	{
		rule: "case-11", clause: "late-admission", file: "late.go",
		off: "an admission that comes too late lifts what it came after",
		old: `				r.aborted = false
`,
		new: ``,
	},
	{
		rule: "case-11", clause: "late-drain", file: "early_release.go",
		off: "what came too late may have told of a drain",
		old: `	if t.room.late {
		return false // what`,
		new: `	if false {
		return false // what`,
	},
	{
		rule: "case-11", clause: "late-pool", file: "late.go",
		off: "a pool whose opening is late is opened, of unknown pages",
		old: `		l.latePool(inst, f)
`,
		new: ``,
	},
	{
		rule: "case-11", clause: "late-loss", file: "late.go",
		off: "a loss that is told late withdraws sight all the same",
		old: `		l.lost(&c)
`,
		new: `		_ = c
`,
	},
	{
		rule: "case-11", clause: "late-end-of-coverage", file: "late.go",
		off: "so does the end of coverage that is told late",
		old: `if !f.Complete && f.Of.Observes() {`,
		new: `if false {`,
	},
	{
		rule: "case-11", clause: "old-epoch", file: "instance.go",
		off: "facts of an epoch that is over are ignored",
		old: `
	return over
`,
		new: `
	return over && false
`,
	},
	{
		rule: "case-12", clause: "by-destination", file: "coverage.go",
		off: "an address is mapped by its destination, not alone",
		old: `		st, next := c.inst.stretchAt(addr)
`,
		new: `		at := c.inst
		for _, other := range l.sortedInstances() {
			if there, _ := other.stretchAt(addr); there != nil {
				at = other
				break
			}
		}
		st, next := at.stretchAt(addr)
`,
	},
	{
		rule: "case-12", clause: "by-source", file: "writer.go",
		off: "a source address is mapped by its sender, not alone",
		old: `		return nil
	}
	st, _ := from.stretchAt(c.f.FromAddr.V)`,
		new: `		return nil
	}
	for _, other := range l.sortedInstances() {
		if there, _ := other.stretchAt(c.f.FromAddr.V); there != nil {
			from = other
			break
		}
	}
	st, _ := from.stretchAt(c.f.FromAddr.V)`,
	},
}
