//go:build linux && amd64

package cuda_test

import (
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/kvwitness/kvwitness/bpf/cuda"
	"github.com/kvwitness/kvwitness/bpf/load"
)

// BenchmarkCopies has one thread of the stand-in copy nothing, under the probe where copies
// are asked for, where they are not, and of a process that is not watched. Metrics: see
// BenchmarkCalls; records/op are those that the ring took, which nobody drains meanwhile.
func BenchmarkCopies(b *testing.B) {
	stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	must(b, err)
	defer stats.Close()
	for _, asked := range []string{"not asked for", "not watched", "watched"} {
		b.Run(asked, func(b *testing.B) {
			w := watching(b, cuda.Options{Options: load.Options{RingBytes: 256 << 20}, Copies: asked != "not asked for"})
			p := w.watched()
			if asked == "not watched" {
				must(b, w.Targets().Delete(p.id()))
			}
			b.ResetTimer()
			p.do("copies %d", b.N)
			b.StopTimer()
			_, in, err := w.Cost()
			must(b, err)
			n, err := w.Counters()
			must(b, err)
			b.ReportMetric(float64(in.Nanoseconds())/float64(b.N), "bpf-ns/op")
			b.ReportMetric(float64(n[cuda.RecordsSent])/float64(b.N), "records/op")
		})
	}
}

// BenchmarkCalls has one thread of the stand-in allocate and free at random, under the
// probe and without. Metrics: bpf-ns/op is the run time of the two programs for a call,
// by the kernel's BPF statistics, where the uprobe itself (a trap into the kernel, twice)
// is not in it; it is in ns/op, that of a driver that does nothing.
func BenchmarkCalls(b *testing.B) {
	stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	must(b, err)
	defer stats.Close()
	for _, watched := range []bool{false, true} {
		b.Run(map[bool]string{false: "not watched", true: "watched"}[watched], func(b *testing.B) {
			w := watching(b, cuda.Options{Options: whole})
			p := w.watched()
			if !watched {
				must(b, w.Targets().Delete(p.id()))
			}
			b.ResetTimer()
			p.do("random %d 1 1", b.N)
			b.StopTimer()
			_, in, err := w.Cost()
			must(b, err)
			b.ReportMetric(float64(in.Nanoseconds())/float64(b.N), "bpf-ns/op")
		})
	}
}
