package oracle

import (
	"cmp"
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// owed is what a handoff must have brought into one pool (hard case 4, R16).
type owed struct {
	pool  *pool
	pages []*generation
	// nameless are pages that the prompt's tokens owe and that were never
	// reserved.
	nameless int64
}

// owed are the pools of the receiver that are owed something. What was written
// locally in a step later than the one given is owed all the same.
func (o *oracle) owed(h *handoff, step lifecycle.Opt[int64]) (all []owed) {
	if h.allDummies() {
		return nil
	}
	for _, p := range o.poolsOf(h) {
		if w := o.owedIn(h, p, step); len(w.pages) > 0 || w.nameless > 0 {
			all = append(all, w)
		}
	}
	return all
}

// allDummies: every receiver-side transfer names no page, and there is one.
func (h *handoff) allDummies() bool {
	any := false
	for _, t := range h.transfers() {
		if t.received {
			any = true
			if t.namesPages {
				return false
			}
		}
	}
	return any
}

// poolsOf are the pools that the handoff names, or in which its request
// reserved pages.
func (o *oracle) poolsOf(h *handoff) (pools []*pool) {
	add := func(p *pool) {
		if !slices.Contains(pools, p) && p.spec.Owes != lifecycle.OwesNone {
			pools = append(pools, p)
		}
	}
	for _, g := range h.named() {
		add(g.page.pool)
	}
	if r := h.request(); r != nil {
		for p, list := range r.given {
			if slices.ContainsFunc(list, func(g given) bool { return !g.shared }) {
				add(p)
			}
		}
	}
	slices.SortFunc(pools, func(a, b *pool) int { return cmp.Compare(a.name, b.name) })
	return pools
}

// named are the pages that the receiver named, in the generation that it named
// last.
func (h *handoff) named() (gens []*generation) {
	at := map[*page]int{}
	for _, t := range h.transfers() {
		for _, g := range t.targets {
			n, again := at[g.page]
			switch {
			case !again:
				at[g.page] = len(gens)
				gens = append(gens, g)
			case gens[n].earlierThan(g):
				gens[n] = g
			}
		}
	}
	return gens
}

// earlierThan reports whether g is an earlier generation of the same page.
func (g *generation) earlierThan(other *generation) bool {
	all := append(slices.Clone(g.page.earlier), g.page.gen)
	return slices.Index(all, g) < slices.Index(all, other)
}

func (o *oracle) owedIn(h *handoff, p *pool, step lifecycle.Opt[int64]) owed {
	w := owed{pool: p}
	named := map[*generation]bool{}
	for _, g := range h.named() {
		if g.page.pool == p {
			named[g] = true
			if !g.localBy(step) {
				w.pages = append(w.pages, g)
			}
		}
	}
	pages, unreserved := o.owedByTokens(h, p, step)
	if int64(len(pages))+unreserved <= int64(len(named)) {
		return w
	}
	union := int64(len(named))
	for _, g := range pages {
		if !named[g] {
			w.pages = append(w.pages, g)
			union++
		}
	}
	w.nameless = max(0, int64(len(pages))+unreserved-union)
	return w
}

// owedByTokens are the pages of the prompt that the transfer must bring, as
// far as the request was given them, and how many it was never given.
func (o *oracle) owedByTokens(h *handoff, p *pool, step lifecycle.Opt[int64]) (pages []*generation, unreserved int64) {
	prompt := o.promptOf(h)
	if !prompt.Has || !h.request().followed() {
		return nil, 0
	}
	if p.spec.PageTokens <= 0 {
		return nil, 0
	}
	first, need := p.neededFor(prompt.V, o.prefixOf(h))
	var list []given
	if r := h.request(); r != nil {
		list = r.given[p]
	}
	counted := int64(0) // the logical page of the first one given
	if int64(len(list)) < need {
		counted = first
	}
	unreserved = max(0, need-first)
	for n, g := range list {
		logical := counted + int64(n)
		if logical < first || logical >= need {
			continue
		}
		unreserved--
		if !g.shared && !g.gen.localBy(step) {
			pages = append(pages, g.gen)
		}
	}
	return pages, unreserved
}

// neededFor are the logical pages, from first on up to need, that the tokens of a
// prompt from its prefix on need in the pool.
func (p *pool) neededFor(prompt, prefix int64) (first, need int64) {
	from, tokens := prefix, p.spec.PageTokens
	if tokens <= 0 {
		return 0, 0
	}
	need = ceil(prompt, tokens)
	switch p.spec.Owes {
	case lifecycle.OwesWindow:
		from = max(from, prompt-p.spec.Window)
	case lifecycle.OwesState:
		from, need = 0, min(need, 1)
	}
	return from / tokens, need
}

func ceil(a, b int64) int64 { return a/b + min(1, a%b) }

// promptOf is the prompt's length by the receiver, else by a sender.
func (o *oracle) promptOf(h *handoff) lifecycle.Opt[int64] {
	if r := h.request(); r != nil && r.prompt.Has {
		return r.prompt
	}
	for _, t := range h.transfers() {
		if r := h.room.at[t.sender]; r != nil && r.prompt.Has {
			return r.prompt
		}
	}
	return lifecycle.Opt[int64]{}
}

// prefixOf is how many tokens the receiver had already.
func (o *oracle) prefixOf(h *handoff) int64 {
	if r := h.request(); r != nil {
		return r.prefix.Or(0)
	}
	return 0
}
