package daemon

import (
	"testing"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// Promise: a region reaches as far as its instance says in its own stream, on this node,
// while the pool is open; what others say of it counts for nothing.
func TestARegionReachesAsFarAsItsInstanceSays(t *testing.T) {
	e := newExtents("here")
	says := func(src lifecycle.Src, node string, ev lifecycle.Ev, epoch uint64, pool string, base uint64) {
		e.note(&lifecycle.Fact{
			Src: src, Node: node, Inst: "a", Ev: ev, Epoch: lifecycle.Some(epoch), Pool: pool,
			Spec: &lifecycle.PoolSpec{Pages: 3, Regions: []lifecycle.Region{{Base: base, Stride: 100, Bytes: 90}}},
		})
	}
	expect := func(what string, base, want uint64) {
		t.Helper()
		if bytes, known := e.of("a", base); bytes != want || known != (want > 0) {
			t.Errorf("%s: %d bytes, known %v; want %d", what, bytes, known, want)
		}
	}
	says(lifecycle.Wire, "here", lifecycle.PoolOpened, 1, "kv", 1000)
	says(lifecycle.Engine, "there", lifecycle.PoolOpened, 1, "kv", 1000)
	expect("of others", 1000, 0)
	says(lifecycle.Engine, "here", lifecycle.PoolOpened, 1, "kv", 1000)
	says(lifecycle.Engine, "here", lifecycle.PoolOpened, 1, "index", 5000)
	expect("its own", 1000, 290)
	expect("another pool", 5000, 290)
	expect("elsewhere", 1001, 0)
	says(lifecycle.Engine, "here", lifecycle.PoolClosed, 1, "index", 5000)
	expect("closed", 5000, 0)
	says(lifecycle.Engine, "here", lifecycle.PoolOpened, 2, "kv", 2000)
	expect("of before its restart", 1000, 0)
	expect("of now", 2000, 290)
	for n := range 2 * maxOpenings {
		e.note(&lifecycle.Fact{Src: lifecycle.Engine, Inst: string(rune(n + 256)), Ev: lifecycle.PoolOpened, Pool: "kv", Spec: &lifecycle.PoolSpec{Pages: 1}})
	}
	if len(e.all) > maxOpenings {
		t.Errorf("%d instances", len(e.all))
	}
}
