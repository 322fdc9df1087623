package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/replay"
)

func sample() *finding.Finding {
	return &finding.Finding{
		Kind: finding.StaleRead, Severity: finding.Critical, T: 7, Node: "n", Inst: "i", Req: "r", Room: "1", Pool: "kv",
		Pages: finding.Pages{{First: 3, Count: 7}}, Claim: "c", Observation: "o",
		Exposed: []finding.Party{{Inst: "i", Req: "a", Domain: lifecycle.Some("d")}},
	}
}

func TestLinesAreThoseOfAReplay(t *testing.T) {
	var live, replayed bytes.Buffer
	l := New(&live)
	r := replay.NewLines(&replayed, io.Discard, true)
	v := &finding.Verdict{Verdict: finding.Violated, Req: "r", Inst: "i", Why: "stale_read"}
	l.Finding(sample(), 0, false)
	l.Verdict(v)
	l.Close(time.Minute)
	if err := errors.Join(r.Finding(sample()), r.Verdict(v), r.End(&replay.Summary{})); err != nil {
		t.Fatal(err)
	}
	if live.String() != replayed.String() {
		t.Errorf("live %q, replayed %q", live.String(), replayed.String())
	}
}

func TestOnlyTheLastAreKept(t *testing.T) {
	l := New(nil)
	defer l.Close(time.Minute)
	for range 3 * Kept {
		l.Finding(sample(), time.Millisecond, true)
		l.Verdict(&finding.Verdict{Inst: "i"})
	}
	all := l.Findings(0, 1<<20)
	if len(all) != Kept || all[0].ID != 2*Kept+1 || all[Kept-1].ID != 3*Kept || !all[0].Shadow || all[0].Delay != 0.001 {
		t.Errorf("%d from %d", len(all), all[0].ID)
	}
	if got := l.Findings(3*Kept-5, 2); len(got) != 2 || got[0].ID != 3*Kept-4 {
		t.Errorf("%+v", got)
	}
	if len(l.Verdicts(0, 1<<20)) != Kept {
		t.Error("verdicts are not kept")
	}
}

// A finding may name as many pages as a hostile engine likes.
// Promise: an instance that breaks rules without end pushes out its own findings,
// and not the one that another's incident was told by.
func TestWhoSaysMostMakesRoom(t *testing.T) {
	l := New(nil)
	defer l.Close(time.Minute)
	quiet, loud := sample(), sample()
	quiet.Inst, loud.Inst = "quiet", "loud"
	id := l.Finding(quiet, 0, false)
	for range 10 * Kept {
		l.Finding(loud, 0, false)
	}
	all := l.Findings(0, 1<<20)
	if len(all) != Kept || all[0].ID != id || all[1].ID != 9*Kept+3 || all[Kept-1].ID != 10*Kept+1 {
		t.Errorf("%d: %d, %d to %d", len(all), all[0].ID, all[1].ID, all[len(all)-1].ID)
	}
}

func TestWhatIsKeptOfAFindingIsBounded(t *testing.T) {
	l := New(nil)
	defer l.Close(time.Minute)
	f := sample()
	for i := range uint32(1 << 16) {
		f.Pages = append(f.Pages, lifecycle.Run{First: 2 * i, Count: 1})
		f.Exposed = append(f.Exposed, finding.Party{Inst: "i", Req: fmt.Sprint(i)})
	}
	l.Finding(f, 0, false)
	if e := l.Findings(0, 1)[0]; !e.Trimmed || len(e.Said) > 64*128 {
		t.Errorf("%d bytes", len(e.Said))
	}
}

// stuck is a reader that takes nothing.
type stuck struct{ free chan struct{} }

func (s *stuck) Write(p []byte) (int, error) {
	<-s.free
	return len(p), nil
}

func TestAReaderThatTakesNothingCostsOnlyLines(t *testing.T) {
	s := &stuck{make(chan struct{})}
	l := New(s)
	long := sample()
	for i := range uint32(4000) {
		long.Pages = append(long.Pages, lifecycle.Run{First: 2 * i, Count: 1})
	}
	for l.Dropped() < 10 {
		l.Finding(long, 0, false)
	}
	if l.Waiting() > QueueBytes {
		t.Errorf("%d bytes wait", l.Waiting())
	}
	begun := time.Now()
	l.Close(10 * time.Millisecond)
	if time.Since(begun) > 10*time.Second {
		t.Error("the end waits for the reader")
	}
	close(s.free)
}

func TestManyMaySpeakAtOnce(t *testing.T) {
	var out bytes.Buffer
	l := New(&out)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				l.Finding(sample(), 0, false)
				l.Findings(0, 10)
			}
		})
	}
	wg.Wait()
	l.Close(time.Minute)
	if n := strings.Count(out.String(), "\n"); n != 800 {
		t.Errorf("%d lines", n)
	}
}
