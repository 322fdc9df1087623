//go:build cuda

package cuda

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"gorgonia.org/cu"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/kernels/reference"
)

// benchTokens is the context of each of benchSequences: together more than a GPU's
// cache holds.
var benchTokens = flag.Int("bench-tokens", 8192, "context of a sequence in benchmarks")

const benchSequences = 32

func benchRig(b *testing.B, pageTokens int) *rig {
	r := rand.New(rand.NewPCG(1, 2))
	s := newScript(r, 32, 8, 128, 1)
	return newRig(b, s, r, Config{Pages: benchSequences * *benchTokens / pageTokens, PageTokens: pageTokens, DType: reference.BFloat16})
}

// BenchmarkDecodeAttention is one layer of one step, of 32 query and 8 kv heads of 128,
// with tags checked and not: ns/op with its launch and wait, gpu-ns/op between two
// events of the GPU, before and after.
func BenchmarkDecodeAttention(b *testing.B) {
	for _, pageTokens := range []int{16, 64} {
		for _, unchecked := range []bool{false, true} {
			b.Run(fmt.Sprintf("page=%d/tags=%v", pageTokens, !unchecked), func(b *testing.B) {
				g := benchRig(b, pageTokens)
				pages := *benchTokens / pageTokens
				var batch []backend.Sequence
				for i := range benchSequences {
					batch = append(batch, backend.Sequence{Table: table(i*pages, pages), Unchecked: unchecked})
					for _, e := range batch[i].Table {
						g.memory.SetWritten(0, int(e.Page), e.Tag)
					}
					g.pass.Sequence[i], g.pass.Positions[i] = i, *benchTokens-1
				}
				for i := range g.memory.regions {
					clear(g.memory.regions[i].Bytes)
				}
				if err := g.device.enter(); err != nil {
					b.Fatal(err)
				}
				defer g.device.leave()
				g.upload(batch)
				g.pass.N = benchSequences
				b.SetBytes(int64(2 * benchSequences * pages * g.memory.layout.PageBytes()))
				onGPU := newStopwatch(b, g.device)
				for b.Loop() {
					if err := g.step.reset(); err != nil {
						b.Fatal(err)
					}
					onGPU.start()
					if err := g.attend(0, batch, nil); err != nil {
						b.Fatal(err)
					}
					onGPU.stop()
				}
				b.ReportMetric(onGPU.total.Seconds()*1e9/float64(b.N), "gpu-ns/op")
				if g.tables.fault[0].Claimed != 0 {
					b.Fatalf("a false alarm: %+v", g.tables.fault[0])
				}
			})
		}
	}
}

// stopwatch measures by events of the GPU.
type stopwatch struct {
	b          *testing.B
	device     *device
	begin, end cu.Event
	total      time.Duration
}

func newStopwatch(b *testing.B, d *device) *stopwatch {
	w := &stopwatch{b: b, device: d}
	var err error
	for _, e := range []*cu.Event{&w.begin, &w.end} {
		if *e, err = cu.MakeEvent(cu.DefaultEvent); err != nil {
			b.Fatal(failed("cuEventCreate", err))
		}
		b.Cleanup(func() {
			if err := d.enter(); err != nil {
				b.Error(err)
				return
			}
			defer d.leave()
			if err := cu.DestroyEvent(e); err != nil {
				b.Error(failed("cuEventDestroy", err))
			}
		})
	}
	return w
}

func (w *stopwatch) start() { w.must("cuEventRecord", w.begin.Record(w.device.stream)) }

func (w *stopwatch) stop() {
	w.must("cuEventRecord", w.end.Record(w.device.stream))
	w.must("cuEventSynchronize", w.end.Synchronize())
	ms, err := w.begin.Elapsed(w.end)
	w.must("cuEventElapsedTime", err)
	w.total += time.Duration(ms * 1e6)
}

func (w *stopwatch) must(call string, err error) {
	if err != nil {
		w.b.Fatal(failed(call, err))
	}
}

// BenchmarkDigest, BenchmarkScrub and BenchmarkCopy go over the same bytes.
func BenchmarkDigest(b *testing.B) {
	g := benchRig(b, 64)
	var pages []backend.DigestPage
	for p := range g.memory.pages {
		pages = append(pages, backend.DigestPage{Page: p, Tokens: 64})
	}
	g.over(b, func() error { _, err := g.Digest([2]uint64{1, 2}, pages, 0, 1); return err })
}

func BenchmarkScrub(b *testing.B) {
	g := benchRig(b, 64)
	pages := make([]int, g.memory.pages)
	for p := range pages {
		pages[p] = p
	}
	g.over(b, func() error { return g.Scrub(pages...) })
}

func BenchmarkCopy(b *testing.B) {
	g := benchRig(b, 64)
	if err := g.device.enter(); err != nil {
		b.Fatal(err)
	}
	defer g.device.leave()
	keys, values := cu.DevicePtr(g.memory.regions[0].Base), cu.DevicePtr(g.memory.regions[1].Base)
	g.over(b, func() error {
		if err := cu.MemcpyDtoDAsync(keys, values, int64(g.memory.regions[0].Length), g.device.stream); err != nil {
			return err
		}
		return g.device.wait()
	})
}

func (r *rig) over(b *testing.B, do func() error) {
	b.SetBytes(int64(2 * r.memory.pages * r.memory.layout.PageBytes()))
	for b.Loop() {
		if err := do(); err != nil {
			b.Fatal(err)
		}
	}
}
