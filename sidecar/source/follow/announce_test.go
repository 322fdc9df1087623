package follow

import (
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/ledger"
	"github.com/kvwitness/kvwitness/test/attach"
)

// An engine without a stream: its pools reach the judge, once, and again when it
// comes back with others.
func TestPoolsOfAnEngineWithoutAStreamReachTheJudge(t *testing.T) {
	small := attach.SGLang("prefill", 681280, 1048576, 64)
	small.ServerInfo["enable_kv_canary"] = false
	var mu sync.Mutex
	now := small
	web := httptest.NewServer(handler(func() *attach.Answers { mu.Lock(); defer mu.Unlock(); return now }))
	t.Cleanup(web.Close)
	var streamless sync.Once
	told := make(chan bool)
	f := follow(t, Config{Name: "prefill-0", URL: web.URL, Node: "n", Pages: 1 << 20, Streamless: func() { streamless.Do(func() { close(told) }) }})
	<-told
	waitFor(t, "two facts", func() bool { return f.heard.Load() == 2 })
	first := f.all()
	if p := first[0]; p.Ev != lifecycle.PoolOpened || p.Inst != "prefill-0" || p.Src != lifecycle.HTTP || p.Spec.Pages != 10645 || p.Spec.ContextTokens.V != 1048576 || p.Spec.Since != lifecycle.SinceAttach {
		t.Errorf("%+v %+v", p, p.Spec)
	}
	if p := first[1]; p.Ev != lifecycle.Protection || p.Protection != "canary" || p.State != lifecycle.StateOff {
		t.Errorf("%+v", p)
	}
	mu.Lock()
	now = attach.SGLang("prefill", 2040000, 1048576, 64)
	mu.Unlock()
	waitFor(t, "the larger pool", func() bool { return f.heard.Load() == 3 })
	all := f.all()
	if all[2].Epoch == all[0].Epoch {
		t.Error("a restart has the epoch of before")
	}
	var found []finding.Finding
	l := ledger.New(ledger.DefaultConfig())
	for _, fact := range all {
		found = append(found, l.Step(fact)...)
	}
	found = append(found, l.Advance(all[2].T+1e12)...)
	if kinds := slices.IndexFunc(found, func(f finding.Finding) bool { return f.Kind != finding.CapacityInversion }); len(found) != 1 || kinds >= 0 {
		t.Errorf("found %+v", found)
	}
	f.accounted(t)
}

func TestAPoolBeyondTheBoundsOfOneEngineIsCountedAndNotTold(t *testing.T) {
	web := httptest.NewServer(attach.SGLang("null", 640000, 1000, 64))
	t.Cleanup(web.Close)
	f := follow(t, Config{Name: "a", URL: web.URL, Pages: 9999})
	waitFor(t, "the loss", func() bool { return f.Status().Lost[TooManyPages] == 1 })
	f.accounted(t)
	if f.heard.Load() != 0 {
		t.Error("it was told")
	}
}
