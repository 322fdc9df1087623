package peers

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/intake"
	"github.com/kvwitness/kvwitness/sidecar/source/kvevents"
)

// cacheWatcher follows a peer's KV events until the test ends.
type cacheWatcher struct {
	*kvevents.Follower
	t    *testing.T
	peer *program

	mu    sync.Mutex
	facts []*lifecycle.Fact
	seq   int
}

func watchCache(t *testing.T, replayForm string) *cacheWatcher {
	t.Helper()
	w := &cacheWatcher{t: t, peer: start(t, requirements, "kvevents_peer.py")}
	var at struct{ Events, Replay string }
	w.peer.ask(map[string]any{"op": "bind", "replay_form": replayForm}, &at)
	now := func() int64 { return time.Now().UnixNano() }
	in := intake.New(intake.Config{Now: now})
	f, err := kvevents.New(kvevents.Config{Name: "e", Events: at.Events, Replay: at.Replay, Now: now}, in)
	must(t, err)
	w.Follower = f
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = f.Run(ctx) })
	wg.Go(func() {
		for ctx.Err() == nil {
			in.Take(func(fact *lifecycle.Fact) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.facts = append(w.facts, fact)
			})
			time.Sleep(time.Millisecond)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	// What is published before the subscription has come is lost: publish until one is
	// heard.
	w.await("the first batch", func(s *kvevents.Stats) bool {
		w.send(map[string]any{"form": "sglang", "hashes": []int{1 << 40}, "salt": nil})
		return s.Batches > 0
	})
	w.rest()
	return w
}

func (w *cacheWatcher) send(what map[string]any) {
	w.t.Helper()
	request := map[string]any{"op": "send", "parent": nil, "seq": w.seq}
	for k, v := range what {
		request[k] = v
	}
	w.seq = request["seq"].(int) + 1
	w.peer.ask(request, nil)
}

func (w *cacheWatcher) await(what string, done func(*kvevents.Stats) bool) {
	w.t.Helper()
	var s kvevents.Stats
	for end := time.Now().Add(answerLimit); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if s = w.Stats(); done(&s) {
			return
		}
	}
	w.t.Fatalf("%s did not come about: %+v", what, s)
}

// rest waits until what was sent has come.
func (w *cacheWatcher) rest() {
	w.t.Helper()
	last := w.Stats().Batches
	time.Sleep(50 * time.Millisecond)
	w.await("rest", func(s *kvevents.Stats) bool {
		same := s.Batches == last
		last = s.Batches
		return same
	})
}

func TestKVEventsMadeByMsgspecAndPyzmqAreDecodedInAllForms(t *testing.T) {
	w := watchCache(t, "sglang")
	before := w.Stats()
	hash := 100
	for _, form := range []string{"sglang", "sglang-map", "sglang-old", "vllm", "vllm-integers", "vllm-old"} {
		w.send(map[string]any{"form": form, "hashes": []int{hash, hash + 1}, "salt": "alpha"})
		w.send(map[string]any{"form": form, "hashes": []int{hash, hash + 1}, "salt": "beta"})
		hash += 10
	}
	w.await("twelve batches", func(s *kvevents.Stats) bool { return s.Batches == before.Batches+12 })
	s := w.Stats()
	// The old form of SGLang says no salt; in the others both blocks cross.
	if s.Bad != 0 || s.BadBatch != 0 || s.Events[kvevents.Stored] != before.Events[kvevents.Stored]+12 || s.Crossings != 5*2 {
		t.Errorf("%+v", s)
	}
	w.await("five facts of sharing", func(*kvevents.Stats) bool { return w.count(lifecycle.PagesShared) == 5 })
}

func (w *cacheWatcher) count(ev lifecycle.Ev) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.facts {
		if f.Ev == ev {
			n++
		}
	}
	return n
}

func TestMissedKVEventsAreReplayedAndARestartForgets(t *testing.T) {
	for _, form := range []string{"sglang", "vllm"} {
		w := watchCache(t, form)
		w.send(map[string]any{"form": form, "hashes": []int{7}, "salt": "alpha", "silent": true})
		w.send(map[string]any{"form": form, "hashes": []int{8}, "salt": "alpha", "silent": true})
		w.send(map[string]any{"form": form, "hashes": []int{7}, "salt": "beta"})
		w.await("the replayed block is crossed", func(s *kvevents.Stats) bool { return s.Crossings == 1 })
		if s := w.Stats(); s.Gaps != 1 || s.Replays != 1 || s.Missed != 0 || s.Salted != 3 {
			t.Errorf("%s: %+v", form, s)
		}
		w.send(map[string]any{"form": form, "hashes": []int{9}, "salt": "alpha", "silent": true, "forget": true})
		w.send(map[string]any{"form": form, "hashes": []int{8}, "salt": "beta"})
		w.await("what is gone is counted", func(s *kvevents.Stats) bool { return s.Missed == 1 })
		w.send(map[string]any{"form": form, "hashes": []int{20}, "salt": "alpha"})
		w.send(map[string]any{"form": form, "hashes": []int{20}, "salt": "beta", "seq": 0, "restart": true})
		w.await("the restart", func(s *kvevents.Stats) bool { return s.Restarts == 1 })
		w.send(map[string]any{"form": form, "hashes": []int{21}, "salt": "beta"})
		w.rest()
		if s := w.Stats(); s.Crossings != 1 {
			t.Errorf("%s: what was known before a gap or a restart still counts: %+v", form, s)
		}
	}
}
