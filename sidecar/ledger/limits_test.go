package ledger_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/ledger"
)

// small limits, so that a short stream goes far beyond each of them.
var small = ledger.Limits{
	Instances: 8, Pools: 4, Pages: 4096, Requests: 64, Ended: 16, Transfers: 8, Activity: 256,
	Fragments: 64, Strays: 16, Releases: 8, PastOwner: 2, Window: 32, Missing: 8, Digests: 8, Pending: 16, Peers: 4, Samples: 8,
}

// within fails if anything is larger than its limit.
func within(t *testing.T, l *ledger.Ledger, lim ledger.Limits) {
	t.Helper()
	s := l.Sizes()
	for _, c := range []struct {
		what      string
		is, limit int
	}{
		{"instances", s.Instances, lim.Instances},
		{"pools", s.Pools, lim.Pools},
		{"pages", s.Pages, lim.Pages},
		{"requests", s.Requests, lim.Requests + 1},
		{"ended", s.Ended, lim.Ended + 1},
		{"rooms", s.Rooms, lim.Requests + lim.Ended + 1},
		{"activity", s.Activity, lim.Activity},
		{"fragments", s.Fragments, lim.Fragments},
		{"strays", s.Strays, lim.Strays},
		{"window", s.Window, lim.Window},
		{"pending", s.Pending, lim.Pending},
	} {
		if c.is > c.limit {
			t.Fatalf("%s: %d are remembered, the limit is %d", c.what, c.is, c.limit)
		}
	}
}

// accounted fails if a fact was counted twice or not at all.
func accounted(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	s := l.Stats()
	sum := s.Applied + s.Duplicates + s.Late + s.Outdated + s.Unjudged + uint64(l.Sizes().Window)
	if s.Seen != sum {
		t.Fatalf("%d facts seen, %d accounted for: %+v", s.Seen, sum, s)
	}
}

func engine(at int64, ev lifecycle.Ev) *lifecycle.Fact {
	return &lifecycle.Fact{T: at, Node: "n", Inst: "decode-0", Src: lifecycle.Engine, Ev: ev}
}

// Promise: an engine that opens requests and never ends them costs sight, not
// memory, and accuses nobody: what is forgotten is unwitnessed.
func TestOpenRequestsBeyondTheLimitAreUnwitnessed(t *testing.T) {
	l := ledger.New(ledger.Config{Limits: small})
	l.Step(openPool("decode-0", 1024, nil))
	at := int64(1_000_000)
	for i := range 5000 {
		at += 1_000_000
		f := engine(at, lifecycle.PagesReserved)
		f.Req, f.Room, f.Pool = fmt.Sprint("r", i), fmt.Sprint(i), "kv"
		f.Pages = lifecycle.Runs{{First: uint32(i % 1024), Count: 1}}
		for _, found := range l.Step(f) {
			if found.Kind != finding.DoubleHold || i < 1024 {
				t.Fatalf("request %d: %+v", i, found)
			}
		}
		within(t, l, small)
	}
	l.Close()
	for _, v := range l.Verdicts() {
		if v.Verdict == finding.Clean {
			t.Fatalf("%+v", v)
		}
	}
	accounted(t, l)
	if l.Stats().Forgotten.Requests == 0 {
		t.Fatal("nothing was forgotten: the test shows nothing")
	}
}

// Promise: transfers, pages in transfer, pieces of pages and digests are
// bounded, and a room that went beyond a limit is not clean.
func TestTransfersBeyondTheLimitAreUnwitnessed(t *testing.T) {
	lim := small
	lim.Requests = 1 << 20
	l := ledger.New(ledger.Config{HoldVerdicts: true, Limits: lim})
	region := lifecycle.Region{Base: 1 << 40, Stride: 4096, Bytes: 4096}
	opened := openPool("decode-0", 1024, []lifecycle.Region{region})
	opened.Src = lifecycle.Wire
	l.Step(opened)
	l.Step(&lifecycle.Fact{T: 2, Node: "n", Inst: "decode-0", Src: lifecycle.Sidecar, Ev: lifecycle.SourceCoverage, Of: lifecycle.RDMA, Complete: true})
	at := int64(10)
	for i := range uint32(600) {
		at += 10
		start := engine(at, lifecycle.TransferStarted)
		start.Xfer, start.Room, start.Side, start.Peer, start.Pool = fmt.Sprint(i), "1", lifecycle.Receiver, "prefill-0", "kv"
		start.Pages, start.Src = lifecycle.Runs{{First: i, Count: 1}}, lifecycle.Wire
		bytes := &lifecycle.Fact{
			T: at + 1, Node: "n", Inst: "decode-0", Src: lifecycle.RDMA, Ev: lifecycle.BytesMoved,
			Addr: region.Base + uint64(i)*4096 + 1, Bytes: 7, From: "prefill-0", Outcome: lifecycle.OK,
		}
		digest := engine(at+2, lifecycle.ContentDigest)
		digest.Src, digest.Room, digest.Pool, digest.Digest, digest.Side = lifecycle.Wire, "1", "kv", fmt.Sprint(i), lifecycle.Sender
		for _, f := range []*lifecycle.Fact{start, bytes, digest} {
			l.Step(f)
			within(t, l, lim)
		}
	}
	l.Close()
	for _, v := range l.Verdicts() {
		if v.Verdict != finding.Unwitnessed {
			t.Fatalf("%+v", v)
		}
	}
	if l.Stats().Forgotten.Transfers == 0 || l.Stats().Forgotten.Digests == 0 {
		t.Fatalf("nothing was forgotten: %+v", l.Stats().Forgotten)
	}
}

// Promise: rooms of which no request is known, and that nothing ends, cost sight and
// not memory: receivers seen on the wire alone, and digests.
func TestOpenRoomsBeyondTheLimitAreUnwitnessed(t *testing.T) {
	l := ledger.New(ledger.Config{Limits: small})
	opened := openPool("decode-0", 1024, nil)
	opened.Src = lifecycle.Wire
	l.Step(opened)
	for i := range 2000 {
		at := int64(i+1) * 1_000_000
		start := engine(at, lifecycle.TransferStarted)
		start.Src, start.Xfer, start.Room, start.Side, start.Peer, start.Pool = lifecycle.Wire, "x", fmt.Sprint("a", i), lifecycle.Receiver, "prefill-0", "kv"
		start.Pages = lifecycle.Runs{{First: uint32(i % 1024), Count: 1}}
		digest := engine(at, lifecycle.ContentDigest)
		digest.Src, digest.Room, digest.Pool, digest.Digest, digest.Side = lifecycle.Wire, fmt.Sprint("b", i), "kv", "d", lifecycle.Sender
		for _, f := range []*lifecycle.Fact{start, digest} {
			if found := l.Step(f); len(found) > 0 && i < 1024 {
				t.Fatalf("room %d: %+v", i, found)
			}
			within(t, l, small)
		}
	}
	l.Close()
	for _, v := range l.Verdicts() {
		if v.Verdict == finding.Clean {
			t.Fatalf("%+v", v)
		}
	}
	accounted(t, l)
	if l.Stats().Forgotten.Rooms == 0 {
		t.Fatal("nothing was forgotten: the test shows nothing")
	}
}

// Promise: pools and instances beyond the limit are not judged, and counted.
func TestPoolsAndInstancesBeyondTheLimitAreCounted(t *testing.T) {
	l := ledger.New(ledger.Config{Limits: small})
	for i := range 50 {
		f := openPool(fmt.Sprint("engine-", i), 1024, nil)
		f.T = int64(i) * 1_000_000_000
		l.Step(f)
		within(t, l, small)
	}
	l.Close()
	if f := l.Stats().Forgotten; f.Pools == 0 || f.Instances == 0 {
		t.Fatalf("%+v", f)
	}
	accounted(t, l)
}

// Promise: runs that name more pages than a pool has, or pages outside it, are
// counted as impossible and change nothing.
func TestImpossiblePagesAreCounted(t *testing.T) {
	l := ledger.New(ledger.Config{})
	l.Step(openPool("decode-0", 8, nil))
	for i, runs := range []lifecycle.Runs{{{First: 8, Count: 1}}, {{First: 0, Count: 9}}, {{First: 0, Count: 8}, {First: 0, Count: 8}}, {{First: 1 << 26, Count: 1 << 26}}} {
		f := engine(int64(i+1)*1_000_000, lifecycle.PagesReserved)
		f.Req, f.Pool, f.Pages = "r1", "kv", runs
		l.Step(f)
	}
	if found := l.Close(); len(found) > 0 {
		t.Fatalf("%+v", found)
	}
	if s := l.Stats(); s.Impossible != 4 || s.PagesReserved != 0 {
		t.Fatalf("%+v", s)
	}
}

// Promise: where more was posted astray than is remembered, the end of what landed
// before a page was handed out accuses nobody, and its request is unwitnessed; but no
// longer than such an end may come.
func TestPostedAstrayBeyondTheLimitIsUnwitnessed(t *testing.T) {
	lim := small
	lim.Strays = 1
	l := ledger.New(ledger.Config{HoldVerdicts: true, Stall: time.Hour, Limits: lim})
	const base, page = 1 << 40, 4096
	opened := openPool("decode-0", 64, []lifecycle.Region{{Base: base, Stride: page, Bytes: page}})
	opened.Spec.Since = lifecycle.SinceAttach
	at := int64(10)
	say := func(ev lifecycle.Ev, more func(f *lifecycle.Fact)) []finding.Finding {
		at += 1e9
		f := engine(at, ev)
		more(f)
		return l.Step(f)
	}
	bytes := func(xfer string, id uint64, outcome lifecycle.Outcome) []finding.Finding {
		return say(lifecycle.BytesMoved, func(f *lifecycle.Fact) {
			f.Src, f.From, f.Xfer, f.Outcome = lifecycle.RDMA, "prefill-0", xfer, outcome
			f.Addr, f.Bytes = base+id*page, page
		})
	}
	l.Step(opened)
	bytes("x0", 5, lifecycle.Posted) // fills the limit
	bytes("x1", 3, lifecycle.Posted)
	say(lifecycle.TransferCompleted, func(f *lifecycle.Fact) {
		f.Room, f.Peer, f.Xfer, f.Outcome = "1", "prefill-0", "x1", lifecycle.OK
	})
	say(lifecycle.RequestAdmitted, func(f *lifecycle.Fact) { f.Req, f.PromptTokens = "r2", lifecycle.Some[int64](16) })
	say(lifecycle.PagesReserved, func(f *lifecycle.Fact) { f.Req, f.Pool, f.Pages = "r2", "kv", lifecycle.Runs{{First: 3, Count: 1}} })
	say(lifecycle.PagesReserved, func(f *lifecycle.Fact) { f.Req, f.Pool, f.Pages = "r3", "kv", lifecycle.Runs{{First: 4, Count: 1}} })
	found := bytes("x1", 3, lifecycle.OK)
	at += time.Minute.Nanoseconds()
	found = append(found, bytes("x1", 4, lifecycle.OK)...)
	found = append(found, l.Close()...)
	if len(found) != 1 || found[0].Kind != finding.ForeignPage || !slices.Equal(found[0].Pages, finding.Pages{{First: 4, Count: 1}}) {
		t.Errorf("%+v, want foreign_page of page 4 alone", found)
	}
	if got := l.Stats().Forgotten.Strays; got != 1 {
		t.Errorf("%d are counted as forgotten, want 1", got)
	}
	for _, v := range l.Verdicts() {
		if v.Req == "r2" && !strings.Contains(v.Why, "than is remembered") {
			t.Errorf("%+v", v)
		}
	}
}

// Promise: one who lost more pages to double holds than are remembered is not accused of
// giving them back.
func TestPagesLostBeyondTheLimitAreGivenBackInGoodFaith(t *testing.T) {
	lim := small
	lim.Releases = 1
	l := ledger.New(ledger.Config{HoldVerdicts: true, Limits: lim})
	l.Step(openPool("decode-0", 64, nil))
	at := int64(10)
	var found []finding.Finding
	pages := func(ev lifecycle.Ev, req string, ids ...uint32) {
		at += 1e9
		f := engine(at, ev)
		f.Req, f.Pool = req, "kv"
		for _, id := range ids {
			f.Pages = append(f.Pages, lifecycle.Run{First: id, Count: 1})
		}
		found = append(found, l.Step(f)...)
	}
	pages(lifecycle.PagesReserved, "r1", 1, 3, 5)
	pages(lifecycle.PagesReserved, "r2", 1, 3, 5)
	pages(lifecycle.PagesReleased, "r1", 1, 3, 5)
	if found = append(found, l.Close()...); len(found) != 1 || found[0].Kind != finding.DoubleHold {
		t.Errorf("%+v, want one double_hold", found)
	}
	if got := l.Stats().Forgotten.Releases; got < 2 {
		t.Errorf("%d are counted as forgotten, want 2 or more", got)
	}
	for _, v := range l.Verdicts() {
		if v.Req == "r1" && !strings.Contains(v.Why, "than are remembered") {
			t.Errorf("%+v", v)
		}
	}
}
