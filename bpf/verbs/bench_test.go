//go:build linux && amd64

package verbs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/kvwitness/kvwitness/bpf/verbs"
	"github.com/kvwitness/kvwitness/test/commanded"
)

// BenchmarkPosting posts through the stub provider, under the probe and without.
// Metrics: ns/request is the programs' own run time by the kernel's BPF
// statistics; posts/s is what the process got through, of which the uprobe
// itself (a trap into the kernel) is most in a virtual machine; records/post is
// what is handed to user space. contiguous: each chain merges into one extent;
// scattered: none of it does.
func BenchmarkPosting(b *testing.B) {
	dir := build(b)
	for _, chain := range []int{1, 16, 256} {
		for _, c := range []struct {
			name       string
			gap, apart int
		}{{"contiguous", 0, 0}, {"scattered", 4096, 0}, {"apart", 4096, 39}} {
			b.Run(fmt.Sprintf("chain=%d/%s/watched", chain, c.name), func(b *testing.B) {
				w := load(b, verbs.Options{})
				p := connected(b, dir, w)
				p.Do(b, "apart %d", c.apart)
				benchmark(b, p, w, chain, c.gap)
			})
		}
		b.Run(fmt.Sprintf("chain=%d/unwatched", chain), func(b *testing.B) {
			p := start(b, dir)
			p.Do(b, "open")
			p.Do(b, "qp 17 99")
			benchmark(b, p, nil, chain, 0)
		})
	}
}

func benchmark(b *testing.B, p *commanded.Process, w *watcher, chain, gap int) {
	stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		b.Fatal(err)
	}
	defer stats.Close()
	stop, drained := make(chan struct{}), make(chan int)
	go drain(b, w, stop, drained)
	b.ResetTimer()
	p.Do(b, "flood %d %d %d", b.N, chain, gap)
	b.StopTimer()
	close(stop)
	records := <-drained
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "posts/s")
	b.ReportMetric(float64(b.N*chain)/b.Elapsed().Seconds(), "requests/s")
	if w == nil {
		return
	}
	n := w.counters(b)
	_, run, err := w.PostingCost()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(run.Nanoseconds())/float64(n[verbs.Requests]), "ns/request")
	b.ReportMetric(float64(records)/float64(n[verbs.Calls]), "records/post")
	b.ReportMetric(float64(n[verbs.RecordsLost]+n[verbs.LostBusy])/float64(n[verbs.Calls]), "lost/post")
}

// drain reads records until it is told to stop and none comes.
func drain(b *testing.B, w *watcher, stop chan struct{}, done chan int) {
	n := 0
	defer func() { done <- n }()
	if w == nil {
		<-stop
		return
	}
	for stopped := false; ; time.Sleep(2 * time.Millisecond) {
		before := n
		if err := w.Drain(func([]byte) { n++ }); err != nil {
			b.Error(err)
			return
		}
		if stopped && n == before {
			return
		}
		select {
		case <-stop:
			stopped = true
		default:
		}
	}
}
