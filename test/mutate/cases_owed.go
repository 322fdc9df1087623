package main

// casesOwed are the clauses of the hard cases 3 (receiver), 4 (owed) and 5
// (judged).
var casesOwed = []mutant{
	{
		rule: "case-03", clause: "receiver-side", file: "verdict.go",
		off: "who started a receiver-side transfer goes before whom a sender named",
		old: `case started != nil:
		return started`,
		new: `case started != nil && named != nil:
		return append(started, named...)
	case started != nil:
		return started`,
	},
	{
		rule: "case-03", clause: "named-by-sender", file: "verdict.go",
		off: "else the peer that the sender named is the receiver",
		old: `case named != nil:
		return named`,
		new: `case false:
		return named`,
	},
	{
		rule: "case-03", clause: "told", file: "verdict.go",
		off: "else the one that was told of the completion",
		old: `case h.told:`,
		new: `case false:`,
	},
	{
		rule: "case-03", clause: "told-had-reserved", file: "resolve.go",
		off: "and had reserved: who was given nothing receives nothing",
		old: `r != nil && r.reserved || slices`,
		new: `true || r != nil || slices`,
	},
	{
		rule: "case-03", clause: "told-reserved-for-the-room", file: "resolve.go",
		off: "what was reserved for the room is reserved, though nobody named its request",
		old: ` || slices.Contains(rm.reserved, told) {`,
		new: ` || slices.Contains(rm.reserved, nil) {`,
	},
	{
		rule: "case-03", clause: "wire-reserves", file: "transfers.go",
		off: "without a stream, transfer_started on the wire is the reservation",
		old: `return c.f.Src == lifecycle.Wire && c.f.Side == lifecycle.Receiver && !c.inst.engine`,
		new: `return false`,
	},
	{
		rule: "case-03", clause: "stream-reserves", file: "transfers.go",
		off: "with a stream it is not",
		old: `return c.f.Src == lifecycle.Wire && c.f.Side == lifecycle.Receiver && !c.inst.engine`,
		new: `return c.f.Src == lifecycle.Wire && c.f.Side == lifecycle.Receiver`,
	},
	{
		rule: "case-03", clause: "wire-again", file: "transfers.go",
		off: "the same pages named again by the room are no new hand-out",
		old: `p.owner != r.party || !p.held() {`,
		new: `true || p.held() {`,
	},
	{
		rule: "case-04", clause: "named", file: "short_handoff.go",
		off: "the pages that the receiver named are owed",
		old: `for _, o := range named {
		l.lack(`,
		new: `for _, o := range named[:0] {
		l.lack(`,
	},
	{
		rule: "case-04", clause: "tokens", file: "short_handoff.go",
		off: "the pages of the tokens are owed",
		old: `if owed.total() <= int64(len(named)) {`,
		new: `if true {`,
	},
	{
		rule: "case-04", clause: "if-that-is-more", file: "short_handoff.go",
		off: "but only if they are more than those named",
		old: `if owed.total() <= int64(len(named)) {`,
		new: `if false {`,
	},
	{
		rule: "case-04", clause: "prefix", file: "owed.go",
		off: "what lies before prefix_tokens is not owed",
		old: `	from := h.prefixTokens()
	switch`,
		new: `	from := int64(0)
	switch`,
	},
	{
		rule: "case-04", clause: "prompt-of-sender", file: "owed.go",
		off: "where the receiver does not say the prompt, the sender's counts",
		old: `r != nil && r.prompt.Has {`,
		new: `false {`,
	},
	{
		rule: "case-04", clause: "window", file: "owed.go",
		off: "a window pool owes the last window of tokens",
		old: `	case lifecycle.OwesWindow:
		from = max(from, prompt-pl.Window)`,
		new: `	case lifecycle.OwesWindow:`,
	},
	{
		rule: "case-04", clause: "window-from", file: "owed.go",
		off: "the first of too few pages is that of the first token in the window",
		old: `		from = max(from, r.prompt.V-pl.Window)
`,
		new: ``,
	},
	{
		rule: "case-04", clause: "state", file: "owed.go",
		off: "a state pool owes one page",
		old: `		return 0, 1
`,
		new: ``,
	},
	{
		rule: "case-04", clause: "owes-none", file: "short_handoff.go",
		off: "a pool that owes nothing owes nothing",
		old: `if pl == nil || pl.Owes == lifecycle.OwesNone {`,
		new: `if pl == nil {`,
	},
	{
		rule: "case-04", clause: "less-shared", file: "owed.go",
		off: "less what was shared",
		old: `logical >= first && !g.shared && `,
		new: `logical >= first && `,
	},
	{
		rule: "case-04", clause: "sender-shrinks-nothing", file: "short_handoff.go",
		off: "a sender's naming never shrinks it",
		old: `	for _, o := range named {
		l.lack(`,
		new: `	sent := 0
	for _, t := range h.transfers {
		for _, n := range t.sources {
			sent += int(n.count)
		}
	}
	if sent > 0 && sent < len(named) {
		return
	}
	for _, o := range named {
		l.lack(`,
	},
	{
		rule: "case-04", clause: "beyond-the-prompt", file: "owed.go",
		off: "pages reserved beyond the prompt and not named owe nothing",
		old: `i < g.count && logical < last;`,
		new: `i < g.count;`,
	},
	{
		rule: "case-04", clause: "tokens-from-prefix", file: "short_handoff.go",
		off: "tokens are counted from prefix_tokens on",
		old: `owed := prompt.V - h.prefixTokens();`,
		new: `owed := prompt.V;`,
	},
	{
		rule: "case-04", clause: "dummy", file: "short_handoff.go",
		off: "a rank that names no pages owes nothing",
		old: `if h.dummy() {`,
		new: `if false {`,
	},
	{
		rule: "case-04", clause: "retracted", file: "request.go",
		off: "pages that were given and taken back are not among those that count",
		old: `	r.takenBack(pl)
`,
		new: ``,
	},
	{
		rule: "case-05", clause: "last", file: "transfers.go",
		off: "judged at a completion marked last",
		old: `if f.Outcome == lifecycle.OK && f.Last {`,
		new: `if false {`,
	},
	{
		rule: "case-05", clause: "first-read", file: "handoff.go",
		off: "judged at the first read",
		old: `if h == nil || h.judged || h.judging || h.began == 0 || !h.owesAny(l, c) {`,
		new: `if true {`,
	},
	{
		rule: "case-05", clause: "read-of-owed", file: "handoff.go",
		off: "only the read of a page that is owed judges",
		old: ` || !h.owesAny(l, c) {`,
		new: ` {`,
	},
	{
		rule: "case-05", clause: "success", file: "requests.go",
		off: "judged at success",
		old: `h != nil && h.began != 0 {`,
		new: `false {`,
	},
	{
		rule: "case-05", clause: "settled", file: "handoff.go",
		off: "judged once no transfer has been open for the settle time",
		old: `	default:
		l.judge(h, h.lastOK, h.node)`,
		new: `	default:`,
	},
	{
		rule: "case-05", clause: "settle-time", file: "handoff.go",
		off: "and not before the settle time has passed since the last",
		old: `case h.room.lastEnd+l.settleTime() > l.now:`,
		new: `case false:`,
	},
	{
		rule: "case-05", clause: "the-end", file: "forget.go",
		off: "judged at the end",
		old: `			l.judge(h, h.lastOK, h.node)
`,
		new: `			_ = h
`,
	},
	{
		rule: "case-05", clause: "while-open", file: "handoff.go",
		off: "not judged while a transfer is open",
		old: `case h.judged || h.judging || h.room.busy() ||`,
		new: `case h.judged || h.judging ||`,
	},
	{
		rule: "case-05", clause: "once", file: "handoff.go",
		off: "judged once",
		old: `	h.judged, h.senderBlank = true, h.room.senderBlank(h)
	delete(h.recv.waiting, h)`,
		new: `	delete(h.recv.waiting, h)`,
	},
	{
		rule: "case-05", clause: "chunks", file: "handoff.go",
		off: "chunks are one handoff",
		old: `if h := rm.into(recv); h != nil {
		return h`,
		new: `if h := rm.into(recv); h != nil && h.lastOK == 0 {
		return h`,
	},
}
