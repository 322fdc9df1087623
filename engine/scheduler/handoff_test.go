package scheduler

import (
	"errors"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/kvcache"
)

// aim is what a decode peer names for a prompt of n tokens.
func aim(room Room, n int) Targets {
	t := Targets{Room: room, Peer: "x", Slot: 1, SlotGen: 1}
	for i := range (n + 3) / 4 {
		t.Pages = append(t.Pages, kvcache.PageID(i+1))
		t.Gens = append(t.Gens, 1)
	}
	return t
}

// prefilled brings a prefill engine to where all of a prompt is computed and its
// first batch is on the way.
func prefilled(t *testing.T, n int, change ...func(*Config, *kvcache.Config)) (*alone, []Action) {
	t.Helper()
	a := newAlone(t, Prefill, change...)
	a.step(submit(1, n, 1))
	return a, a.finish(a.step(aim(1, n)))
}

// receiving brings a decode engine to where it waits for n tokens.
func receiving(t *testing.T, n int, change ...func(*Config, *kvcache.Config)) (*alone, SendTargets) {
	t.Helper()
	a := newAlone(t, Decode, change...)
	return a, only[SendTargets](t, a.step(submit(1, n, 3)))
}

func TestBatchesFollowOneAnotherWithinTheLimit(t *testing.T) {
	a, acts := prefilled(t, 30, func(_ *Config, k *kvcache.Config) { k.BatchPages = 3 })
	pages, next := 0, 0
	for batch := 0; ; batch++ {
		st := only[StartTransfer](t, acts)
		if len(st.Source) > 3 || len(st.Source) != len(st.Target) || st.First != next {
			t.Fatalf("batch %d: %+v, want at most 3 pages from %d on", batch, st, next)
		}
		pages += len(st.Source)
		next = st.First + len(st.Source)
		if acts = a.step(Sent{Xfer: st.Xfer, OK: true}); st.Last {
			if st.Tokens != 2 {
				t.Fatalf("%d tokens in the last page, want 2", st.Tokens)
			}
			break
		}
	}
	if got := only[TellStatus](t, acts); pages != 8 || !got.OK || !got.HasLength || got.Pages != 8 || got.Tokens != 30 {
		t.Fatalf("%d pages sent, status %+v; want 8 pages and 30 tokens", pages, got)
	}
	if !a.s.Idle() {
		t.Fatal("the request is not at its end")
	}
}

func TestChunkIsSentWhileTheNextIsComputed(t *testing.T) {
	a := newAlone(t, Prefill)
	a.step(submit(1, 20, 1))
	l := only[Launch](t, a.step(aim(1, 20)))
	acts := a.step(done(l, 7))
	st := only[StartTransfer](t, acts)
	if len(st.Source) != 2 || st.Last || st.Tokens != 4 {
		t.Fatalf("sent %+v after 9 tokens, want the two full pages", st)
	}
	only[Launch](t, acts)
}

func TestDrainedIsSaidOnlyWhenTheLastBatchIsThrough(t *testing.T) {
	a, acts := prefilled(t, 30, func(_ *Config, k *kvcache.Config) { k.BatchPages = 3 })
	st := only[StartTransfer](t, acts)
	acts = a.step(PeerAborted{Room: 1, Peer: "x", Reason: "asked to"})
	if only[TellStatus](t, acts).OK || len(each[TellDrained](acts)) != 0 {
		t.Fatalf("%+v: drained is said while a batch is under way", acts)
	}
	if got := a.kv.Audit().PendingDrain; got != len(st.Source) {
		t.Fatalf("%d pages pending, want the %d of the batch", got, len(st.Source))
	}
	acts = a.step(Sent{Xfer: st.Xfer, OK: true})
	only[TellDrained](t, acts)
	if len(each[StartTransfer](acts)) != 0 || a.kv.Audit().PendingDrain != 0 {
		t.Fatalf("%+v, %+v: something is sent for a request that has ended, or pages stay behind", acts, a.kv.Audit())
	}
	only[TellDrained](t, a.step(PeerAborted{Room: 1, Peer: "x"}))
}

func TestDisconnectDoesNotTearATransfer(t *testing.T) {
	t.Run("prefill", func(t *testing.T) {
		a, acts := prefilled(t, 8)
		if got := a.step(Disconnect{Req: 1}); len(got) != 0 {
			t.Fatalf("actions %+v, want none", got)
		}
		acts = a.step(Sent{Xfer: only[StartTransfer](t, acts).Xfer, OK: true})
		if !only[TellStatus](t, acts).OK {
			t.Fatal("the transfer was not brought to its end")
		}
	})
	t.Run("decode", func(t *testing.T) {
		a, _ := receiving(t, 8)
		if got := a.step(Disconnect{Req: 1}); len(got) != 0 {
			t.Fatalf("actions %+v, want none", got)
		}
		a.step(Arrived{Room: 1, Peer: "x", First: 0, Count: 2, Tokens: 4})
		acts := a.step(Completed{Room: 1, Peer: "x", OK: true, Counted: true})
		if ans := only[Answer](t, acts); ans.Outcome.Status != 499 || len(each[TellAbort](acts)) != 0 || len(each[Token](acts)) != 0 {
			t.Fatalf("%+v, want 499 after the transfer, and no word to the peer", acts)
		}
		if got := a.kv.Audit(); got.Held+got.PendingDrain != 0 {
			t.Fatalf("%+v, want nothing left behind", got)
		}
	})
}

func TestAbortedHandoffKeepsItsPagesUntilTheWriterHasDrained(t *testing.T) {
	a, _ := receiving(t, 8)
	acts := a.step(Abort{Req: 1, Reason: "asked to"})
	only[TellAbort](t, acts)
	only[Answer](t, acts)
	for _, p := range []*kvcache.Pool{a.kv, a.aux} {
		if got := p.Audit(); got.PendingDrain == 0 || got.Held != 0 {
			t.Fatalf("%+v, want pages and slot pending", got)
		}
	}
	a.step(Arrived{Room: 1, Peer: "x", First: 0, Count: 1, Tokens: 4})
	a.step(Completed{Room: 1, Peer: "x", Status: 499, Reason: "aborted"})
	if a.kv.Audit().PendingDrain != 2 {
		t.Fatal("a failure was taken for a drain")
	}
	a.step(Drained{Room: 1, Peer: "x"})
	if a.kv.Audit().PendingDrain != 0 || a.aux.Audit().PendingDrain != 0 || !a.s.Idle() {
		t.Fatalf("%+v after the drain, want nothing pending", a.kv.Audit())
	}
}

func TestWriterThatDoesNotDrainIsCutOffOnce(t *testing.T) {
	a, _ := receiving(t, 8)
	a.step(Abort{Req: 1})
	if f := only[FencePeer](t, a.after(150*time.Millisecond)); f.Peer != "x" {
		t.Fatalf("cut off %q, want x", f.Peer)
	}
	if acts := a.after(time.Second); len(acts) != 0 || a.kv.Audit().PendingDrain != 2 {
		t.Fatalf("%+v, %+v: asked twice, or gave the pages back too early", acts, a.kv.Audit())
	}
	a.step(PeerGone{Peer: "x"})
	if a.kv.Audit().PendingDrain != 0 {
		t.Fatal("pages are pending for a peer that is gone")
	}
}

func TestDecodeComparesWhatArrivedWithWhatIsOwed(t *testing.T) {
	for _, c := range []struct {
		name    string
		arrived []Arrived
		done    Completed
		good    bool
	}{
		{"all", []Arrived{{Count: 2, Tokens: 3}}, Completed{OK: true, Counted: true}, true},
		{"out of order and twice", []Arrived{{First: 1, Count: 1, Tokens: 3}, {Count: 1, Tokens: 4}, {Count: 1, Tokens: 4}}, Completed{OK: true, Counted: true}, true},
		{"a page short", []Arrived{{Count: 1, Tokens: 4}}, Completed{OK: true, Counted: true}, false},
		{"the same page twice", []Arrived{{Count: 1, Tokens: 4}, {Count: 1, Tokens: 4}}, Completed{OK: true, Counted: true}, false},
		{"a token short", []Arrived{{Count: 2, Tokens: 2}}, Completed{OK: true, Counted: true}, false},
		{"claimed, not counted", nil, Completed{OK: true, Counted: true, HasLength: true, Pages: 2, Tokens: 7}, false},
		{"nobody counts, the writer says all", nil, Completed{OK: true, HasLength: true, Pages: 2, Tokens: 7}, true},
		{"nobody counts, the writer says less", nil, Completed{OK: true, HasLength: true, Pages: 2, Tokens: 6}, false},
		{"nobody counts, nobody says", nil, Completed{OK: true}, false},
		{"beyond the targets", []Arrived{{First: 1, Count: 1 << 62, Tokens: 4}, {First: -1, Count: 3, Tokens: 4}, {Count: 2, Tokens: 5}}, Completed{OK: true, Counted: true}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, _ := receiving(t, 7)
			for _, e := range c.arrived {
				e.Room, e.Peer = 1, "x"
				a.step(e)
			}
			c.done.Room, c.done.Peer = 1, "x"
			acts := a.step(c.done)
			if got := len(each[Launch](acts)) == 1; got != c.good {
				t.Fatalf("went on: %v, want %v; %+v", got, c.good, acts)
			}
			if c.good {
				return
			}
			if ans := only[Answer](t, acts); ans.Outcome.Status != 502 || !errors.Is(ans.Outcome.Err, ErrShortHandoff) {
				t.Fatalf("%+v, want 502 and ErrShortHandoff", ans.Outcome)
			}
		})
	}
}

func TestEveryWriterMustHaveDelivered(t *testing.T) {
	a := newAlone(t, Decode)
	ev := submit(1, 8, 3)
	ev.Peers = []Peer{"x", "y"}
	if got := len(each[SendTargets](a.step(ev))); got != 2 {
		t.Fatalf("%d writers were told, want 2", got)
	}
	a.step(Arrived{Room: 1, Peer: "x", Count: 2, Tokens: 4})
	if acts := a.step(Completed{Room: 1, Peer: "x", OK: true, Counted: true}); len(acts) != 0 {
		t.Fatalf("%+v after one of two writers, want to wait", acts)
	}
	acts := a.step(Completed{Room: 1, Peer: "y", OK: true, Counted: true})
	if ans := only[Answer](t, acts); !errors.Is(ans.Outcome.Err, ErrShortHandoff) {
		t.Fatalf("%+v, want ErrShortHandoff: the second brought nothing", ans.Outcome)
	}
}

func TestPeersReasonReachesTheClient(t *testing.T) {
	a, _ := receiving(t, 8)
	acts := a.step(Completed{Room: 1, Peer: "x", Status: 400, Reason: "a prompt of 9 tokens, a pool of 8"})
	ans := only[Answer](t, acts)
	if ans.Outcome.Status != 400 || !errors.Is(ans.Outcome.Err, ErrPeer) || len(each[TellAbort](acts)) != 0 {
		t.Fatalf("%+v, want the peer's 400, and no abort sent back", acts)
	}
	if a.kv.Audit().PendingDrain != 2 {
		t.Fatalf("%+v: a failure was taken for a drain", a.kv.Audit())
	}
	late := newAlone(t, Decode) // the news may come before the request
	late.step(Completed{Room: 1, Peer: "x", Status: 400, Reason: "too long"})
	if r := only[Reject](t, late.step(submit(1, 8, 3))); r.Status != 400 {
		t.Fatalf("rejected with %d, want the peer's 400", r.Status)
	}
}

// Whoever left the peer, this one's own client is there and is told of a failure.
func TestAClientThatLeftThePeerIsNotThisOnes(t *testing.T) {
	a, _ := receiving(t, 8)
	acts := a.step(Completed{Room: 1, Peer: "x", Status: 499, Reason: "the client left"})
	if ans := only[Answer](t, acts); ans.Outcome.Status != 502 || !errors.Is(ans.Outcome.Err, ErrPeer) {
		t.Fatalf("%+v, want 502 and ErrPeer", ans.Outcome)
	}
}

func TestDrainBeforeTheEndIsAFailure(t *testing.T) {
	a, _ := receiving(t, 8)
	acts := a.step(Drained{Room: 1, Peer: "x"})
	if ans := only[Answer](t, acts); ans.Outcome.Status != 502 || a.kv.Audit().Free != 19 || !a.s.Idle() {
		t.Fatalf("%+v with %+v, want 502 and nothing left behind", ans.Outcome, a.kv.Audit())
	}
}

func TestDigestDecidesAndCountsOnlyIfItRan(t *testing.T) {
	for _, c := range []struct {
		answer       DigestChecked
		status       int
		ran, stopped uint64
	}{
		{DigestChecked{Ran: true, Match: true}, 0, 1, 0},
		{DigestChecked{Ran: true}, 502, 1, 1},
		{DigestChecked{}, 0, 0, 0},
	} {
		a, _ := receiving(t, 8, func(c *Config, _ *kvcache.Config) { c.Protections[HandoffDigest] = true })
		a.step(Arrived{Room: 1, Peer: "x", Count: 2, Tokens: 4})
		ask := only[CheckDigest](t, a.step(Completed{Room: 1, Peer: "x", OK: true, Counted: true}))
		if len(ask.Pages) != 2 || ask.Tokens != 8 {
			t.Fatalf("asked for %+v, want 2 pages and 8 tokens", ask)
		}
		c.answer.Req = 1
		acts := a.step(c.answer)
		status := 0
		for _, ans := range each[Answer](acts) {
			status = ans.Outcome.Status
		}
		st := a.s.Stats()
		if status != c.status || st.Ran[HandoffDigest] != c.ran || st.Stopped[HandoffDigest] != c.stopped {
			t.Errorf("%+v: status %d, ran %d, stopped %d; want %d, %d, %d", c.answer, status, st.Ran[HandoffDigest], st.Stopped[HandoffDigest], c.status, c.ran, c.stopped)
		}
	}
}

func TestTargetsMayComeBeforeTheirRequestAndAfterItsEnd(t *testing.T) {
	a := newAlone(t, Prefill)
	if acts := a.step(aim(1, 8)); len(acts) != 0 {
		t.Fatalf("%+v for a room that is yet to come, want none", acts)
	}
	only[Launch](t, a.step(submit(1, 8, 1)))

	b := newAlone(t, Prefill)
	b.step(submit(1, 8, 1))
	b.step(Abort{Req: 1})
	acts := b.step(aim(1, 8))
	if only[TellStatus](t, acts).Status != 499 {
		t.Fatalf("%+v, want the room's own end", acts)
	}
	only[TellDrained](t, acts)
}

func TestEarlyTargetsAreBounded(t *testing.T) {
	a := newAlone(t, Prefill)
	for room := range Room(MaxEarlyTargets) {
		a.step(Targets{Room: room + 1, Peer: "x"})
	}
	if got := only[TellStatus](t, a.step(Targets{Room: 99999, Peer: "x"})); got.Status != 429 {
		t.Fatalf("%+v beyond the limit, want 429", got)
	}
}

func TestTargetsThatDoNotFitAreRefused(t *testing.T) {
	few, many, odd, deep := aim(1, 4), aim(1, 12), aim(1, 8), aim(1, 4)
	odd.PrefixTokens = 3
	deep.PrefixTokens = 8
	ragged := aim(1, 8)
	ragged.Gens = nil
	for name, ev := range map[string]Targets{"few": few, "many": many, "odd prefix": odd, "prefix beyond": deep, "ragged": ragged} {
		a := newAlone(t, Prefill)
		a.step(submit(1, 8, 1))
		acts := a.step(ev)
		if only[TellStatus](t, acts).OK || len(each[Launch](acts)) != 0 {
			t.Errorf("%s: %+v, want a refusal", name, acts)
		}
	}
}

func TestPeersAreBoundedAndCompared(t *testing.T) {
	a := newAlone(t, Decode, func(c *Config, _ *kvcache.Config) { c.Layout = Layout{PageTokens: 4, DType: "bf16"} })
	if r := only[RefusePeer](t, a.step(PeerUp{Peer: "a", Layout: Layout{PageTokens: 4, DType: "fp8"}})); !errors.Is(r.Err, ErrLayout) {
		t.Fatalf("%v, want ErrLayout", r.Err)
	}
	if r := only[RefusePeer](t, a.step(PeerUp{Peer: "b", Capacity: 59, Layout: a.s.cfg.Layout})); !errors.Is(r.Err, ErrContextExceedsPool) {
		t.Fatalf("%v, want ErrContextExceedsPool", r.Err)
	}
	for i := range MaxPeers - 2 {
		if acts := a.step(PeerUp{Peer: Peer(rune(1000 + i)), Layout: a.s.cfg.Layout}); len(acts) != 0 {
			t.Fatalf("peer %d: %+v", i, acts)
		}
	}
	only[RefusePeer](t, a.step(PeerUp{Peer: "one more", Layout: a.s.cfg.Layout}))
}

func TestLateWordsChangeNothing(t *testing.T) {
	events := []Event{
		Abort{Req: 9},
		Disconnect{Req: 9},
		ForwardDone{Step: 9},
		Sent{Xfer: 9},
		Arrived{Room: 9, Peer: "x", Count: 1, Tokens: 1},
		Completed{Room: 9, Peer: "x", OK: true},
		Drained{Room: 9, Peer: "x"},
		DigestChecked{Req: 9},
	}
	for _, role := range []Role{Prefill, Decode} {
		a := newAlone(t, role)
		a.step(submit(1, 8, 1))
		before := a.kv.Audit()
		for i, ev := range events {
			if acts := a.step(ev); len(acts) != 0 || a.kv.Audit() != before || a.s.Stats().Late != uint64(i+1) {
				t.Errorf("%s: %T is answered with %+v, pages %+v, late %d", role, ev, acts, a.kv.Audit(), a.s.Stats().Late)
			}
		}
	}
}

func TestMetadataOfAnotherGenerationIsNotUsed(t *testing.T) {
	w, err := scenes[8].build(t, NoDrill)
	if err != nil {
		t.Fatal(err)
	}
	d := w.by["d0"]
	subs := w.request("a", tokens(1, 8), 2, NoDrill)
	w.run(func() bool { return len(w.flights) > 0 })
	w.fly(w.flights[0], true)
	slot := d.slotOf[w.rooms]
	d.aux.Tags().Stamp(slot, d.aux.Tags().HandedOut(slot)-1)
	w.run(nil)
	if o := subs[1].outcome; !errors.Is(o.Err, ErrPageTag) || len(subs[1].out) != 0 {
		t.Fatalf("%+v with %d tokens, want ErrPageTag and none", o, len(subs[1].out))
	}
}
