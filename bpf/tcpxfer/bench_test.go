//go:build amd64

package tcpxfer

import (
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/kvwitness/kvwitness/bpf/load"
)

// BenchmarkProbe measures what the program itself costs, by the kernel's own
// statistics: bpf-ns/op is its run time for each system call of the benchmark.
// The program runs for the calls of all processes: where runs/op is more than the
// calls of the benchmark, the rest is others', at what the first line says.
func BenchmarkProbe(b *testing.B) {
	stats, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
	if err != nil {
		b.Fatal(err)
	}
	defer stats.Close()
	b.Run("call of a process that is not watched", func(b *testing.B) {
		measure(b, false, func(n int) {
			for range n {
				syscall.Getppid()
			}
		})
	})
	b.Run("call of a watched process that moves nothing", func(b *testing.B) {
		measure(b, true, func(n int) {
			for range n {
				syscall.Getppid()
			}
		})
	})
	b.Run("read of a file by a watched process", func(b *testing.B) {
		f, err := os.Open("/dev/zero")
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		buf := make([]byte, 16)
		measure(b, true, func(n int) {
			for range n {
				_, _ = syscall.Read(int(f.Fd()), buf)
			}
		})
	})
	for name, size := range map[string]uint64{"header and 1 KiB": 1 << 10, "header and 64 KiB": 64 << 10} {
		b.Run("two reads, "+name, func(b *testing.B) {
			client, server := pair(b)
			msg, head, body := piece(size, 1<<20), make([]byte, 24), make([]byte, size)
			measure(b, true, func(n int) {
				for range n {
					_, _ = client.Write(msg)
					_, _ = io.ReadFull(server, head)
					_, _ = io.ReadFull(server, body)
				}
			})
		})
	}
}

func measure(b *testing.B, target bool, work func(n int)) {
	b.Helper()
	p, err := Open(load.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	if target {
		if err := p.Targets().Put(uint32(os.Getpid()), uint64(1)); err != nil {
			b.Fatal(err)
		}
	}
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
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	work(b.N)
	b.StopTimer()
	ran, after, err := p.Cost()
	if err != nil {
		b.Fatal(err)
	}
	close(stop)
	<-done
	b.ReportMetric(float64(after-before)/float64(b.N), "bpf-ns/op")
	b.ReportMetric(float64(ran-runs)/float64(b.N), "runs/op")
}
