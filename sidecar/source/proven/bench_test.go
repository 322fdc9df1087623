package proven

import (
	"testing"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/probe"
	"github.com/kvwitness/kvwitness/sidecar/source/tcpxfer"
)

// BenchmarkTransfers is one WRITE that arrived, from the probe's frame to the
// fact, with a mark for each hundred.
func BenchmarkTransfers(b *testing.B) {
	w := proved(b)
	w.State.cfg.Emit = func(*lifecycle.Fact) {}
	r := tcpxfer.Record{Kind: tcpxfer.Moved, Inode: 1, Address: base, Bytes: stride, TGID: decodeProcess, Ends: transfers}
	frame := transferRecord(&r)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		t := uint64(w.tick())
		for n := range 8 {
			frame[n] = byte(t >> (8 * n))
		}
		must(b, w.Take(probe.Transfer, frame))
		if i%100 == 0 {
			w.mark()
		}
	}
	b.StopTimer()
	w.mark()
	if w.Stats().Transfers != uint64(b.N)+1 {
		b.Fatalf("%+v", w.Stats())
	}
}

// BenchmarkPosts is one record of 64 scattered RDMA requests, as a chain of them
// is handed on, from the probe's frame to the facts, with a mark for each hundred.
// ns/request: of this side alone; posts of a merged chain cost one of it.
func BenchmarkPosts(b *testing.B) {
	const chain = 64
	w := joinedByVerbs(b, false)
	facts := 0
	w.State.cfg.Emit = func(*lifecycle.Fact) { facts++ }
	var all []extent
	for n := range uint64(chain) {
		e := page(n%pages, writes)
		e.Bytes--
		all = append(all, e)
	}
	w.post(prefillProcess, prefillContext, prefillQP, 17, 0, all...)
	frame := w.held[len(w.held)-1].b
	w.mark()
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		t := uint64(w.tick())
		for n := range 8 {
			frame[n] = byte(t >> (8 * n))
		}
		must(b, w.Take(probe.Verbs, frame))
		if i%100 == 0 {
			w.mark()
		}
	}
	b.StopTimer()
	w.mark()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*chain), "ns/request")
	if facts < b.N*chain {
		b.Fatalf("%d facts of %d requests", facts, b.N*chain)
	}
}
