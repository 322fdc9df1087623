package kvcache

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// script writes each event as one line.
type script struct{ lines []string }

func (s *script) say(at At, format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf("%d/%d ", at.Now, at.Step)+fmt.Sprintf(format, args...))
}

func (s *script) Reserved(at At, req Req, pages []Run) { s.say(at, "reserved %d %v", req, pages) }
func (s *script) Shared(at At, req Req, d Domain, pages []Run, keys []Key) {
	s.say(at, "shared %d %q %v %d keys", req, d, pages, len(keys))
}

func (s *script) Written(at At, req Req, by Writer, pages []Run, tokens int) {
	s.say(at, "written %d by %d %v %d", req, by, pages, tokens)
}
func (s *script) Read(at At, req Req, pages []Run)      { s.say(at, "read %d %v", req, pages) }
func (s *script) Copied(at At, req Req, from, to []Run) { s.say(at, "copied %d %v %v", req, from, to) }
func (s *script) Released(at At, req Req, pages []Run)  { s.say(at, "released %d %v", req, pages) }
func (s *script) Evicted(at At, pages []Run)            { s.say(at, "evicted %v", pages) }
func (s *script) Cached(at At, req Req, d Domain, pages []Run, keys []Key) {
	s.say(at, "cached %d %q %v %d keys", req, d, pages, len(keys))
}

func TestEveryTransitionIsReportedInOrder(t *testing.T) {
	s := &script{}
	p, c := newCached(t, func(c *Config) { c.Events = s })
	p.Advance(100, 1)
	tab, err := p.Open(1, "a", 0)
	must(t, err)
	must(t, p.Reserve(tab, 3))
	must(t, p.LaunchWrite(tab, 0, 10))
	must(t, p.Read(tab, 10))
	must(t, p.CommitWrite(tab, 0, 10))
	p.Advance(200, 2)
	c.Insert(tab, "a", seq(0, 10))
	must(t, p.Release(tab))
	next, err := p.Open(2, "a", 0)
	must(t, err)
	must(t, c.Share(next, c.Match("a", seq(0, 8), 9, 0)))
	_, err = p.CopyLast(next)
	must(t, err)
	p.FinishCopy(next)
	must(t, p.Reserve(next, 1))
	must(t, p.Arrived(next, 2, 3))
	must(t, p.Release(next))
	p.Advance(300, 3)
	c.Flush()
	want := []string{
		`100/1 reserved 1 [{1 3}]`,
		`100/1 written 1 by 0 [{1 3}] 2`,
		`100/1 read 1 [{1 3}]`,
		`200/2 cached 1 "a" [{1 2}] 2 keys`,
		`200/2 released 1 [{1 3}]`,
		`200/2 shared 2 "a" [{1 2}] 2 keys`,
		`200/2 reserved 2 [{3 1}]`,
		`200/2 copied 2 [{2 1}] [{3 1}]`,
		`200/2 released 2 [{2 1}]`,
		`200/2 reserved 2 [{4 1}]`,
		`200/2 written 2 by 1 [{4 1}] 3`,
		`200/2 released 2 [{1 1} {3 2}]`,
		`300/3 evicted [{2 1} {1 1}]`,
	}
	if !slices.Equal(s.lines, want) {
		t.Fatalf("events\n%s\nwant\n%s", strings.Join(s.lines, "\n"), strings.Join(want, "\n"))
	}
}

func TestSnapshotTellsHoldersGenerationsAndOpenTransfers(t *testing.T) {
	p, c := newCached(t)
	store(t, p, c, 1, "a", seq(0, 8))
	tab := open(t, p, 2, 2)
	must(t, p.OpenTransfer(5, tab, 1, 1))
	gone := open(t, p, 3, 1)
	must(t, p.OpenTransfer(6, gone, 0, 1))
	must(t, p.Release(gone))
	p.Advance(9, 4)
	var s Snapshot
	p.Snapshot(&s)
	p.Snapshot(&s) // memory is reused, nothing doubles
	got := fmt.Sprintf("%v %+v %v %v %v %v", s.At, s.Audit, s.Gens, s.Filled, s.Holders, s.Open)
	want := `{9 4} {Pages:9 Null:1 Free:3 Cached:2 Held:2 PendingDrain:1} [0 1 1 1 1 1 0 0 0] [0 4 4 0 0 0 0 0 0] ` +
		`[{0 a [{1 2}]} {2  [{3 2}]}] [{5 2 [{4 1}] false} {6 3 [{5 1}] true}]`
	if got != want {
		t.Fatalf("snapshot\n%s\nwant\n%s", got, want)
	}
}
