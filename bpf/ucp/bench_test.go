//go:build linux && amd64

package ucp_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/kvwitness/kvwitness/bpf/ucp"
)

// BenchmarkPutting puts 64 bytes into shared memory, as fast as one thread can, under
// the probe and without. Metrics: puts/s is what the process got through, of which the
// traps into the kernel are most in a virtual machine; ns/put is the programs' own run
// time by the kernel's BPF statistics; lost/put is what the ring had no room for.
func BenchmarkPutting(b *testing.B) {
	for _, watched := range []bool{true, false} {
		name := map[bool]string{true: "watched", false: "unattached"}[watched]
		b.Run(name, func(b *testing.B) {
			if !watched {
				p := &pair{owner: start(b), mover: start(b)}
				p.open(b)
				p.connect(b)
				flood(b, p)
				return
			}
			w := load(b, ucp.Options{})
			p := connected(b, w)
			stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
			if err != nil {
				b.Fatal(err)
			}
			defer stats.Close()
			ended := w.draining(b)
			flood(b, p)
			ended()
			puts, in, err := w.PuttingCost()
			if err != nil || puts != uint64(b.N) {
				b.Fatalf("%d puts are seen of %d: %v", puts, b.N, err)
			}
			n, err := w.Counters()
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(in.Nanoseconds())/float64(puts), "ns/put")
			b.ReportMetric(float64(n[ucp.RecordsLost])/float64(puts), "lost/put")
		})
	}
}

func flood(b *testing.B, p *pair) {
	b.Helper()
	b.ResetTimer()
	said := p.mover.Do(b, "flood %d 64 %d", p.remote, b.N)
	b.StopTimer()
	if !strings.HasSuffix(said, "0") {
		b.Fatalf("the mover said %q", said)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "puts/s")
}

// draining reads records until it is ended.
func (w watcher) draining(b *testing.B) (end func()) {
	var over atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ; !over.Load(); time.Sleep(2 * time.Millisecond) {
			if err := w.Drain(func([]byte) {}); err != nil {
				b.Error(err)
				return
			}
		}
	}()
	return func() { over.Store(true); <-done }
}
