package ledger

import (
	"testing"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// Promise: each page is shown as what is known of it, with its holder.
func TestAPoolIsShownAsItIs(t *testing.T) {
	l := New(Config{})
	dec := lifecycle.NewJSONDecoder()
	for _, line := range []string{
		`{"t":1,"inst":"d","src":"engine","ev":"pool_opened","pool":"kv","pages":8,"page_tokens":16,"null_ids":[[0,1]]}`,
		`{"t":2,"inst":"d","src":"engine","ev":"request_admitted","req":"a","domain":"x"}`,
		`{"t":3,"inst":"d","src":"engine","ev":"pages_reserved","req":"a","pool":"kv","pages":[[1,5]]}`,
		`{"t":4,"inst":"d","src":"engine","ev":"pages_written","req":"a","pool":"kv","pages":[[1,2]],"by":"forward"}`,
		`{"t":5,"inst":"d","src":"engine","ev":"pages_cached","req":"a","pool":"kv","pages":[[1,1]]}`,
		`{"t":6,"inst":"d","src":"engine","ev":"pages_read","req":"a","pool":"kv","pages":[[3,1]]}`,
		`{"t":7,"inst":"d","src":"engine","ev":"pages_released","req":"a","pool":"kv","pages":[[1,1],[5,1]]}`,
	} {
		f, err := dec.Decode([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		l.Step(f)
	}
	l.Advance(1e9)
	if all := l.Pools(); len(all) != 1 || all[0].Pages != 8 || all[0].Inst != "d" || all[0].Pool != "kv" {
		t.Errorf("pools %+v", all)
	}
	into := make([]PageLook, 100)
	want := []PageState{PageNull, PageCached, PageClaimed, PageStale, PageReserved, PageFree, PageFree, PageFree}
	if n := l.Look("d", "kv", 0, into); n != len(want) {
		t.Fatalf("%d pages", n)
	}
	for i, s := range want {
		if into[i].State != s {
			t.Errorf("page %d is %s, want %s", i, into[i].State, s)
		}
	}
	if n := l.Look("d", "kv", 6, into[:1]); n != 1 || l.Look("d", "kv", 8, into) != 0 || l.Look("d", "swa", 0, into) != 0 {
		t.Error("pages that are not there are shown")
	}
	h, ok := l.Holder("d", "kv", 2)
	if !ok || h.Holder.Req != "a" || !h.Held || h.Refs != 1 || h.Content.Req != "a" || h.Holder.Domain != lifecycle.Some("x") {
		t.Errorf("%+v", h)
	}
	if h, _ := l.Holder("d", "kv", 1); h.Held || !h.Cached {
		t.Errorf("%+v", h)
	}
	if _, ok := l.Holder("d", "kv", 8); ok {
		t.Error("a page beyond the pool has a holder")
	}
}
