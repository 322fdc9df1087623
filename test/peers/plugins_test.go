package peers

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/subscribe"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/ledger"
)

// heard are the facts of instances, in the order in which they came.
type heard struct {
	t     *testing.T
	mu    sync.Mutex
	facts []*lifecycle.Fact
}

// plugged starts an engine with a plugin, and follows it as a sidecar does.
func (h *heard) plugged(load map[string]any) (*program, *subscribe.Subscriber) {
	h.t.Helper()
	plugins, err := filepath.Abs("../../deploy/plugins")
	must(h.t, err)
	p := start(h.t, requirements, "plugins_peer.py", "PLUGINS="+plugins, "PYTHONDONTWRITEBYTECODE=1")
	p.ask(load, nil)
	sub, err := subscribe.New(subscribe.Config{Instance: load["instance"].(string), Node: "n", Dir: load["dir"].(string)})
	must(h.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = sub.Run(ctx, func(f *lifecycle.Fact) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.facts = append(h.facts, f)
		})
	}()
	h.t.Cleanup(func() { cancel(); <-done })
	return p, sub
}

// live waits until all is heard as it is said.
func (h *heard) live(sub *subscribe.Subscriber) {
	h.t.Helper()
	for end := time.Now().Add(answerLimit); sub.Stats().State != subscribe.Live; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			h.t.Fatalf("not live: %+v", sub.Stats())
		}
	}
}

// said are the events of an instance, as their names, without watermarks.
func (h *heard) said(inst string) (all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.facts {
		if f.Inst == inst && f.Ev != lifecycle.Watermark {
			all = append(all, f.Ev.String())
		}
	}
	return all
}

func (h *heard) await(inst string, want ...string) {
	h.t.Helper()
	for end := time.Now().Add(answerLimit); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if slices.Equal(h.said(inst), want) {
			return
		}
	}
	h.t.Fatalf("%s said %v, want %v", inst, h.said(inst), want)
}

// Promise: SGLang's plugin tells enough of the incident for its finding, over the wire
// that the sidecar listens to, and what it wraps is called in any case.
func TestSGLangsPluginTellsOfTheIncident(t *testing.T) {
	h := &heard{t: t}
	dir := t.TempDir()
	const peers = "10.0.0.1:8998=prefill-0,10.0.0.2=decode-0"
	prefill, psub := h.plugged(map[string]any{"op": "sglang", "instance": "prefill-0", "dir": dir, "peers": peers})
	decode, sub := h.plugged(map[string]any{"op": "sglang", "instance": "decode-0", "dir": dir, "peers": peers})
	h.live(psub)
	h.live(sub)
	play := func(p *program, what map[string]any) {
		t.Helper()
		var got struct{ Returned string }
		if p.ask(what, &got); got.Returned != "original" {
			t.Fatalf("what was wrapped returned %q", got.Returned)
		}
	}
	play(prefill, map[string]any{"op": "abort", "room": 77})
	h.await("prefill-0", "request_rejected")
	play(decode, map[string]any{"op": "receive", "room": 77, "pages": []int{4, 5, 6, 9}})
	play(decode, map[string]any{"op": "break"})
	h.await("decode-0", "pool_opened", "pages_reserved", "transfer_started")
	play(prefill, map[string]any{"op": "status", "room": 77, "status": 2})
	play(prefill, map[string]any{"op": "status", "room": 77, "status": 4})
	h.await("prefill-0", "request_rejected", "transfer_completed")
	play(decode, map[string]any{"op": "commit", "room": 77})
	h.await("decode-0", "pool_opened", "pages_reserved", "transfer_started", "transfer_completed")

	h.mu.Lock()
	defer h.mu.Unlock()
	l := ledger.New(ledger.DefaultConfig())
	var kinds []finding.Kind
	for _, f := range h.facts {
		if f.Ev == lifecycle.PoolOpened && (f.Spec.Pages != 50 || len(f.Spec.Regions) != 2 || f.Spec.Regions[1].Stride != 4096) {
			t.Errorf("%+v", f.Spec)
		}
		if f.Ev == lifecycle.PagesReserved && f.Pages.String() != "4-6, 9" {
			t.Errorf("%s", f.Pages)
		}
		if strings.Contains(string(f.AppendJSON(nil)), "business") {
			t.Error("a text of the engine's is in a fact")
		}
		for _, found := range l.Step(f) {
			kinds = append(kinds, found.Kind)
		}
	}
	for _, found := range l.Advance(h.facts[len(h.facts)-1].T + 10e9) {
		kinds = append(kinds, found.Kind)
	}
	if !slices.Contains(kinds, finding.RejectedHandoff) {
		t.Errorf("found %v", kinds)
	}
	if s := sub.Stats(); s.Gaps != 0 || s.State != subscribe.Live {
		t.Errorf("%+v", s)
	}
}

// Promise: who comes late learns of the pools, and what comes then.
func TestVLLMsPluginTellsOfBlocksAlsoToWhoComesLate(t *testing.T) {
	h := &heard{t: t}
	dir := t.TempDir()
	p, sub := h.plugged(map[string]any{"op": "vllm", "instance": "v", "dir": dir})
	h.live(sub)
	h.await("v", "pool_opened") // before any request
	p.ask(map[string]any{"op": "allocate", "req": "a", "blocks": []int{3, 4, 5}, "cached": []int{}}, nil)
	p.ask(map[string]any{"op": "allocate", "req": "b", "blocks": []int{7}, "cached": []int{3, 4}}, nil)
	p.ask(map[string]any{"op": "free", "req": "b"}, nil)
	h.await("v", "pool_opened", "request_admitted", "pages_reserved", "request_admitted", "pages_shared", "pages_reserved", "pages_released", "request_finished")

	late := &heard{t: t}
	sub, err := subscribe.New(subscribe.Config{Instance: "v", Node: "n", Dir: dir})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = sub.Run(ctx, func(f *lifecycle.Fact) {
			late.mu.Lock()
			defer late.mu.Unlock()
			late.facts = append(late.facts, f)
		})
	}()
	defer func() { cancel(); <-done }()
	late.await("v", "pool_opened", "request_admitted", "pages_reserved") // of what is held, in a snapshot
	p.ask(map[string]any{"op": "free", "req": "a"}, nil)
	late.await("v", "pool_opened", "request_admitted", "pages_reserved", "pages_released", "request_finished")

	// The prefix cache still holds what a had, and gives it to c: nothing is wrong with that.
	p.ask(map[string]any{"op": "allocate", "req": "c", "blocks": []int{8}, "cached": []int{3, 4}}, nil)
	late.await("v", "pool_opened", "request_admitted", "pages_reserved", "pages_released", "request_finished", "request_admitted", "pages_shared", "pages_reserved")
	late.mu.Lock()
	defer late.mu.Unlock()
	l := ledger.New(ledger.DefaultConfig())
	for _, f := range late.facts {
		if f.Ev == lifecycle.PoolOpened && f.Spec.ContextTokens != lifecycle.Some(int64(1024)) {
			t.Errorf("%+v", f.Spec)
		}
		for _, found := range l.Step(f) {
			t.Errorf("found %s in what is in order", found.Kind)
		}
	}
	for _, found := range l.Advance(late.facts[len(late.facts)-1].T + 1e9) {
		t.Errorf("found %s in what is in order", found.Kind)
	}
}
