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
