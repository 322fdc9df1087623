package peers

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/publish"
	"github.com/kvwitness/kvwitness/engine/scheduler"
)

// lifecycleBatch is a batch as msgspec read it.
type lifecycleBatch struct {
	Topic  string
	Seq    uint64
	TS     float64
	Rank   *int64
	Events []json.RawMessage
}

// lifecyclePublisher is an engine of few words: a request is admitted, gets pages,
// writes and caches them, and ends.
func lifecyclePublisher(t *testing.T) (*publish.Publisher, *publish.Pool) {
	t.Helper()
	p, err := publish.New(t.Context(), publish.Config{
		Identity: publish.Identity{Instance: "decode-0/tp1", Epoch: 77, Now: func() int64 { return 5 }},
		Rank:     lifecycle.Some(int64(1)),
		Dir:      t.TempDir(),
	})
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		must(t, p.Close(ctx))
	})
	pool, err := p.PoolEvents("kv", lifecycle.PoolSpec{Pages: 64, PageTokens: 16, NullIDs: lifecycle.Runs{{First: 0, Count: 1}}})
	must(t, err)
	return p, pool
}

func tellOfOneRequest(p *publish.Publisher, pool *publish.Pool, req kvcache.Req) {
	at := kvcache.At{Now: int64(req) * 1000, Step: uint64(req)}
	info := scheduler.Info{Req: req, Domain: "0123456789abcdef", PromptTokens: 32}
	pages := []kvcache.Run{{First: 7, Count: 2}}
	p.Admitted(at, info, 0)
	pool.Reserved(at, req, pages)
	pool.Written(at, req, kvcache.ByForward, pages, 16)
	pool.Cached(at, req, info.Domain, pages, []kvcache.Key{1 << 63, 15})
	p.Finished(at, info, scheduler.Outcome{Status: 200, Finish: scheduler.FinishLength})
}

// decodedFacts are the facts of batches, as this project reads them.
func decodedFacts(t *testing.T, batches []lifecycleBatch) (facts []*lifecycle.Fact) {
	t.Helper()
	dec := lifecycle.NewJSONDecoder()
	for _, b := range batches {
		for _, raw := range b.Events {
			f, err := dec.Decode(raw)
			must(t, err)
			if f.Inst != "decode-0/tp1" || f.Epoch != lifecycle.Some(uint64(77)) || f.Src != lifecycle.Engine {
				t.Fatalf("a fact of another: %s", raw)
			}
			if f.Ev != lifecycle.Watermark {
				facts = append(facts, f)
			}
		}
	}
	return facts
}

func TestLifecycleFactsAreReadWithPyzmqAndMsgspec(t *testing.T) {
	p, pool := lifecyclePublisher(t)
	events, replay := p.Endpoints()
	peer := start(t, requirements, "publish_peer.py")
	peer.ask(map[string]any{"op": "connect", "events": events, "replay": replay, "topic": "kvw1@decode-0/tp1"}, nil)
	for end := time.Now().Add(answerLimit); p.Stats().Events.Up == 0 || p.Stats().Requests.Up == 0; {
		if time.Now().After(end) {
			t.Fatal("the peer does not connect")
		}
		time.Sleep(time.Millisecond)
	}
	var live struct{ Batches []lifecycleBatch }
	// Subscribed or not when the first is told: replay makes up for it.
	tellOfOneRequest(p, pool, 1)
	peer.ask(map[string]any{"op": "recv", "batches": 1}, &live)
	if len(live.Batches) != 1 {
		t.Fatal("no batch came")
	}
	b := live.Batches[0]
	if b.Topic != "kvw1@decode-0/tp1" || b.Rank == nil || *b.Rank != 1 || time.Since(time.UnixMicro(int64(b.TS*1e6))) > time.Minute {
		t.Fatalf("%+v", b)
	}
	decodedFacts(t, live.Batches)

	var all struct{ Batches []lifecycleBatch }
	peer.ask(map[string]any{"op": "replay", "from": 0}, &all)
	facts := decodedFacts(t, all.Batches)
	want := []lifecycle.Ev{
		lifecycle.PoolOpened, lifecycle.RequestAdmitted, lifecycle.PagesReserved, lifecycle.PagesWritten,
		lifecycle.PagesCached, lifecycle.PagesCached, lifecycle.RequestFinished,
	}
	if len(facts) != len(want) {
		t.Fatalf("%d facts are replayed, want %d", len(facts), len(want))
	}
	for i, f := range facts {
		if f.Ev != want[i] || f.Seq != lifecycle.Some(uint64(i)) {
			t.Errorf("fact %d is %s with number %v, want %s", i, f.Ev, f.Seq, want[i])
		}
	}
	for i, batch := range all.Batches {
		if batch.Seq != uint64(i) {
			t.Errorf("batch %d has number %d", i, batch.Seq)
		}
	}
	if f := facts[4]; f.Key != "8000000000000000" || f.Pages.String() != "7" || f.Domain.V != "0123456789abcdef" {
		t.Errorf("cached %+v", f)
	}

	last := all.Batches[len(all.Batches)-1].Seq
	peer.ask(map[string]any{"op": "replay", "from": last + 1000}, &all)
	if len(all.Batches) != 0 {
		t.Errorf("%d batches of the future", len(all.Batches))
	}
	var snap struct{ Batches []lifecycleBatch }
	peer.ask(map[string]any{"op": "snapshot"}, &snap)
	if len(snap.Batches) == 0 || snap.Batches[0].Seq < last {
		t.Fatalf("a snapshot of before batch %d: %+v", last, snap.Batches)
	}
	held := 0
	for _, f := range decodedFacts(t, snap.Batches) {
		if f.Seq.Has {
			t.Errorf("a snapshot's fact has a number: %s", f.AppendJSON(nil))
		}
		if f.Ev == lifecycle.PagesReserved {
			held += f.Pages.Pages()
		}
	}
	if held != 2 {
		t.Errorf("the snapshot knows of %d held pages, want 2", held)
	}
}
