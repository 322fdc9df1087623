//go:build amd64

package pdwire

import (
	"io"
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/kvwitness/kvwitness/bpf/load"
	wire "github.com/kvwitness/kvwitness/engine/pdwire"
	"github.com/kvwitness/kvwitness/engine/zmtp"
)

// BenchmarkProbe measures what the program itself costs, by the kernel's own
// statistics: bpf-ns/op is its run time for a message that is sent and received
// by a watched process, each with one call. Where runs/op is more than 2, the rest is
// other calls, of this process and of others.
func BenchmarkProbe(b *testing.B) {
	stats, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
	if err != nil {
		b.Fatal(err)
	}
	defer stats.Close()
	for name, m := range map[string][][]byte{
		"status":             (&wire.Status{Room: 4711, Status: wire.StatusSuccess}).Frames(),
		"request, 100 pages": (&wire.TransferRequest{Room: 4711, Session: "s", Pages: make([]int32, 100)}).Frames(),
		"request, 10k pages": (&wire.TransferRequest{Room: 4711, Session: "s", Pages: make([]int32, 10_000)}).Frames(),
		"40 KB that are cut": {[]byte("kv-events"), make([]byte, 8), make([]byte, 40_000)},
	} {
		b.Run(name, func(b *testing.B) {
			client, server := pair(b)
			msg := zmtp.AppendMessage(nil, m...)
			buf := make([]byte, len(msg))
			measure(b, func() {
				_, _ = client.Write(stream(nil))
				_, _ = io.ReadFull(server, make([]byte, len(stream(nil))))
			}, func(n int) {
				for range n {
					_, _ = client.Write(msg)
					_, _ = io.ReadFull(server, buf)
				}
			})
		})
	}
}

func measure(b *testing.B, first func(), work func(n int)) {
	b.Helper()
	p, err := Open(load.Options{})
	must(b, err)
	defer p.Close()
	must(b, p.Targets().Put(uint32(os.Getpid()), uint64(1)))
	first()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				_ = p.Drain(func([]byte) {})
			}
		}
	}()
	runs, before, err := p.Cost()
	must(b, err)
	b.ResetTimer()
	work(b.N)
	b.StopTimer()
	ran, after, err := p.Cost()
	must(b, err)
	close(stop)
	<-done
	b.ReportMetric(float64(after-before)/float64(b.N), "bpf-ns/op")
	b.ReportMetric(float64(ran-runs)/float64(b.N), "runs/op")
}
