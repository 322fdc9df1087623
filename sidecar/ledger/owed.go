package ledger

import "github.com/kvwitness/kvwitness/engine/lifecycle"

// owed is what a handoff owes to a pool by the tokens of its prompt.
type owed struct {
	pages   []owing
	unnamed int64 // pages that were never given to the request
}

func (o *owed) total() int64 { return int64(len(o.pages)) + o.unnamed }

// promptTokens is the receiver's prompt length, else the sender's.
func (h *handoff) promptTokens() lifecycle.Opt[int64] {
	if h.req != nil && h.req.prompt.Has {
		return h.req.prompt
	}
	for _, t := range h.transfers {
		if r := h.room.on(t.send); r != nil && r.prompt.Has {
			return r.prompt
		}
	}
	return lifecycle.Opt[int64]{}
}

func (h *handoff) prefixTokens() int64 {
	if h.req != nil {
		return h.req.prefix.Or(0)
	}
	return 0
}

// owedByTokens is the second half of hard case 4: the pages of the tokens from
// prefix_tokens to prompt_tokens, less what was shared, reloaded or written
// locally. A page that is reloaded or written locally is written, so it is
// enough to leave out the shared ones. Of a request that is not followed from its
// admission on, the prefix that it had is not known, so its tokens owe nothing.
func (l *Ledger) owedByTokens(h *handoff, pl *pool) (o owed) {
	prompt := h.promptTokens()
	if !prompt.Has || prompt.V == 0 || !h.req.followed() {
		return o
	}
	first, last := h.owedRange(pl, prompt.V)
	if first >= last {
		return o
	}
	logical := h.req.firstLogical(pl)
	for _, g := range h.req.given {
		if g.pool != pl.index {
			continue
		}
		for i := uint32(0); i < g.count && logical < last; i, logical = i+1, logical+1 {
			if at := g.first + i; logical >= first && !g.shared && pl.pages[at].flags&null == 0 {
				o.pages = append(o.pages, owing{at, g.tick})
			}
		}
	}
	if logical < last {
		o.unnamed = last - max(logical, first)
	}
	return o
}

// fullySeen reports whether all pages that the request was given are known: its
// instance was never out of sight, or admitted it since.
func (r *request) fullySeen() bool {
	return r.inst.seenSince == 0 || r.admitted > r.inst.seenSince
}

// followed reports whether all that was said of the request since its admission is
// known, by an instance that says all.
func (r *request) followed() bool {
	return r != nil && r.admitted != 0 && r.inst.engine && r.fullySeen()
}

// firstLogical is which page of the prompt the first page is that the request
// was given: where it was given fewer than the whole prompt needs, those of its
// prefix, or before its window, are not among them.
func (r *request) firstLogical(pl *pool) int64 {
	whole := ceilDiv(r.prompt.V, pl.PageTokens)
	if total := givenIn(r.given, pl.index); total >= whole || pl.Owes == lifecycle.OwesState {
		return 0
	}
	from := r.prefix.Or(0)
	if pl.Owes == lifecycle.OwesWindow {
		from = max(from, r.prompt.V-pl.Window)
	}
	return from / pl.PageTokens
}

// owedRange is the logical pages [first, last) that the tokens owe.
func (h *handoff) owedRange(pl *pool, prompt int64) (first, last int64) {
	from := h.prefixTokens()
	switch pl.Owes {
	case lifecycle.OwesWindow:
		from = max(from, prompt-pl.Window)
	case lifecycle.OwesState:
		return 0, 1
	}
	if from >= prompt {
		return 0, 0
	}
	return from / pl.PageTokens, ceilDiv(prompt, pl.PageTokens)
}

func givenIn(list []given, pool int32) (n int64) {
	for _, g := range list {
		if g.pool == pool {
			n += int64(g.count)
		}
	}
	return n
}

// mainPool is the pool that the receiver named first, else its first that owes
// all; nil where it has none.
func (h *handoff) mainPool() *pool {
	for _, t := range h.transfers {
		for _, n := range t.targets {
			return n.pool
		}
	}
	for _, pl := range h.recv.pools {
		if pl != nil && pl.Owes == lifecycle.OwesAll {
			return pl
		}
	}
	return nil
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
