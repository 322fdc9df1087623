package kvcache

import (
	"errors"
	"fmt"
	"slices"
)

var (
	// ErrBatchTooLong: a transfer names more pages than can drain in time.
	ErrBatchTooLong = errors.New("more pages than one transfer may name: split it")
	// ErrTooManyTransfers: wait until one has drained.
	ErrTooManyTransfers = errors.New("too many transfers are open: wait until one has drained")
	// ErrTransferOpen: the name is taken.
	ErrTransferOpen = errors.New("a transfer of this name is open")
)

// transfer is one writer's or reader's hold on pages: it ends when it is drained,
// whatever became of the request.
type transfer struct {
	pages    []PageID
	table    *Table
	orphaned bool  // its table was released
	since    int64 // when
	reported bool
}

// OpenTransfer says that x targets or reads entries [first, first+n) of t from now
// until Drained. A dummy that owes nothing has n = 0.
func (p *Pool) OpenTransfer(x Xfer, t *Table, first, n int) error {
	switch _, taken := p.xfers[x]; {
	case taken:
		return fmt.Errorf("opening transfer %d in pool %q: %w", x, p.cfg.Name, ErrTransferOpen)
	case first < 0 || n < 0 || first+n > len(t.pages) || t.released:
		return fmt.Errorf("opening transfer %d on entries [%d, %d) of request %d: its table has %d pages", x, first, first+n, t.req, len(t.pages))
	case n > p.cfg.BatchPages:
		return fmt.Errorf("opening transfer %d of %d pages in pool %q (limit %d): %w", x, n, p.cfg.Name, p.cfg.BatchPages, ErrBatchTooLong)
	case len(p.xfers) >= p.cfg.MaxTransfers:
		return fmt.Errorf("opening transfer %d in pool %q (limit %d): %w", x, p.cfg.Name, p.cfg.MaxTransfers, ErrTooManyTransfers)
	}
	tr := &transfer{pages: slices.Clone(t.pages[first : first+n]), table: t}
	for _, pg := range tr.pages {
		p.drains[pg]++
	}
	p.xfers[x] = tr
	t.xfers = append(t.xfers, x)
	p.verify()
	return nil
}

// Drained says that no write or read of x can still happen. Its released pages
// become free once no other transfer is open on them. False: x is not open.
func (p *Pool) Drained(x Xfer) bool {
	tr, ok := p.xfers[x]
	if !ok {
		return false
	}
	p.end(x, tr)
	p.verify()
	return true
}

func (p *Pool) end(x Xfer, tr *transfer) {
	delete(p.xfers, x)
	if i := slices.Index(tr.table.xfers, x); i >= 0 {
		tr.table.xfers = slices.Delete(tr.table.xfers, i, i+1)
	}
	for i := len(tr.pages) - 1; i >= 0; i-- {
		pg := tr.pages[i]
		p.drains[pg]--
		p.settle(pg, false)
	}
}

// orphan starts the drain clock of t's open transfers.
func (p *Pool) orphan(t *Table) {
	for _, x := range t.xfers {
		tr := p.xfers[x]
		tr.orphaned, tr.since = true, p.at.Now
	}
}

// Expire applies the time-out policy to transfers whose table was released longer
// than DrainTimeout ago. It returns each of them once, in order; the slice is
// valid until the next call.
func (p *Pool) Expire() []Xfer {
	p.overdue = p.overdue[:0]
	if p.cfg.DrainTimeout <= 0 {
		return p.overdue
	}
	for x, tr := range p.xfers {
		if tr.orphaned && !tr.reported && p.at.Now-tr.since >= int64(p.cfg.DrainTimeout) {
			p.overdue = append(p.overdue, x)
		}
	}
	slices.Sort(p.overdue)
	for _, x := range p.overdue {
		tr := p.xfers[x]
		tr.reported = true
		if p.cfg.OnTimeout == Reclaim {
			p.end(x, tr)
		}
	}
	p.verify()
	return p.overdue
}

// OpenTransfers is how many transfers are not drained.
func (p *Pool) OpenTransfers() int { return len(p.xfers) }
