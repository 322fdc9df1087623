package kvcache

// Bypass names what the tables of a drilled request are let off from. It exists
// for drills and for measuring what a protection is worth; its zero value is the
// only one under which the promises of the package hold.
type Bypass uint8

const (
	// BypassDrain frees pages although a transfer on them is not drained.
	BypassDrain Bypass = 1 << iota
	// BypassSingle lets a reference be ended twice.
	BypassSingle
	// BypassWritten lets pages that are not fully written into the cache, and
	// lets them be hit.
	BypassWritten
	// BypassTags ignores the written tags where the cache would ask for them.
	BypassTags
)

// Table is a request's block table: entry i is the physical page of tokens
// [i×page_tokens, (i+1)×page_tokens), with the generation it was handed out in.
// The first Shared entries belong to the prefix cache and must not be written.
type Table struct {
	req      Req
	domain   Domain
	bypass   Bypass
	pages    []PageID
	gens     []Gen
	shared   int
	xfers    []Xfer
	released bool
	copying  bool   // a copy from source is under way
	source   PageID // still referenced for it
}

// Req is the request that holds the table.
func (t *Table) Req() Req { return t.req }

// Domain is the isolation under which the table's pages are reserved.
func (t *Table) Domain() Domain { return t.domain }

// Len is the number of pages held.
func (t *Table) Len() int { return len(t.pages) }

// Shared is how many pages, from the front, are the prefix cache's.
func (t *Table) Shared() int { return t.shared }

// Pages are the physical pages in token order. Read only; valid until the table
// changes.
func (t *Table) Pages() []PageID { return t.pages }

// Gens are the generations of Pages, entry by entry.
func (t *Table) Gens() []Gen { return t.gens }

func (t *Table) add(p PageID, g Gen) {
	t.pages = append(t.pages, p)
	t.gens = append(t.gens, g)
}
