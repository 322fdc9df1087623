package witness

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/probe"
	"github.com/kvwitness/kvwitness/sidecar/source/proven"
	"github.com/kvwitness/kvwitness/test/witness/couple"
)

const ucxPeers = "command=ucx_peer.py"

// ucxFolder is where the library of ucx_peer.py is compiled, once a run, and where its
// halves find each other. That needs gcc and libucx-dev.
var ucxFolder = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(binaries, "ucx")
	for _, args := range [][]string{
		{"mkdir", "-p", dir},
		{"gcc", "-shared", "-fPIC", "-O1", "-o", filepath.Join(dir, "libucxpeer.so"), filepath.Join("..", "..", "bpf", "ucp", "testdata", "peer.c"), "-lucp", "-lpthread"},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s (this needs gcc and libucx-dev): %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return dir, nil
})

// ucxPair is a prefill and a decode that speak SGLang's frames and write with UCX.
type ucxPair struct {
	t               testing.TB
	w               *witness
	prefill, decode *half
	*couple.Couple
	to   string // the session of decode
	name string
	play couple.Play
}

// newUCXPair starts a pair that has not loaded UCX yet, and will use such a transport.
func newUCXPair(t testing.TB, transport string) *ucxPair {
	t.Helper()
	dir, err := ucxFolder()
	must(t, err)
	env := []string{"UCX_TLS=" + transport, "UCX_NET_DEVICES=lo", "UCX_HANDLE_ERRORS=none"}
	return &ucxPair{t: t, prefill: startProgram(t, env, "ucx_peer.py", dir), decode: startProgram(t, env, "ucx_peer.py", dir)}
}

func (p *ucxPair) open() {
	p.t.Helper()
	var err error
	p.Couple, err = couple.Open(p.prefill.Half, p.decode.Half, couple.Transport{Host: "127.0.0.1"})
	must(p.t, err)
	p.to = p.Session()
	p.name, p.play, err = p.SGLang()
	must(p.t, err)
}

// handoff plays one of the pages that are named, and returns its room.
func (p *ucxPair) handoff(named []int, moves [][3]uint64) string {
	p.t.Helper()
	room, err := p.play(couple.Handoff{Named: named, Moves: moves})
	must(p.t, err)
	if p.w == nil {
		return room
	}
	p.w.await("the end of room "+room, func() bool {
		return p.w.count(func(f *lifecycle.Fact) bool { return f.Ev == lifecycle.TransferCompleted && f.Room == room }) == 1
	})
	time.Sleep(judged)
	return room
}

func (p *ucxPair) good() string {
	p.t.Helper()
	return p.handoff(eight, p.Whole(eight...))
}

// prove plays handoffs until the sight of UCX is declared complete.
func (p *ucxPair) prove() {
	p.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		p.good()
		if p.w.look(func() bool { return covered(p.w, p.name) }) {
			return
		}
	}
	p.t.Fatalf("the sight of %s is never complete", p.name)
}

// covered reports whether the sight of RDMA into an instance is complete, as it was
// said last.
func covered(w *witness, inst string) (complete bool) {
	for _, f := range w.facts {
		if f.Ev == lifecycle.SourceCoverage && f.Of == lifecycle.RDMA && f.Inst == inst {
			complete = f.Complete
		}
	}
	return complete
}

// provedUCX is a pair that is watched from the start and whose path is proven.
func provedUCX(t testing.TB, transport string, completions bool) *ucxPair {
	t.Helper()
	p := newUCXPair(t, transport)
	p.w = watchWith(t, probe.StartConfig{Match: []string{ucxPeers}, Completions: completions}, proven.Config{Known: func(string) proven.Layout { return knownPages }})
	p.open()
	p.prove()
	return p
}

// Promise: with no event of an engine's own, what is put with UCX makes a handoff clean
// where all pages were written, contiguous, scattered, in pieces or again, and short
// where they were not; and every byte that was put is seen, and no other. Where
// completions are seen too, each is done once it was flushed.
func TestHandoffsOverUCXAreWitnessed(t *testing.T) {
	for _, c := range []struct {
		transport   string
		completions bool
	}{{"tcp", true}, {"shm", false}} {
		t.Run(c.transport, func(t *testing.T) {
			p := provedUCX(t, c.transport, c.completions)
			scattered := []int{31, 0, 17, 2, 29, 11, 12, 20}
			want := map[string]finding.Outcome{}
			bytes := map[lifecycle.Outcome]uint64{}
			sum := func(how lifecycle.Outcome) (n uint64) {
				for _, f := range p.w.facts {
					if f.Ev == lifecycle.BytesMoved && f.Outcome == how {
						n += f.Bytes
					}
				}
				return n
			}
			p.w.look(func() bool {
				bytes[lifecycle.Posted], bytes[lifecycle.OK] = sum(lifecycle.Posted), sum(lifecycle.OK)
				return true
			})
			var put uint64
			for _, h := range []struct {
				named   []int
				moves   [][3]uint64
				verdict finding.Outcome
			}{
				{eight, p.Whole(eight...), finding.Clean},
				{scattered, p.Whole(scattered...), finding.Clean},
				{eight, p.Straddling(3, 8), finding.Clean},
				{eight, append(p.Whole(eight...), p.Whole(eight[2:5]...)...), finding.Clean},
				{eight, p.Whole(eight[0]), finding.Violated},
				{scattered, p.Whole(scattered...)[1:], finding.Violated},
				{scattered, p.Whole(scattered...), finding.Clean},
			} {
				want[p.handoff(h.named, h.moves)] = h.verdict
				for _, m := range h.moves {
					put += m[2]
				}
			}
			if n := sum(lifecycle.Posted) - bytes[lifecycle.Posted]; n != put {
				t.Errorf("%d bytes are seen to be put, want %d", n, put)
			}
			p.w.await("that all is done", func() bool {
				return !c.completions || sum(lifecycle.OK)-bytes[lifecycle.OK] == put
			})
			expect(t, p.w, want)
			if len(p.w.problems) > 0 {
				t.Errorf("problems %q", p.w.problems)
			}
		})
	}
}

// Promise: a process that asks for a way around is blind from then on, and one that
// dies in the middle accuses nobody; others are seen as before.
func TestAWayAroundUCXAndADeathAccuseNobody(t *testing.T) {
	p := provedUCX(t, "shm", false)
	other := newUCXPair(t, "shm")
	other.w = p.w
	p.w.await("that the other is watched", func() bool { return p.w.state.Stats().Frames > 0 })
	other.open()
	other.prove()
	want := map[string]finding.Outcome{p.good(): finding.Clean, other.good(): finding.Clean}
	p.prefill.do("around", map[string]any{"moves": p.Whole(eight[0])})
	want[p.handoff(eight, p.Whole(eight[0]))] = finding.Unwitnessed
	if !p.w.look(func() bool { return unseen(p.w, p.name, "by itself") }) {
		t.Error("the reason is not said")
	}
	want[other.good()] = finding.Clean
	other.prefill.End()
	p.w.await("that it is gone", func() bool {
		return p.w.count(func(f *lifecycle.Fact) bool { return f.Ev == lifecycle.PeerGone && f.Inst == other.name }) > 0
	})
	want[p.good()] = finding.Unwitnessed
	expect(t, p.w, want)
}

// Promise: a witness that comes when endpoints are made already says that it does not
// know where they lead; and nobody is accused.
func TestALateWitnessOfUCXSaysWhatItDidNotSee(t *testing.T) {
	p := newUCXPair(t, "shm")
	p.open()
	p.good()
	p.w = watch(t, knownPages, ucxPeers)
	want := map[string]finding.Outcome{}
	told := func(reason string) {
		t.Helper()
		for end := time.Now().Add(patience); !p.w.look(func() bool { return unseen(p.w, p.name, reason) }); {
			want[p.handoff(eight, p.Whole(eight[0]))] = finding.Unwitnessed
			if time.Now().After(end) {
				t.Fatalf("%q is not said", reason)
			}
		}
	}
	var err error
	p.name, p.play, err = p.SGLang() // it registers anew
	must(t, err)
	told("made unseen")
	p.prefill.do("leave", nil)
	told("asked for before the witness")
	expect(t, p.w, want)
}

// Promise: puts that the ring had no room for make the handoff unwitnessed that they
// may concern, and accuse nobody; after that all is seen as before.
func TestPutsThatAreLostAccuseNobody(t *testing.T) {
	p := provedUCX(t, "shm", false)
	w := p.w
	must(t, syscall.Kill(w.probe.PID(), syscall.SIGSTOP))
	p.w = nil
	// A record has 80 bytes, the ring 8 MiB.
	p.prefill.do("flood", map[string]any{"times": 150_000, "moves": p.Whole(eight[0])[:1]})
	flooded := p.good()
	p.w = w
	must(t, syscall.Kill(w.probe.PID(), syscall.SIGCONT))
	want := map[string]finding.Outcome{flooded: finding.Unwitnessed}
	w.await("that records were lost", func() bool {
		return w.count(func(f *lifecycle.Fact) bool {
			return f.Ev == lifecycle.EventsLost && f.Of == lifecycle.RDMA && f.Count > 0
		}) > 0
	})
	p.prove()
	want[p.good()] = finding.Clean
	want[p.handoff(eight, p.Whole(eight[0]))] = finding.Violated
	expect(t, w, want)
}
