package witness

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// BenchmarkSidecarUnderVerbs is a sidecar and its probe while a process posts chains
// of 256 RDMA requests into the pages of handoffs, a million requests a second or as
// many as the machine lets it. Metrics: what a request costs each of the two in
// processor time (at a million a second one ns/request is a thousandth of a core),
// the memory that each keeps for itself, and requests/s. contiguous: a chain merges into an extent for each region;
// scattered: into none, and what lies between them is missing.
func BenchmarkSidecarUnderVerbs(b *testing.B) {
	for _, c := range []struct {
		name string
		gap  uint64
		want finding.Outcome
	}{{"contiguous", 0, finding.Clean}, {"scattered", 16, finding.Violated}} {
		b.Run(c.name, func(b *testing.B) {
			s := startWhole(b, verbsPeers)
			p := newVerbsPair(b, 0)
			p.open()
			p.register()
			s.proved(p)
			const chain, posts = 256, 256
			var moves [][3]uint64
			each := uint64(len(eight)) * pageBytes * regions / chain
			for _, m := range p.whole(eight[0]) {
				for i := range uint64(chain / regions) {
					moves = append(moves, [3]uint64{m[0] + i*each, m[1] + i*each, each - c.gap})
				}
			}
			sidecar, probe := s.pid, child(b, s.pid, "kvwitness-probe")
			before := [2]time.Duration{spent(b, sidecar), spent(b, probe)}
			requests, room := 0, ""
			for b.Loop() {
				room = p.handoff(eight, func() { p.prefill.do("flood", map[string]any{"pair": "first", "times": posts, "moves": moves}) })
				requests += posts * len(moves)
				time.Sleep(time.Duration(requests)*time.Microsecond - b.Elapsed())
			}
			if got := s.verdict(room); got != c.want {
				b.Errorf("the last handoff is %s, want %s: not all was seen", got, c.want)
			}
			b.ReportMetric(float64(requests)/b.Elapsed().Seconds(), "requests/s")
			for i, pid := range []int{sidecar, probe} {
				name := []string{"sidecar", "probe"}[i]
				b.ReportMetric(float64(spent(b, pid)-before[i])/float64(requests), name+"-ns/request")
				b.ReportMetric(float64(own(b, pid))/(1<<20), name+"-MiB")
			}
			b.ReportMetric(0, "ns/op") // a handoff of 65,536 requests says nothing
		})
	}
}

// BenchmarkTimeToFinding is a handoff of which one page of eight is written, as nobody
// but the witness tells. Metrics, in ms: from before prefill is told to say that it is
// done, which is what breaks the rule, until the line of the first finding is read here;
// the half of the handoffs, and 99 of 100. Use -benchtime 200x.
func BenchmarkTimeToFinding(b *testing.B) {
	s := startWhole(b, verbsPeers)
	p := newVerbsPair(b, 0)
	p.open()
	p.register()
	s.proved(p)
	var took []float64
	for b.Loop() {
		room := p.begin(eight, p.post("first", p.whole(eight[0])))
		begun := time.Now()
		p.complete()
		if got := s.verdict(room); got != finding.Violated {
			b.Fatalf("room %s is %s", room, got)
		}
		s.mu.Lock()
		took = append(took, float64(s.first[room].Sub(begun).Microseconds())/1e3)
		s.mu.Unlock()
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2], "p50-ms")
	b.ReportMetric(took[(len(took)-1)*99/100], "p99-ms")
	b.ReportMetric(0, "ns/op")
}

// child is the process of that name whose parent is pid.
func child(t testing.TB, pid int, name string) int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/status")
	must(t, err)
	for _, file := range all {
		text, _ := os.ReadFile(file) // it may have ended
		if strings.HasPrefix(string(text), "Name:\t"+name+"\n") && strings.Contains(string(text), fmt.Sprintf("\nPPid:\t%d\n", pid)) {
			n, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			must(t, err)
			return n
		}
	}
	t.Fatalf("process %d has no child %s", pid, name)
	return 0
}

// spent is the processor time of a process, in ticks of 10 ms.
func spent(t testing.TB, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must(t, err)
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	sum := 0
	for _, f := range fields[11:13] { // utime, stime
		n, err := strconv.Atoi(f)
		must(t, err)
		sum += n
	}
	return time.Duration(sum) * 10 * time.Millisecond
}

// own is the memory of a process that is no file's, in bytes.
func own(t testing.TB, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			must(t, err)
			return kib << 10
		}
	}
	t.Fatal("the kernel says nothing of its memory")
	return 0
}
