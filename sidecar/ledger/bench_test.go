package ledger_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/ledger"
)

// Benchmarks of the ledger alone: facts are made beforehand and used again, a
// round later each time, so that what is measured is Step and all that becomes
// due in it. Metrics: pages/s counts page transitions (a page reserved,
// written, read or released), extents/s observed writes of 64 KiB.

// requestFacts is the life of one request over a run of pages: four page
// transitions a page.
func requestFacts(t int64, req string, first, count uint32) []*lifecycle.Fact {
	runs := lifecycle.Runs{{First: first, Count: count}}
	fact := func(ev lifecycle.Ev) *lifecycle.Fact {
		t += 1000
		return &lifecycle.Fact{T: t, Node: "n", Inst: "engine-0", Src: lifecycle.Engine, Ev: ev, Req: req}
	}
	paged := func(ev lifecycle.Ev) *lifecycle.Fact {
		f := fact(ev)
		f.Pool, f.Pages = "kv", runs
		return f
	}
	facts := []*lifecycle.Fact{
		fact(lifecycle.RequestAdmitted), paged(lifecycle.PagesReserved), paged(lifecycle.PagesWritten),
		paged(lifecycle.PagesRead), paged(lifecycle.PagesReleased), fact(lifecycle.RequestFinished),
	}
	facts[2].By = lifecycle.ByForward
	return facts
}

func openPool(inst string, pages uint32, regions []lifecycle.Region) *lifecycle.Fact {
	return &lifecycle.Fact{
		T: 1, Node: "n", Inst: inst, Src: lifecycle.Engine, Ev: lifecycle.PoolOpened, Pool: "kv",
		Spec: &lifecycle.PoolSpec{Pages: pages, PageTokens: 64, Regions: regions},
	}
}

// BenchmarkPages cycles requests through pools of several sizes: 512 pages a
// request (8,192 tokens at 16 a page), and 64, where what a request costs
// whatever its length weighs more. Each round takes other pages, so that the
// large pools do not stay in the caches.
func BenchmarkPages(b *testing.B) {
	for _, of := range []struct{ pages, run uint32 }{
		{1_000, 512},
		{17_000, 512},
		{100_000, 512},
		{1_000_000, 512},
		{10_000_000, 512},
		{17_000, 64},
	} {
		pages, run := of.pages, of.run
		b.Run(fmt.Sprintf("pool=%d/run=%d", pages, run), func(b *testing.B) {
			l := ledger.New(ledger.Config{})
			l.Step(openPool("engine-0", pages, nil))
			slots := pages / run
			var facts []*lifecycle.Fact
			t, slot := int64(0), uint32(0)
			const requests = 2048
			for i := range requests {
				t += 10_000
				slot = (slot + 104729) % slots // a prime stride visits every slot
				facts = append(facts, requestFacts(t, fmt.Sprint("r", i), slot*run, run)...)
			}
			round := t + 100_000_000
			b.ResetTimer()
			n := 0
			for b.Loop() {
				for i, f := range facts {
					f.T += round
					if i%6 == 1 { // the facts of a request share one list
						f.Pages[0].First = (f.Pages[0].First + requests*run) % (slots * run)
					}
					if out := l.Step(f); len(out) > 0 {
						b.Fatalf("valid traffic was accused: %+v", out[0])
					}
				}
				l.Verdicts()
				n++
			}
			b.ReportMetric(float64(n)*requests*float64(run)*4/b.Elapsed().Seconds(), "pages/s")
			b.ReportMetric(b.Elapsed().Seconds()*1e9/(float64(n)*requests*float64(run)*4), "ns/page")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkExtents moves requests of 64 pages in 16 regions as writes of 64 KiB,
// with complete coverage and a judgement for each handoff.
func BenchmarkExtents(b *testing.B) {
	const pages, perRequest, layers, pageBytes = 17_000, 64, 16, 64 << 10
	var regions []lifecycle.Region
	for i := range layers {
		regions = append(regions, lifecycle.Region{
			Base: uint64(i+1) << 40, Stride: pageBytes, Bytes: pageBytes, Layer: int64(i), Part: "kv",
		})
	}
	l := ledger.New(ledger.Config{})
	l.Step(openPool("decode-0", pages, regions))
	l.Step(openPool("prefill-0", pages, nil))
	l.Step(&lifecycle.Fact{T: 2, Node: "n", Inst: "decode-0", Src: lifecycle.Sidecar, Ev: lifecycle.SourceCoverage, Of: lifecycle.RDMA, Complete: true})
	var facts []*lifecycle.Fact
	extents := 0
	t := int64(0)
	const requests = 64
	for i := range requests {
		t += 400_000
		first := uint32(i*perRequest*7) % (pages - perRequest)
		facts = append(facts, handoffFacts(t, i, first, perRequest, regions)...)
		extents += perRequest * layers
	}
	round := t + 100_000_000
	b.ResetTimer()
	n := 0
	for b.Loop() {
		for _, f := range facts {
			f.T += round
			if out := l.Step(f); len(out) > 0 {
				b.Fatalf("valid traffic was accused: %+v", out[0])
			}
		}
		l.Verdicts()
		n++
	}
	b.StopTimer()
	l.Close()
	clean := l.Stats().Verdicts[1]
	if want := uint64(n * requests); clean < want-requests {
		b.Fatalf("%d of %d handoffs are clean", clean, want)
	}
	b.ReportMetric(float64(n*extents)/b.Elapsed().Seconds(), "extents/s")
	b.ReportMetric(0, "ns/op")
}

// handoffFacts is one handoff seen from both sides and from outside.
func handoffFacts(t int64, i int, first, count uint32, regions []lifecycle.Region) []*lifecycle.Fact {
	req, room := fmt.Sprint("r", i), fmt.Sprint(i)
	runs := lifecycle.Runs{{First: first, Count: count}}
	fact := func(inst string, ev lifecycle.Ev) *lifecycle.Fact {
		t += 100
		return &lifecycle.Fact{T: t, Node: "n", Inst: inst, Src: lifecycle.Engine, Ev: ev, Req: req, Room: room, Pool: "kv", Pages: runs, Xfer: "x", Peer: "prefill-0"}
	}
	admitted := fact("decode-0", lifecycle.RequestAdmitted)
	admitted.PromptTokens = lifecycle.Some(int64(count) * 64)
	reserved := fact("decode-0", lifecycle.PagesReserved)
	started := fact("decode-0", lifecycle.TransferStarted)
	started.Side = lifecycle.Receiver
	facts := []*lifecycle.Fact{admitted, reserved, started}
	for page := first; page < first+count; page++ {
		for _, r := range regions {
			t += 100
			facts = append(facts, &lifecycle.Fact{
				T: t, Node: "n", Inst: "decode-0", Src: lifecycle.RDMA, Ev: lifecycle.BytesMoved,
				Addr: r.Base + uint64(page)*r.Stride, Bytes: r.Bytes, From: "prefill-0", Op: lifecycle.Write, Outcome: lifecycle.OK,
			})
		}
	}
	completed := fact("decode-0", lifecycle.TransferCompleted)
	completed.Outcome, completed.Last, completed.Pages = lifecycle.OK, true, nil
	read := fact("decode-0", lifecycle.PagesRead)
	released := fact("decode-0", lifecycle.PagesReleased)
	finished := fact("decode-0", lifecycle.RequestFinished)
	return append(facts, completed, read, released, finished)
}

// BenchmarkAtRest measures what a page costs when nothing goes on.
func BenchmarkAtRest(b *testing.B) {
	const pages = 10_000_000
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		l := ledger.New(ledger.Config{})
		l.Step(openPool("engine-0", pages, nil))
		l.Advance(1 << 30)
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/pages, "B/page")
		if l.Sizes().Pages != pages {
			b.Fatal("the pool was not opened")
		}
	}
	b.ReportMetric(0, "ns/op")
}
