package witness

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	wire "github.com/kvwitness/kvwitness/engine/pdwire"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/test/witness/couple"
)

// stubs are compiled once a run: libibverbs and a provider of bpf/verbs/testdata,
// which move nothing, the same provider under a name that is none and without a
// table of its functions, what verbs_peer.py calls, one that is
// called as a transport of UCX, and a program in C. That needs gcc and libibverbs-dev.
var stubs = sync.OnceValues(func() (string, error) {
	src := filepath.Join("..", "..", "bpf", "verbs", "testdata")
	dir := filepath.Join(binaries, "stubs")
	bare := filepath.Join(dir, "libbare-rdmav34.so")
	provider, odd, library := filepath.Join(dir, "libstub-rdmav34.so"), filepath.Join(dir, "libodd.so"), filepath.Join(dir, "libibverbs.so.1")
	share := []string{"-shared", "-fPIC", "-O1", "-Wl,-rpath,$ORIGIN"}
	for _, args := range [][]string{
		{"mkdir", "-p", dir},
		append([]string{"gcc", "-s", "-Wl,-soname,libstub-rdmav34.so", "-o", provider, filepath.Join(src, "provider.c")}, share...),
		append([]string{"gcc", "-s", "-Wl,-soname,libodd.so", "-o", odd, filepath.Join(src, "provider.c")}, share...),
		append([]string{"gcc", "-s", "-Wl,-soname,libbare-rdmav34.so", "-Wl,--no-eh-frame-hdr", "-o", bare, filepath.Join(src, "provider.c")}, share...),
		append([]string{"gcc", "-Wl,-soname,libibverbs.so.1", "-Wl,--version-script=" + filepath.Join(src, "libibverbs.map"), "-o", library, filepath.Join(src, "libibverbs.c"), provider}, share...),
		append([]string{"gcc", "-o", filepath.Join(dir, "libpeer.so"), filepath.Join("programs", "verbs_peer.c"), library}, share...),
		append([]string{"gcc", "-o", filepath.Join(dir, "libuct_stub.so"), filepath.Join("programs", "transport.c"), provider}, share...),
		{"gcc", "-O1", "-o", filepath.Join(dir, "target"), filepath.Join(src, "target.c"), library, provider, "-ldl", "-Wl,-rpath,$ORIGIN"},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s (this needs gcc and libibverbs-dev): %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return dir, nil
})

// verbsPair is a prefill and a decode that speak SGLang's frames and write over
// verbs, of a stub. All decodes have the same addresses.
type verbsPair struct {
	t               testing.TB
	w               *witness
	prefill, decode *half
	self            wire.Address
	sender          string
	numbers         [2]int // of the queue pairs
	room            int64
}

// anAddress is where every decode has its pool.
const anAddress = 0x7e0000000000

// newVerbsPair starts a pair that has opened nothing yet.
func newVerbsPair(t testing.TB, n int) *verbsPair {
	t.Helper()
	dir, err := stubs()
	must(t, err)
	p := &verbsPair{
		t: t, prefill: startProgram(t, nil, "verbs_peer.py", dir), decode: startProgram(t, nil, "verbs_peer.py", dir),
		numbers: [2]int{10*n + 17, 10*n + 18}, room: int64(1000 * (n + 1)),
	}
	to, from := p.prefill.do("bind", map[string]any{"kind": "PULL"}), p.decode.do("bind", map[string]any{"kind": "PULL"})
	p.decode.do("connect", map[string]any{"kind": "PUSH", "to": fmt.Sprintf("127.0.0.1:%d", to.Port)})
	p.prefill.do("connect", map[string]any{"kind": "PUSH", "to": fmt.Sprintf("127.0.0.1:%d", from.Port)})
	p.sender = fmt.Sprintf("127.0.0.1:%d", to.Port)
	p.self = wire.Address{Host: "127.0.0.1", Port: uint16(from.Port)}
	return p
}

func (p *verbsPair) name() string { return fmt.Sprintf("%s:%d", p.self.Host, p.self.Port) }

// open opens a device on each side.
func (p *verbsPair) open() {
	p.t.Helper()
	for _, h := range []*half{p.prefill, p.decode} {
		h.do("device", map[string]any{"device": "nic"})
	}
}

// awaitAttached registers memory until that is seen: libibverbs is attached to a
// moment after it was loaded.
func (p *verbsPair) awaitAttached() {
	p.t.Helper()
	seen := func() bool {
		insts := map[string]bool{}
		for _, f := range p.w.facts {
			if f.Ev == lifecycle.RegionRegistered && f.Base == anAddress {
				insts[f.Inst] = true
			}
		}
		return insts[p.name()] && insts[p.sender]
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		for _, h := range []*half{p.prefill, p.decode} {
			h.do("register", map[string]any{"address": uint64(anAddress), "bytes": regions * pages * pageBytes})
		}
		if p.w.look(seen) {
			return
		}
	}
	p.t.Fatal("libibverbs is not attached to")
}

// join connects a queue pair on each side, decode first, as handshakes do.
func (p *verbsPair) join(device, pair string, from, to int) {
	p.t.Helper()
	p.decode.do("pair", map[string]any{"device": "nic", "pair": pair, "number": to, "to": from})
	p.prefill.do("pair", map[string]any{"device": device, "pair": pair, "number": from, "to": to})
}

func (p *verbsPair) say(from, to *half, m wire.Message) {
	p.t.Helper()
	from.do("send", couple.Frames(m.Frames()))
	if got := to.do("recv", nil); got.Frames != len(m.Frames()) {
		p.t.Fatalf("%d frames arrived of %d", got.Frames, len(m.Frames()))
	}
}

func (p *verbsPair) register() {
	p.t.Helper()
	r := &wire.Registration{Address: p.self, Session: "127.0.0.1:1", KVItemBytes: pageBytes, AttnTPSize: 1, DCPSize: 1}
	for i := range regions {
		r.KVPtrs = append(r.KVPtrs, uint64(anAddress+i*pages*pageBytes))
	}
	p.say(p.decode, p.prefill, r)
}

// whole moves each page of each region at once.
func (p *verbsPair) whole(list ...int) (moves [][3]uint64) {
	for i := range regions {
		for _, page := range list {
			at := uint64(i*pages+page) * pageBytes
			moves = append(moves, [3]uint64{0x600000000000 + at, anAddress + at, pageBytes})
		}
	}
	return moves
}

// handoff plays one of the pages that are named; do writes what is written. It
// returns the room.
func (p *verbsPair) handoff(named []int, do func()) string {
	p.t.Helper()
	room := p.begin(named, do)
	p.complete()
	if p.w == nil {
		return room
	}
	p.w.await("the end of room "+room, func() bool {
		return p.w.count(func(f *lifecycle.Fact) bool { return f.Ev == lifecycle.TransferCompleted && f.Room == room }) == 1
	})
	time.Sleep(judged)
	return room
}

// begin is a handoff up to its last write.
func (p *verbsPair) begin(named []int, do func()) (room string) {
	p.t.Helper()
	p.room++
	q := &wire.TransferRequest{Room: p.room, Address: p.self, Session: "127.0.0.1:1", AuxIndex: 1, RequiredDst: 1}
	for _, page := range named {
		q.Pages = append(q.Pages, int32(page))
	}
	p.say(p.decode, p.prefill, q)
	do()
	p.prefill.do("poll", map[string]any{"device": "nic"})
	return fmt.Sprint(p.room)
}

// complete has prefill say that the last handoff is done.
func (p *verbsPair) complete() {
	p.t.Helper()
	p.say(p.prefill, p.decode, &wire.Status{Room: p.room, Status: wire.StatusSuccess})
}

// post hands moves to a queue pair as one chain.
func (p *verbsPair) post(pair string, moves [][3]uint64) func() {
	return func() { p.prefill.do("post", map[string]any{"pair": pair, "moves": moves}) }
}

var eight = []int{3, 4, 5, 6, 7, 8, 9, 10}

// good plays a handoff in which all is written.
func (p *verbsPair) good() string {
	p.t.Helper()
	return p.handoff(eight, p.post("first", p.whole(eight...)))
}

// prove plays handoffs until the sight of RDMA is declared complete.
func (p *verbsPair) prove() {
	p.t.Helper()
	covered := func() bool {
		complete := false
		for _, f := range p.w.facts {
			if f.Ev == lifecycle.SourceCoverage && f.Of == lifecycle.RDMA && f.Inst == p.name() {
				complete = f.Complete
			}
		}
		return complete
	}
	for end := time.Now().Add(patience); time.Now().Before(end); {
		p.good()
		if p.w.look(covered) {
			return
		}
	}
	p.t.Fatalf("the sight of %s is never complete", p.name())
}

// proved is a pair that is watched from the start and whose path is proven.
func proved(t *testing.T, w *witness, n int) *verbsPair {
	t.Helper()
	p := newVerbsPair(t, n)
	p.w = w
	p.open()
	p.register()
	p.awaitAttached()
	p.join("nic", "first", p.numbers[0], p.numbers[1])
	p.prove()
	return p
}

// expect compares the verdicts of rooms with what they should be, and that nothing
// was found but in those that are violated.
func expect(t *testing.T, w *witness, want map[string]finding.Outcome) {
	t.Helper()
	verdicts, kinds := w.over(), w.kinds()
	for room, outcome := range want {
		v := verdicts[room]
		if v.Verdict != outcome {
			t.Errorf("room %s is %s (%s), want %s", room, v.Verdict, v.Why, outcome)
		}
		if outcome == finding.Violated && (len(kinds[room]) != 1 || kinds[room][0] != finding.ShortHandoff) {
			t.Errorf("room %s: found %v", room, kinds[room])
		}
	}
	for room, found := range kinds {
		if want[room] == finding.Violated {
			continue
		}
		for _, k := range found {
			if k != finding.Blind { // which wakes nobody
				t.Errorf("room %q: found %v", room, found)
			}
		}
	}
}
