package kvcache

import "fmt"

// span is the range of table entries that tokens [from, to) touch.
func (p *Pool) span(from, to int) (first, end int) {
	return from / p.cfg.PageTokens, p.PagesFor(to)
}

// tokensIn is how many tokens of [0, to) lie in the page that holds to-1.
func (p *Pool) tokensIn(to int) int { return (to-1)%p.cfg.PageTokens + 1 }

// LaunchWrite reports that a forward pass that has just been launched writes
// tokens [from, to) of t. The pages count as written only after CommitWrite.
func (p *Pool) LaunchWrite(t *Table, from, to int) error {
	if err := p.mayWrite(t, from, to); err != nil {
		return err
	}
	first, end := p.span(from, to)
	p.runs = appendRuns(p.runs[:0], t.pages[first:end])
	p.ev.Written(p.at, t.req, ByForward, p.runs, p.tokensIn(to))
	return nil
}

// CommitWrite says that the forward pass that wrote tokens [from, to) is done.
func (p *Pool) CommitWrite(t *Table, from, to int) error {
	if err := p.mayWrite(t, from, to); err != nil {
		return err
	}
	first, end := p.span(from, to)
	for i := first; i < end; i++ {
		lo := max(from-i*p.cfg.PageTokens, 0)
		hi := min(to-i*p.cfg.PageTokens, p.cfg.PageTokens)
		p.fill(t.pages[i], lo, hi)
	}
	p.verify()
	return nil
}

func (p *Pool) mayWrite(t *Table, from, to int) error {
	first, end := p.span(from, to)
	if from < 0 || to <= from || first < t.shared || end > len(t.pages) {
		return fmt.Errorf("writing tokens [%d, %d) of request %d: its table has %d pages of %d tokens, the first %d shared",
			from, to, t.req, len(t.pages), p.cfg.PageTokens, t.shared)
	}
	return nil
}

// fill extends what is written from the front of pg; a write behind a hole does
// not make the hole written.
func (p *Pool) fill(pg PageID, lo, hi int) {
	if int(p.filled[pg]) >= lo && int(p.filled[pg]) < hi {
		p.filled[pg] = int32(hi)
	}
}

// Arrived reports that every writer of a transfer has put tokens into entry i of t.
func (p *Pool) Arrived(t *Table, i, tokens int) error {
	if i < t.shared || i >= len(t.pages) || tokens < 1 || tokens > p.cfg.PageTokens {
		return fmt.Errorf("taking %d tokens into entry %d of request %d: its table has %d pages of %d tokens, the first %d shared",
			tokens, i, t.req, len(t.pages), p.cfg.PageTokens, t.shared)
	}
	p.fill(t.pages[i], 0, tokens)
	p.runs = append(p.runs[:0], Run{First: t.pages[i], Count: 1})
	p.ev.Written(p.at, t.req, ByTransfer, p.runs, tokens)
	p.verify()
	return nil
}

// Read reports that a forward pass that has just been launched reads tokens
// [0, tokens) of t.
func (p *Pool) Read(t *Table, tokens int) error {
	end := p.PagesFor(tokens)
	if end > len(t.pages) {
		return fmt.Errorf("reading %d tokens of request %d: its table has %d pages of %d tokens",
			tokens, t.req, len(t.pages), p.cfg.PageTokens)
	}
	p.runs = appendRuns(p.runs[:0], t.pages[:end])
	p.ev.Read(p.at, t.req, p.runs)
	return nil
}

// Filled is how many tokens, from the front, are written in entry i of t.
func (p *Pool) Filled(t *Table, i int) int { return int(p.filled[t.pages[i]]) }

// Copy tells the backend to copy one page's bytes, and then to stamp To.
type Copy struct {
	From, To       PageID
	FromGen, ToGen Gen
}

// CopyLast gives t a page of its own in place of the last one it shares, so that
// it can write there: content and written state go along, and the reference on the
// shared page stays until the copy is done (FinishCopy). It fails with ErrNoPages.
func (p *Pool) CopyLast(t *Table) (Copy, error) {
	if t.shared == 0 || t.shared != len(t.pages) {
		return Copy{}, fmt.Errorf("copying the last shared page of request %d: it shares %d of its %d pages, want all", t.req, t.shared, len(t.pages))
	}
	if len(p.free) == 0 && p.cache != nil {
		p.cache.evict(1)
	}
	if len(p.free) == 0 {
		return Copy{}, ErrNoPages
	}
	i := t.shared - 1
	c := Copy{From: t.pages[i], FromGen: t.gens[i]}
	c.To, c.ToGen = p.take(t.domain)
	p.filled[c.To] = p.filled[c.From]
	t.pages[i], t.gens[i], t.shared = c.To, c.ToGen, i
	t.source, t.copying = c.From, true
	p.runs = append(p.runs[:0], Run{First: c.From, Count: 1})
	p.runsTo = append(p.runsTo[:0], Run{First: c.To, Count: 1})
	p.ev.Reserved(p.at, t.req, p.runsTo)
	p.ev.Copied(p.at, t.req, p.runs, p.runsTo)
	p.verify()
	return c, nil
}

// FinishCopy ends the reference on the page that CopyLast copied from. Release
// does it too.
func (p *Pool) FinishCopy(t *Table) {
	if !t.copying {
		return
	}
	t.copying = false
	p.runs = append(p.runs[:0], Run{First: t.source, Count: 1})
	p.ev.Released(p.at, t.req, p.runs)
	p.unref(t.source, t.bypass, false)
	p.verify()
}
