package kvcache

import (
	"cmp"
	"slices"
)

// Audit is the pool's own count: disjoint sets of pages.
type Audit struct {
	Pages, Null, Free, Cached, Held, PendingDrain int
}

// Balanced says whether the sets add up to the pool.
func (a Audit) Balanced() bool {
	return a.Null+a.Free+a.Cached+a.Held+a.PendingDrain == a.Pages
}

// Audit counts the pages, in constant time.
func (p *Pool) Audit() Audit {
	return Audit{
		Pages: p.cfg.Pages, Null: p.counts[stateNull], Free: p.counts[stateFree],
		Cached: p.counts[stateCached], Held: p.counts[stateHeld], PendingDrain: p.counts[statePending],
	}
}

// Holder is one reference holder in a Snapshot: a request with its pages in token
// order, or the prefix cache (Req 0) with those of one domain.
type Holder struct {
	Req    Req
	Domain Domain
	Pages  []Run
}

// OpenTransfer is one transfer of a Snapshot that is not drained.
type OpenTransfer struct {
	Xfer     Xfer
	Req      Req
	Pages    []Run
	Orphaned bool // its request no longer holds the pages
}

// Snapshot is a copy of the books for one who comes late. A Snapshot that is
// passed again reuses its memory: one made while the engine starts keeps the cost
// of the first page faults out of later ones.
type Snapshot struct {
	At      At
	Audit   Audit
	Gens    []Gen   // by page: handed out
	Filled  []int32 // by page: tokens written from the front in that generation
	Holders []Holder
	Open    []OpenTransfer
	runs    []Run
}

// keep copies pages as runs into the snapshot's own memory.
func (s *Snapshot) keep(pages []PageID) []Run {
	first := len(s.runs)
	s.runs = append(s.runs[:first], appendRuns(s.runs[first:first], pages)...)
	return s.runs[first:len(s.runs):len(s.runs)]
}

// Snapshot copies the books into s, in time linear in pages and references.
func (p *Pool) Snapshot(s *Snapshot) {
	s.At, s.Audit = p.at, p.Audit()
	s.Gens = slices.Grow(s.Gens[:0], p.cfg.Pages)[:p.cfg.Pages]
	for pg, g := range p.tags.handed { // the pool is its only writer
		s.Gens[pg] = Gen(g)
	}
	s.Filled = append(s.Filled[:0], p.filled...)
	s.runs, s.Holders, s.Open = s.runs[:0], s.Holders[:0], s.Open[:0]
	if p.cache != nil {
		p.cache.holders(s)
	}
	first := len(s.Holders)
	for _, t := range p.tables {
		s.Holders = append(s.Holders, Holder{Req: t.req, Domain: t.domain, Pages: s.keep(t.pages)})
	}
	slices.SortFunc(s.Holders[first:], func(a, b Holder) int { return cmp.Compare(a.Req, b.Req) })
	for x, tr := range p.xfers {
		s.Open = append(s.Open, OpenTransfer{Xfer: x, Req: tr.table.req, Pages: s.keep(tr.pages), Orphaned: tr.orphaned})
	}
	slices.SortFunc(s.Open, func(a, b OpenTransfer) int { return cmp.Compare(a.Xfer, b.Xfer) })
}
