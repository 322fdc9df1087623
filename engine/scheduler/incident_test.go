package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/kvwitness/kvwitness/engine/kvcache"
)

// tape writes what one engine says of requests, transfers and pages.
type tape struct{ lines []string }

func (t *tape) say(format string, args ...any) {
	t.lines = append(t.lines, fmt.Sprintf(format, args...))
}

func (t *tape) Admitted(_ kvcache.At, r Info, prefix int) {
	t.say("admitted %d prefix %d", r.Req, prefix)
}

func (t *tape) Rejected(_ kvcache.At, r Info, status int, _ string) {
	t.say("rejected %d with %d", r.Req, status)
}
func (t *tape) Aborted(_ kvcache.At, r Info, _ string) { t.say("aborted %d", r.Req) }
func (t *tape) Finished(_ kvcache.At, r Info, o Outcome) {
	t.say("finished %d with %d %s", r.Req, o.Status, o.Finish)
}

func (t *tape) TransferStarted(_ kvcache.At, r Info, x kvcache.Xfer, side Side, p Peer, pages []kvcache.PageID) {
	t.say("transfer %d of room %d started as %d with %s: %d pages", x, r.Room, side, p, len(pages))
}

func (t *tape) TransferCompleted(_ kvcache.At, r Info, x kvcache.Xfer, _ Side, _ Peer, ok bool, e Extent, last bool) {
	t.say("transfer %d completed ok %v, length %+v, last %v", x, ok, e, last)
}

func (t *tape) TransferDrained(_ kvcache.At, _ Room, x kvcache.Xfer, _ Side, _ Peer) {
	t.say("transfer %d drained", x)
}
func (t *tape) PeerGone(_ kvcache.At, p Peer)                         { t.say("peer %s gone", p) }
func (t *tape) Protected(kvcache.At, Protection, bool)                {}
func (t *tape) Reserved(_ kvcache.At, r kvcache.Req, p []kvcache.Run) { t.say("reserved %d %v", r, p) }

func (t *tape) Shared(_ kvcache.At, r kvcache.Req, _ kvcache.Domain, p []kvcache.Run, _ []kvcache.Key) {
	t.say("shared %d %v", r, p)
}

func (t *tape) Written(at kvcache.At, r kvcache.Req, by kvcache.Writer, p []kvcache.Run, tokens int) {
	t.say("step %d: written %d by %d %v %d", at.Step, r, by, p, tokens)
}

func (t *tape) Read(at kvcache.At, r kvcache.Req, p []kvcache.Run) {
	t.say("step %d: read %d %v", at.Step, r, p)
}

func (t *tape) Copied(_ kvcache.At, r kvcache.Req, from, to []kvcache.Run) {
	t.say("copied %d %v %v", r, from, to)
}

func (t *tape) Cached(_ kvcache.At, r kvcache.Req, _ kvcache.Domain, p []kvcache.Run, _ []kvcache.Key) {
	t.say("cached %d %v", r, p)
}

func (t *tape) Released(_ kvcache.At, r kvcache.Req, p []kvcache.Run) { t.say("released %d %v", r, p) }
func (t *tape) Evicted(_ kvcache.At, p []kvcache.Run)                 { t.say("evicted %v", p) }

// listen makes both the scheduler and the pool of e write to one tape.
func (e *engine) listen() *tape {
	t := &tape{}
	e.cfg.Events, e.kvc.Events = t, t
	e.boot()
	return t
}

func (w *world) restart() {
	clear(w.wires)
	w.greet(w.engines[0], w.engines[1])
	w.run(nil)
}

func (t *tape) expect(tb testing.TB, who string, want ...string) {
	tb.Helper()
	if !slices.Equal(t.lines, want) {
		tb.Errorf("%s says", who)
		for _, l := range t.lines {
			tb.Errorf("\t%s", l)
		}
		tb.Errorf("want")
		for _, l := range want {
			tb.Errorf("\t%s", l)
		}
	}
	t.lines = nil
}

// The seven steps are those of the public account: each is normal by itself.
func TestIncidentInSevenSteps(t *testing.T) {
	w, err := scenes[0].build(t, RejectedHandoff)
	if err != nil {
		t.Fatal(err)
	}
	p, d := w.by["p0"], w.by["d0"]
	pSays, dSays := p.listen(), d.listen()
	w.restart()
	w.request("a", tokens(1, 14), 18, NoDrill) // leaves its bytes in all of decode's pages
	w.run(nil)
	pSays.lines, dSays.lines = nil, nil

	subs := w.request("b", tokens(100, 30), 2, NoDrill)
	w.run(func() bool { return p.launch != nil && len(p.launch.Items) == 1 })
	prefill, decode := subs[0], subs[1]

	// 1: decode knows the length and reserves for all of it.
	// 2: prefill rejects in words, and admits all the same.
	dSays.expect(t, "decode", "rejected 4 with 400", "reserved 4 [{1 8}]", "transfer 2 of room 2 started as 0 with p0: 8 pages")
	if q := p.s.Queues(); q["running"] != 1 || prefill.answers != 0 {
		t.Fatalf("prefill has queues %v after rejecting; want the request to run", q)
	}
	// 3: the prompt has become one placeholder token.
	if it := p.launch.Items[0]; !slices.Equal(it.Tokens, []int32{placeholder}) {
		t.Fatalf("prefill computes %v, want the placeholder", it.Tokens)
	}
	w.run(func() bool { return d.launch != nil })
	// 4: one page is sent, and complete is said without a length.
	pSays.expect(t, "prefill", "rejected 3 with 400", "reserved 3 [{1 1}]", "step 3: written 3 by 0 [{1 1}] 1", "step 3: read 3 [{1 1}]",
		"transfer 3 of room 2 started as 1 with d0: 1 pages", "transfer 3 completed ok true, length {Known:true Pages:1 Tokens:1}, last true",
		"transfer 3 drained", "finished 3 with 200 length", "released 3 [{1 1}]")
	// 5: decode accepts. 6: attention reads up to the reserved length.
	dSays.expect(t, "decode", "step 17: written 4 by 1 [{1 1}] 1", "transfer 2 completed ok true, length {Known:false Pages:0 Tokens:0}, last true",
		"transfer 2 drained", "step 18: written 4 by 0 [{8 1}] 3", "step 18: read 4 [{1 8}]")
	w.run(nil)
	// 7: success.
	if decode.outcome.Status != 200 || len(decode.out) != 2 || len(w.leaks) == 0 {
		t.Fatalf("decode answers %+v with %d tokens and %d foreign reads; want the incident", decode.outcome, len(decode.out), len(w.leaks))
	}
	dSays.expect(t, "decode", "finished 4 with 200 length", "released 4 [{1 8}]")
}

func TestPageTagsAloneFindTheSevenStalePages(t *testing.T) {
	w, err := scenes[0].build(t, RejectedHandoff, PageTags)
	if err != nil {
		t.Fatal(err)
	}
	w.request("a", tokens(1, 14), 18, NoDrill)
	w.run(nil)
	w.request("b", tokens(100, 30), 2, NoDrill)
	d := w.by["d0"]
	w.run(func() bool { return d.launch != nil })
	it := d.launch.Items[0]
	if f := d.kv.Tags().CheckRead(it.Pages, it.Gens); f == nil || f.Faults != 7 || f.Index != 1 {
		t.Fatalf("fault %+v, want 7 faults from entry 1 on", f)
	}
}

// Promise 7: on a good handoff the first token goes when decode's own pass is done
// and not before, an answer of one token too; where the pass finds a page of another
// generation nothing goes. Without page tags it goes at once.
func TestNoTokenGoesBeforeThePagesWereRead(t *testing.T) {
	for _, c := range []struct {
		maxNew   int
		off      []Protection
		spoil    bool
		out      int // tokens of the answer
		readOnly bool
	}{
		{maxNew: 3, out: 3},
		{maxNew: 1, out: 1, readOnly: true},
		{maxNew: 3, spoil: true},
		{maxNew: 1, spoil: true, readOnly: true},
		{maxNew: 3, off: []Protection{PageTags}, out: 3},
	} {
		w := newWorld(t, 1)
		for _, role := range []Role{Prefill, Decode} {
			cfg, kvc := simConfig(role)
			cfg.Protections = cfg.Protections.Without(c.off...)
			if role == Decode {
				kvc.TagStripes = stripes
			}
			w.add(Peer([]string{"u0", "p0", "d0"}[role]), cfg, kvc, 0, 1)
		}
		w.greet(w.engines[0], w.engines[1])
		w.run(nil)
		d := w.by["d0"]
		answer := w.request("a", tokens(1, 30), c.maxNew, NoDrill)[1]
		w.run(func() bool { return d.launch != nil })
		it := d.launch.Items[0]
		if !it.ReadAll || it.Sample == c.readOnly {
			t.Errorf("%+v: the pass reads everything: %v, and samples: %v", c, it.ReadAll, it.Sample)
		}
		if told := len(answer.out); (told > 0) != (c.off != nil) {
			t.Errorf("%+v: %d tokens are gone before the pages were read", c, told)
		}
		if c.spoil {
			d.kv.Tags().Stamp(it.Pages[2], it.Gens[2]+1)
		}
		w.run(nil)
		if want := map[bool]int{false: 200, true: 500}[c.spoil]; answer.outcome.Status != want || len(answer.out) != c.out {
			t.Errorf("%+v: status %d, %d tokens", c, answer.outcome.Status, len(answer.out))
		}
		w.settle()
	}
}

func TestLoweredContextStopsTheIncidentAtTheGate(t *testing.T) {
	w := newWorld(t, 1)
	for _, role := range []Role{Prefill, Decode} {
		cfg, kvc := simConfig(role)
		cfg.Drill, cfg.Keep, cfg.LowerContext = RejectedHandoff, []Protection{PoolGate}, true
		kvc.Pages = map[Role]int{Prefill: 5, Decode: 9}[role]
		if role == Decode {
			kvc.TagStripes = stripes
		}
		w.add(Peer([]string{"u0", "p0", "d0"}[role]), cfg, kvc, 0, 1)
	}
	w.greet(w.engines[0], w.engines[1])
	w.run(nil)
	for i, e := range w.engines {
		if e.s.Limit() != 16 {
			t.Errorf("engine %d has a limit of %d tokens, want the 16 of the smaller pool", i, e.s.Limit())
		}
	}
	for _, sb := range w.request("b", tokens(1, 30), 2, NoDrill) {
		w.run(nil)
		if sb.outcome.Status != 400 || !errors.Is(sb.outcome.Err, ErrOverLong) {
			t.Errorf("request %d: %+v, want 400 and ErrOverLong", sb.req, sb.outcome)
		}
	}
}

func TestCleanHandoffIsToldInOrder(t *testing.T) {
	w, err := scenes[8].build(t, NoDrill)
	if err != nil {
		t.Fatal(err)
	}
	pSays, dSays := w.by["p0"].listen(), w.by["d0"].listen()
	w.restart()
	w.request("a", tokens(1, 6), 2, NoDrill)
	w.run(nil)
	pSays.expect(t, "prefill", "admitted 1 prefix 0", "reserved 1 [{1 2}]", "step 1: written 1 by 0 [{1 2}] 2", "step 1: read 1 [{1 2}]",
		"cached 1 [{1 1}]", "transfer 1 of room 1 started as 1 with d0: 2 pages", "transfer 1 completed ok true, length {Known:true Pages:2 Tokens:6}, last true",
		"transfer 1 drained", "finished 1 with 200 length", "released 1 [{1 2}]")
	dSays.expect(t, "decode", "admitted 2 prefix 0", "reserved 2 [{1 2}]", "transfer 1 of room 1 started as 0 with p0: 2 pages",
		"step 0: written 2 by 1 [{1 1}] 4", "step 0: written 2 by 1 [{2 1}] 2", "transfer 1 completed ok true, length {Known:true Pages:2 Tokens:6}, last true",
		"transfer 1 drained", "step 1: written 2 by 0 [{2 1}] 3", "step 1: read 2 [{1 2}]", "finished 2 with 200 length", "cached 2 [{1 1}]", "released 2 [{1 2}]")
	w.settle()
}
