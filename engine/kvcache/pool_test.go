package kvcache

import (
	"errors"
	"slices"
	"testing"
	"time"
)

func newPool(t testing.TB, change ...func(*Config)) *Pool {
	t.Helper()
	cfg := Config{Name: "kv", Pages: 9, PageTokens: 4, DrainTimeout: time.Second, Verify: true}
	for _, c := range change {
		c(&cfg)
	}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func open(t testing.TB, p *Pool, req Req, pages int, bypass ...Bypass) *Table {
	t.Helper()
	var b Bypass
	for _, x := range bypass {
		b |= x
	}
	tab, err := p.Open(req, "", b)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Reserve(tab, pages); err != nil {
		t.Fatal(err)
	}
	return tab
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestNullPageIsNeverHandedOut(t *testing.T) {
	p := newPool(t)
	tab := open(t, p, 1, 8)
	if slices.Contains(tab.Pages(), NullPage) {
		t.Fatalf("pages %v contain the null page", tab.Pages())
	}
	if err := p.Reserve(tab, 1); !errors.Is(err, ErrNoPages) {
		t.Fatalf("a ninth page of eight: %v, want ErrNoPages", err)
	}
	if got, want := p.Audit(), (Audit{Pages: 9, Null: 1, Held: 8}); got != want {
		t.Fatalf("audit %+v, want %+v", got, want)
	}
}

func TestRefusedReservationTakesNothing(t *testing.T) {
	p := newPool(t)
	tab := open(t, p, 1, 5)
	if err := p.Reserve(tab, 4); !errors.Is(err, ErrNoPages) {
		t.Fatalf("four of three: %v, want ErrNoPages", err)
	}
	if tab.Len() != 5 || p.Audit().Free != 3 {
		t.Fatalf("table of %d pages, %d free; want 5 and 3", tab.Len(), p.Audit().Free)
	}
}

func TestHandOutBeginsGenerationThatOldTagsCannotPassFor(t *testing.T) {
	p := newPool(t)
	old := open(t, p, 1, 2)
	pages, gens := slices.Clone(old.Pages()), slices.Clone(old.Gens())
	for i, pg := range pages {
		p.Tags().Stamp(pg, gens[i])
	}
	if f := p.Tags().CheckRead(pages, gens); f != nil {
		t.Fatalf("written pages: %v", f)
	}
	must(t, p.Release(old))
	next := open(t, p, 2, 2)
	if !slices.Equal(next.Pages(), pages) {
		t.Fatalf("handed out %v, want the pages just freed, %v", next.Pages(), pages)
	}
	f := p.Tags().CheckRead(next.Pages(), next.Gens())
	if f == nil || f.Index != 0 || f.HandedOut != 2 || f.Written != 1 || f.Faults != 2 {
		t.Fatalf("unwritten pages of a new generation: fault %+v, want entry 0 of 2, handed out in 2, written in 1", f)
	}
	if p.Tags().CheckRead(pages, gens) == nil || p.Tags().CheckWrite(pages, gens) == nil {
		t.Fatal("the old holder still passes for the present one")
	}
	if f := p.Tags().CheckWrite(next.Pages(), next.Gens()); f != nil {
		t.Fatalf("the present holder may not write: %v", f)
	}
}

func TestPageIsWrittenWhenEveryWriterHasStamped(t *testing.T) {
	p := newPool(t, func(c *Config) { c.TagStripes = 2 })
	tab := open(t, p, 1, 1)
	pages, gens := tab.Pages(), tab.Gens()
	p.Tags().StampStripe(pages[0], 1, gens[0])
	if p.Tags().CheckRead(pages, gens) == nil {
		t.Fatal("a page passes with one of its two writers")
	}
	p.Tags().StampStripe(pages[0], 0, gens[0])
	if f := p.Tags().CheckRead(pages, gens); f != nil {
		t.Fatalf("a page that both writers have stamped: %v", f)
	}
	if got := len(p.Tags().Words()); got != 18 {
		t.Fatalf("%d tag words for 9 pages of 2 stripes, want 18", got)
	}
}

func TestReferenceEndsOnce(t *testing.T) {
	p := newPool(t)
	tab := open(t, p, 1, 3)
	must(t, p.Release(tab))
	if err := p.Release(tab); !errors.Is(err, ErrReleased) {
		t.Fatalf("second release: %v, want ErrReleased", err)
	}
	if err := p.Reserve(tab, 1); !errors.Is(err, ErrReleased) {
		t.Fatalf("reserving for a released table: %v, want ErrReleased", err)
	}
	if got := p.Audit().Free; got != 8 {
		t.Fatalf("%d pages free, want 8", got)
	}
}

func TestDoubleReleaseHandsOnePageToTwo(t *testing.T) {
	p := newPool(t)
	tab := open(t, p, 1, 1, BypassSingle)
	must(t, p.Release(tab))
	must(t, p.Release(tab))
	if a := p.Audit(); a.Balanced() {
		t.Fatalf("audit %+v balances after a double release", a)
	}
	a, b := open(t, p, 2, 1), open(t, p, 3, 1)
	if a.Pages()[0] != b.Pages()[0] {
		t.Fatalf("pages %v and %v: the drill has no effect", a.Pages(), b.Pages())
	}
	if p.Tags().CheckWrite(a.Pages(), a.Gens()) == nil {
		t.Fatal("the tags do not show the first holder that its page has gone")
	}
}

func TestRequestHasOneTable(t *testing.T) {
	p := newPool(t)
	tab := open(t, p, 1, 1)
	if _, err := p.Open(1, "", 0); !errors.Is(err, ErrHeld) {
		t.Fatalf("second table: %v, want ErrHeld", err)
	}
	must(t, p.Release(tab))
	open(t, p, 1, 1)
}

func TestReleasedPagesWaitForEveryWriter(t *testing.T) {
	p := newPool(t)
	tab := open(t, p, 1, 4)
	must(t, p.OpenTransfer(10, tab, 0, 3))
	must(t, p.OpenTransfer(11, tab, 2, 2))
	must(t, p.Release(tab))
	for _, want := range []struct {
		drain         Xfer
		free, pending int
	}{{0, 4, 4}, {10, 6, 2}, {11, 8, 0}} {
		if want.drain != 0 && !p.Drained(want.drain) {
			t.Fatalf("transfer %d is not open", want.drain)
		}
		if a := p.Audit(); a.Free != want.free || a.PendingDrain != want.pending {
			t.Fatalf("after drain of %d: %+v, want %d free and %d pending", want.drain, a, want.free, want.pending)
		}
	}
	if p.Drained(10) {
		t.Fatal("a transfer drained twice")
	}
}

func TestPendingPagesAreNotHandedOut(t *testing.T) {
	p := newPool(t)
	tab := open(t, p, 1, 4)
	waiting := slices.Clone(tab.Pages())
	must(t, p.OpenTransfer(10, tab, 0, 4))
	must(t, p.Release(tab))
	next := open(t, p, 2, 4)
	for _, pg := range next.Pages() {
		if slices.Contains(waiting, pg) {
			t.Fatalf("page %d was handed out while transfer 10 may still write it", pg)
		}
	}
	if err := p.Reserve(next, 1); !errors.Is(err, ErrNoPages) {
		t.Fatalf("with the rest pending: %v, want ErrNoPages", err)
	}
}

func TestEarlyReleaseHandsOutPagesUnderWrite(t *testing.T) {
	p := newPool(t)
	tab := open(t, p, 1, 2, BypassDrain)
	pages := slices.Clone(tab.Pages())
	must(t, p.OpenTransfer(10, tab, 0, 2))
	must(t, p.Release(tab))
	next := open(t, p, 2, 2)
	if !slices.Equal(next.Pages(), pages) {
		t.Fatalf("handed out %v, want %v: the drill has no effect", next.Pages(), pages)
	}
	p.Drained(10)
	if a := p.Audit(); a.Held != 2 || a.Free != 6 {
		t.Fatalf("audit %+v after the late drain, want 2 held and 6 free", a)
	}
}

func TestOverdueTransferIsReportedOnceAndKeepsItsPages(t *testing.T) {
	p := newPool(t)
	tab := open(t, p, 1, 2)
	must(t, p.OpenTransfer(10, tab, 0, 2))
	p.Advance(int64(5*time.Second), 1)
	if got := p.Expire(); len(got) != 0 {
		t.Fatalf("overdue %v while the request holds its pages, want none", got)
	}
	must(t, p.Release(tab))
	p.Advance(int64(6*time.Second)-1, 2)
	if got := p.Expire(); len(got) != 0 {
		t.Fatalf("overdue %v before the time-out, want none", got)
	}
	p.Advance(int64(6*time.Second), 3)
	if got := p.Expire(); !slices.Equal(got, []Xfer{10}) {
		t.Fatalf("overdue %v, want [10]", got)
	}
	if got := p.Expire(); len(got) != 0 {
		t.Fatalf("overdue %v a second time, want none", got)
	}
	if a := p.Audit(); a.PendingDrain != 2 {
		t.Fatalf("audit %+v, want 2 pending", a)
	}
}

func TestReclaimTakesPagesBackAfterTimeout(t *testing.T) {
	p := newPool(t, func(c *Config) { c.OnTimeout = Reclaim })
	tab := open(t, p, 1, 2)
	must(t, p.OpenTransfer(10, tab, 0, 2))
	must(t, p.Release(tab))
	p.Advance(int64(time.Second), 1)
	if got := p.Expire(); !slices.Equal(got, []Xfer{10}) {
		t.Fatalf("overdue %v, want [10]", got)
	}
	if a := p.Audit(); a.Free != 8 || p.OpenTransfers() != 0 {
		t.Fatalf("audit %+v with %d open, want all free and none open", a, p.OpenTransfers())
	}
}

func TestTransfersAreBounded(t *testing.T) {
	p := newPool(t, func(c *Config) { c.BatchPages, c.MaxTransfers = 2, 1 })
	tab := open(t, p, 1, 4)
	if err := p.OpenTransfer(1, tab, 0, 3); !errors.Is(err, ErrBatchTooLong) {
		t.Fatalf("three pages, limit two: %v, want ErrBatchTooLong", err)
	}
	if err := p.OpenTransfer(1, tab, 3, 2); err == nil {
		t.Fatal("a transfer beyond the table was accepted")
	}
	must(t, p.OpenTransfer(1, tab, 0, 2))
	if err := p.OpenTransfer(1, tab, 0, 2); !errors.Is(err, ErrTransferOpen) {
		t.Fatalf("the same name: %v, want ErrTransferOpen", err)
	}
	if err := p.OpenTransfer(2, tab, 0, 2); !errors.Is(err, ErrTooManyTransfers) {
		t.Fatalf("a second transfer, limit one: %v, want ErrTooManyTransfers", err)
	}
}

func TestMetadataSlotsAreOwnedPages(t *testing.T) {
	aux := newPool(t, func(c *Config) { c.Name, c.PageTokens = "aux", 1 })
	slot := open(t, aux, 1, 1)
	page := slot.Pages()[0]
	must(t, aux.OpenTransfer(1, slot, 0, 1))
	must(t, aux.Release(slot))
	other := open(t, aux, 2, 1)
	if other.Pages()[0] == page {
		t.Fatal("a metadata slot was handed out while a transfer may still write it")
	}
}

func TestWriteBehindAHoleDoesNotFillIt(t *testing.T) {
	p := newPool(t)
	tab := open(t, p, 1, 2)
	must(t, p.CommitWrite(tab, 2, 6))
	if got := p.Filled(tab, 0); got != 0 {
		t.Fatalf("%d tokens filled behind a hole, want 0", got)
	}
	if got := p.Filled(tab, 1); got != 2 {
		t.Fatalf("%d tokens filled in the second page, want 2", got)
	}
	must(t, p.CommitWrite(tab, 0, 3))
	if got := p.Filled(tab, 0); got != 3 {
		t.Fatalf("%d tokens filled, want 3", got)
	}
}

func TestNoOneWritesOrReadsBeyondTheTable(t *testing.T) {
	p := newPool(t)
	tab := open(t, p, 1, 2)
	for name, err := range map[string]error{
		"launch":  p.LaunchWrite(tab, 0, 9),
		"commit":  p.CommitWrite(tab, 8, 9),
		"empty":   p.CommitWrite(tab, 3, 3),
		"arrival": p.Arrived(tab, 2, 1),
		"tokens":  p.Arrived(tab, 0, 5),
		"read":    p.Read(tab, 9),
	} {
		if err == nil {
			t.Errorf("%s beyond the table was accepted", name)
		}
	}
}

func TestConfigThatCannotWorkIsRefused(t *testing.T) {
	for name, cfg := range map[string]Config{
		"one page":   {Pages: 1, PageTokens: 1},
		"no tokens":  {Pages: 2},
		"too many":   {Pages: MaxPages + 1, PageTokens: 1},
		"few tags":   {Pages: 3, PageTokens: 1, TagWords: make([]uint64, 2)},
		"no pages":   {PageTokens: 1},
		"minus page": {Pages: -4, PageTokens: 1},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
