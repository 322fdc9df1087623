package live

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/stream"
	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/engine/worker"
	"github.com/kvwitness/kvwitness/engine/zmtp"
)

// maxHostile is the memory that a sidecar takes at most with one hostile engine
// under the default limits: its socket (32 MiB), its snapshot (64 MiB), what is
// decoded of it, and what the judge remembers of it.
const maxHostile = 512 << 20

// hostile is an engine that says whatever does harm. It is a process of its own,
// this test started anew, so that it takes no time from those of the others.
type hostile struct {
	pub    *zmtp.Pub
	router *zmtp.Router
	build  stream.Builder
	batch  uint64
	seq    uint64
	rng    *rand.Rand
	// endless: snapshots never end. It begins so.
	endless atomic.Bool
	// published and said are the last batch, and the number after its last fact.
	published, said atomic.Uint64
}

const (
	villain = "10.9.9.9:1"
	// asHostile names, in the environment, the folder of a hostile engine's sockets.
	asHostile = "LIVE_HOSTILE"
)

// beHostile is the process. It obeys the lines of its standard input: "calm" ends
// its endless snapshots, "attack" does all the rest, and is answered when done.
func beHostile(dir string) int {
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 19) // it is there to harm the sidecar, not this machine
	h := &hostile{pub: zmtp.NewPub(zmtp.Config{SendBytes: 64 << 20}), router: zmtp.NewRouter(zmtp.Config{}), rng: rand.New(rand.NewPCG(1, 2))}
	h.endless.Store(true)
	events, replay, err := stream.Endpoints(dir, villain)
	if err != nil {
		panic(err)
	}
	if _, err := h.pub.Bind(context.Background(), events); err != nil {
		panic(err)
	}
	if _, err := h.router.Bind(context.Background(), replay); err != nil {
		panic(err)
	}
	go h.serve()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"instance": villain, "kv_events": events, "max_total_num_tokens": -5,
			"protections": map[string]any{strings.Repeat("x", 1000): map[string]any{"on": true}},
		})
	}))
	fmt.Fprintf(os.Stderr, "msg=hostile url=%s\n", web.URL)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "calm":
			h.endless.Store(false)
		case "hello":
			f := h.fact(lifecycle.PeerGone)
			f.Peer = "p"
			h.tell(f)
			h.flush()
		case "attack":
			h.badFrames()
			h.impossible()
			h.jumping()
			h.flood(1_000_000)
			fmt.Println("done")
		}
	}
	return 0
}

// serve answers for a snapshot with one that never ends, or with one of nothing.
func (h *hostile) serve() {
	for {
		id, _, err := h.router.Recv(context.Background())
		if err != nil {
			return
		}
		go h.answer(id)
	}
}

func (h *hostile) answer(id string) {
	var b stream.Builder
	f := h.fact(lifecycle.Watermark)
	f.Of, f.T = lifecycle.Engine, worker.Now()
	said := h.said.Load()
	number := binary.BigEndian.AppendUint64(nil, h.published.Load())
	if said > 0 {
		f.Seq = lifecycle.Some(said - 1)
	}
	b.Add(f)
	if h.router.Send(id, nil, number, slices.Clone(b.Finish(1, lifecycle.Opt[int64]{}))) != nil {
		return
	}
	for h.endless.Load() {
		f := h.fact(lifecycle.RequestAdmitted)
		for i := range 1000 {
			f.T, f.Req = worker.Now(), fmt.Sprint("snapshot", i)
			b.Add(f)
		}
		if h.router.Send(id, nil, number, slices.Clone(b.Finish(1, lifecycle.Opt[int64]{}))) != nil {
			return
		}
	}
	_ = h.router.Send(id, nil, binary.BigEndian.AppendUint64(nil, stream.End), nil)
}

func (h *hostile) fact(ev lifecycle.Ev) *lifecycle.Fact {
	return &lifecycle.Fact{Ev: ev, Inst: villain, Src: lifecycle.Engine, Epoch: lifecycle.Some(uint64(1))}
}

// tell puts a fact into the batch in hand.
func (h *hostile) tell(f *lifecycle.Fact) {
	if f.T == 0 {
		f.T = worker.Now()
	}
	f.Seq = lifecycle.Some(h.seq)
	h.seq++
	h.build.Add(f)
	if h.build.Full() || h.build.Facts() >= 500 {
		h.flush()
	}
}

func (h *hostile) flush() {
	if h.build.Facts() == 0 {
		return
	}
	h.batch++
	h.published.Store(h.batch)
	h.said.Store(h.seq)
	h.raw(h.batch, slices.Clone(h.build.Finish(1, lifecycle.Opt[int64]{})))
}

func (h *hostile) raw(number uint64, payload []byte) {
	h.pub.Publish(stream.Topic(villain), binary.BigEndian.AppendUint64(nil, number), payload)
}

// badFrames are bytes that are no batches, and numbers that are no numbers.
func (h *hostile) badFrames() {
	for range 3000 {
		junk := make([]byte, h.rng.IntN(300))
		for i := range junk {
			junk[i] = byte(h.rng.Uint32())
		}
		h.raw(h.rng.Uint64(), junk)
		h.pub.Publish(stream.Topic(villain), junk[:min(len(junk), 7)], junk)
	}
}

// impossible are pools and pages that cannot be, and peers without end.
func (h *hostile) impossible() {
	for i := range 2000 {
		f := h.fact(lifecycle.PoolOpened)
		f.Pool, f.Spec = fmt.Sprint("p", i), &lifecycle.PoolSpec{Pages: uint32(1 + h.rng.IntN(lifecycle.MaxPages-1)), PageTokens: 1}
		h.tell(f)
		f = h.fact(lifecycle.PagesRead)
		f.Pool, f.Req, f.Pages = "p1", fmt.Sprint(i), lifecycle.Runs{{First: lifecycle.MaxPages - 2, Count: 1}}
		h.tell(f)
		f = h.fact(lifecycle.TransferStarted)
		f.Pool, f.Xfer, f.Room, f.Side, f.Peer, f.Pages = "p1", "x", fmt.Sprint(i), lifecycle.Receiver, fmt.Sprint("peer", i), lifecycle.Runs{}
		h.tell(f)
	}
	wide := h.fact(lifecycle.PagesReserved)
	wide.Pool, wide.Req = "p1", "wide"
	for i := range uint32(lifecycle.MaxRuns) {
		wide.Pages = append(wide.Pages, lifecycle.Run{First: 2 * i, Count: 1})
	}
	for range 200 {
		f := *wide
		h.tell(&f)
	}
	h.flush()
}

// jumping are facts of all times but now.
func (h *hostile) jumping() {
	for i := range 20_000 {
		f := h.fact(lifecycle.RequestAborted)
		f.Req, f.T = fmt.Sprint(i), worker.Now()+h.rng.Int64N(1<<40)-1<<39
		h.tell(f)
	}
	h.flush()
}

// flood is a million requests that never end, as fast as they go.
func (h *hostile) flood(requests int) {
	for i := range requests {
		f := h.fact(lifecycle.RequestAdmitted)
		f.Req, f.Room = strconv.Itoa(i), "flood"+strconv.Itoa(i)
		h.tell(f)
		if i%5000 == 0 { // as fast as it is taken, not as fast as it is dropped
			for h.waiting() > 32<<20 {
				time.Sleep(time.Millisecond)
			}
		}
	}
	h.flush()
}

func (h *hostile) waiting() (bytes int) {
	for _, p := range h.pub.Peers() {
		bytes += p.WaitingBytes
	}
	return bytes
}

// peak is the most memory that a process has had.
func peak(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatal("the kernel says nothing of memory")
	return 0
}

// Promise: an engine that says whatever does harm costs the sidecar a bounded amount
// of memory; what of it is not taken is counted; and what another engine does is
// found all the same.
func TestAHostileEngineHarmsOnlyTheSightOfItself(t *testing.T) {
	dir := shortDir(t)
	i := slices.IndexFunc(Exercises, func(e Exercise) bool { return e.Drill == scheduler.RejectedHandoff })
	e := &Exercises[i]
	c, err := e.Start(t.Context(), dir, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	t.Setenv(asHostile, dir)
	h, err := Start(os.Args[0], "hostile")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Kill)
	s, err := BeginSidecar(witness, c.Engines()+",villain="+h.Said["url"], Unhurried...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	live := func(engines int) func() bool {
		return func() bool {
			body, err := s.Body("/metrics")
			return err == nil && strings.Contains(string(body), fmt.Sprintf("\nkvwitness_engines_live %d\n", engines))
		}
	}
	if err := Await("the others are seen while a snapshot does not end", live(2)); err != nil {
		t.Fatal(err)
	}
	find(t, e, c, s, 1)
	h.Tell("calm")
	if err := Await("the villain is seen", func() bool { h.Tell("hello"); return live(3)() }); err != nil {
		state, _ := s.Body("/api/v1/state")
		t.Fatalf("%v\n%s", err, state)
	}
	h.Tell("attack")
	find(t, e, c, s, 2)
	if err := AwaitFor(5*time.Minute, "the attack is over", func() bool { return strings.Contains(h.Out(), "done") }); err != nil {
		t.Fatal(err)
	}
	find(t, e, c, s, 3)
	if n := peak(t, s.Process.Process.Pid); n > maxHostile {
		t.Errorf("the sidecar took %d MiB, at most %d are promised", n>>20, maxHostile>>20)
	} else {
		t.Logf("the sidecar took %d MiB", n>>20)
	}
	checkState(t, s)
}

// find plays the drill and waits for its findings.
func find(t *testing.T, e *Exercise, c *Cluster, s *Sidecar, round int) {
	t.Helper()
	last := uint64(0)
	if all, err := s.Findings(0); err == nil && len(all) > 0 {
		last = all[len(all)-1].ID
	}
	if _, err := e.Play(c, round); err != nil {
		t.Fatal(err)
	}
	want := []string{"rejected_handoff", "short_handoff", "stale_read"}
	seen := map[string]bool{}
	err := Await(fmt.Sprint("findings of round ", round), func() bool {
		all, err := s.Findings(last)
		for _, f := range all {
			last = max(last, f.ID)
			if f.Said.Inst != villain {
				seen[f.Said.Kind] = true
			}
		}
		return err == nil && !slices.ContainsFunc(want, func(kind string) bool { return !seen[kind] })
	})
	if err != nil {
		state, _ := s.Body("/api/v1/state")
		t.Fatalf("%v; found %v\n%s", err, seen, state)
	}
}

// checkState looks at what was counted.
func checkState(t *testing.T, s *Sidecar) {
	t.Helper()
	var state struct {
		Engines []struct {
			Name         string
			FactsSeen    uint64            `json:"facts_seen"`
			FactsHandled uint64            `json:"facts_handled"`
			FactsWaiting uint64            `json:"facts_waiting"`
			Lost         map[string]uint64 `json:"facts_lost"`
		}
	}
	balanced := func() bool {
		if err := s.Get("/api/v1/state", &state); err != nil {
			return false
		}
		for _, e := range state.Engines {
			sum := e.FactsHandled + e.FactsWaiting
			for _, n := range e.Lost {
				sum += n
			}
			if sum != e.FactsSeen {
				return false
			}
		}
		return true
	}
	if err := Await("seen = handled + waiting + lost", balanced); err != nil {
		t.Errorf("%v: %+v", err, state)
	}
	for _, e := range state.Engines {
		if e.Name != "villain" {
			for why, n := range e.Lost {
				t.Errorf("%s lost %d: %s", e.Name, n, why)
			}
			continue
		}
		t.Logf("%d facts seen, lost %v", e.FactsSeen, e.Lost)
		for _, why := range []string{"decode: not a batch", "guard: too many peers", "guard: too many pages", "intake: ahead of the clock", "intake: behind the clock"} {
			if e.Lost[why] == 0 {
				t.Errorf("nothing is counted as %q", why)
			}
		}
	}
}
