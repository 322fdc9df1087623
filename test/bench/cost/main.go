// Command cost measures what a sidecar costs: processor time and memory while eight
// engines of 17,000 pages say nothing, and while they say so many facts a second;
// and how long a scrape takes then. The sidecar is the command as it is shipped.
//
//	go run ./test/bench/cost -rate 200000 -for 20s
package main

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/stream"
	"github.com/kvwitness/kvwitness/engine/worker"
	"github.com/kvwitness/kvwitness/engine/zmtp"
	"github.com/kvwitness/kvwitness/test/live"
)

const (
	engines  = 8
	pages    = 17_000
	perReq   = 16 // pages of a request
	steps    = 60 // reads of a request, one a step
	interval = 2 * time.Millisecond
)

func main() {
	rate := flag.Int("rate", 200_000, "facts a second, of all engines together")
	length := flag.Duration("for", 20*time.Second, "how long each half lasts")
	root := flag.String("root", ".", "where go.mod is")
	flag.Parse()
	if err := run(*rate, *length, *root); err != nil {
		fmt.Fprintln(os.Stderr, "cost:", err)
		os.Exit(1)
	}
}

func run(rate int, length time.Duration, root string) error {
	dir, err := live.ShortDir()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, err := live.Build(context.Background(), root, dir, "kvwitness")
	if err != nil {
		return err
	}
	var list []string
	var all []*engine
	for i := range engines {
		e, err := newEngine(dir, fmt.Sprint("10.0.0.", i, ":1"))
		if err != nil {
			return err
		}
		all = append(all, e)
		list = append(list, fmt.Sprintf("e%d=;instance=%s", i, e.inst))
	}
	s, err := live.BeginSidecar(path, strings.Join(list, ","), "--events-dir", dir)
	if err != nil {
		return err
	}
	defer s.Kill()
	var perTurn atomic.Int64
	for _, e := range all {
		go e.speak(&perTurn)
	}
	if err := s.AwaitSight(); err != nil {
		return err
	}
	time.Sleep(2 * time.Second)
	if err := measure(s, "idle", length); err != nil {
		return err
	}
	perTurn.Store(int64(rate) * int64(interval) / int64(time.Second) / engines)
	time.Sleep(2 * time.Second)
	return measure(s, fmt.Sprintf("%d facts/s asked for", rate), length)
}

// measure prints what the sidecar took in that time.
func measure(s *live.Sidecar, what string, length time.Duration) error {
	pid := s.Process.Process.Pid
	before, err := seen(s)
	if err != nil {
		return err
	}
	cpu, begun := used(pid), time.Now()
	time.Sleep(length)
	took := time.Since(begun)
	share := (used(pid) - cpu) / took.Seconds()
	after, err := seen(s)
	if err != nil {
		return err
	}
	var scrapes []time.Duration
	size := 0
	for range 20 {
		at := time.Now()
		body, err := s.Body("/metrics")
		if err != nil {
			return err
		}
		scrapes, size = append(scrapes, time.Since(at)), len(body)
	}
	slices.Sort(scrapes)
	fmt.Printf("%s: %.0f facts/s handled, %.0f lost, %.0f late, %.2f%% of a core, %d MiB resident; a scrape of %d KiB takes %s (median), %s (longest of 20)\n",
		what, (after.handled-before.handled)/took.Seconds(), after.lost-before.lost, after.late-before.late, 100*share,
		status(pid, "VmRSS:")>>10, size>>10, scrapes[10].Round(10*time.Microsecond), scrapes[19].Round(10*time.Microsecond))
	return nil
}

type counts struct{ handled, lost, late float64 }

func seen(s *live.Sidecar) (c counts, err error) {
	body, err := s.Body("/metrics")
	for line := range strings.Lines(string(body)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		n, _ := strconv.ParseFloat(value, 64)
		switch {
		case strings.HasPrefix(name, "kvwitness_facts_handled_total{"):
			c.handled += n
		case strings.HasPrefix(name, "kvwitness_facts_lost_total{"):
			c.lost += n
		case strings.HasPrefix(name, `kvwitness_ledger_facts_total{outcome="late"`):
			c.late += n
		}
	}
	return c, err
}

// used is the processor time of a process, in seconds.
func used(pid int) float64 {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100 // the kernel counts in hundredths
}

// status is a number of the process's status, in KiB.
func status(pid int, name string) (kib int) {
	text, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			kib, _ = strconv.Atoi(strings.Fields(rest)[0])
		}
	}
	return kib
}

// engine says what a busy decode does: requests that take pages, read them step by
// step, and give them back.
type engine struct {
	inst       string
	pub        *zmtp.Pub
	router     *zmtp.Router
	build      stream.Builder
	batch, seq uint64
	now        int64
	step       int64
	next       uint32
	req        int
	live       []request
}

type request struct {
	name  string
	pages lifecycle.Runs
	reads int
}

func newEngine(dir, inst string) (*engine, error) {
	e := &engine{inst: inst, pub: zmtp.NewPub(zmtp.Config{SendBytes: 64 << 20}), router: zmtp.NewRouter(zmtp.Config{}), next: 1}
	events, replay, err := stream.Endpoints(dir, inst)
	if err != nil {
		return nil, err
	}
	if _, err := e.pub.Bind(context.Background(), events); err != nil {
		return nil, err
	}
	if _, err := e.router.Bind(context.Background(), replay); err != nil {
		return nil, err
	}
	go e.serve()
	return e, nil
}

// serve answers for a snapshot, before anything was said, with the pool.
func (e *engine) serve() {
	for {
		id, _, err := e.router.Recv(context.Background())
		if err != nil {
			return
		}
		var b stream.Builder
		at := worker.Now()
		b.Add(&lifecycle.Fact{T: at, Inst: e.inst, Src: lifecycle.Engine, Ev: lifecycle.Watermark, Of: lifecycle.Engine, Epoch: lifecycle.Some(uint64(1))})
		b.Add(&lifecycle.Fact{
			T: at, Inst: e.inst, Src: lifecycle.Engine, Ev: lifecycle.PoolOpened, Epoch: lifecycle.Some(uint64(1)), Pool: "kv",
			Spec: &lifecycle.PoolSpec{Pages: pages, PageTokens: 64},
		})
		number := make([]byte, 8)
		_ = e.router.Send(id, nil, number, slices.Clone(b.Finish(1, lifecycle.Opt[int64]{})))
		_ = e.router.Send(id, nil, binary.BigEndian.AppendUint64(nil, stream.End), nil)
	}
}

// speak tells so many facts each turn, and a sign of life each second.
func (e *engine) speak(perTurn *atomic.Int64) {
	beat, due := time.Now(), 0.0
	for last := time.Now(); ; time.Sleep(interval) {
		now := time.Now()
		due += float64(perTurn.Load()) * float64(now.Sub(last)) / float64(interval)
		last = now
		e.now = worker.Now() - int64(time.Millisecond)
		for e.step++; due >= 1; {
			due -= float64(e.turn(int(due)))
		}
		if e.build.Facts() == 0 && now.Sub(beat) > time.Second {
			e.tell(&lifecycle.Fact{Ev: lifecycle.Watermark, Of: lifecycle.Engine})
		}
		if e.build.Facts() > 0 {
			beat = now
			e.flush()
		}
	}
}

// turn has each request read once, ends those that are done, and begins others; it
// returns how many facts it told.
func (e *engine) turn(most int) (told int) {
	kept := e.live[:0]
	for _, r := range e.live {
		if told >= most {
			kept = append(kept, r)
			continue
		}
		if r.reads++; r.reads < steps {
			e.tell(&lifecycle.Fact{Ev: lifecycle.PagesRead, Req: r.name, Pool: "kv", Pages: r.pages})
			kept = append(kept, r)
			told++
			continue
		}
		e.tell(&lifecycle.Fact{Ev: lifecycle.RequestFinished, Req: r.name, HTTPStatus: 200, Finish: lifecycle.FinishStop})
		e.tell(&lifecycle.Fact{Ev: lifecycle.PagesReleased, Req: r.name, Pool: "kv", Pages: r.pages})
		told += 2
	}
	e.live = kept
	for len(e.live) < 200 && told < most {
		told += e.begin()
	}
	e.step++
	return max(told, 1)
}

func (e *engine) begin() int {
	if e.next+perReq > pages {
		e.next = 1
	}
	e.req++
	r := request{strconv.Itoa(e.req), lifecycle.Runs{{First: e.next, Count: perReq}}, 0}
	e.next += perReq
	e.tell(&lifecycle.Fact{Ev: lifecycle.RequestAdmitted, Req: r.name, PromptTokens: lifecycle.Some(int64(1000))})
	e.tell(&lifecycle.Fact{Ev: lifecycle.PagesReserved, Req: r.name, Pool: "kv", Pages: r.pages})
	e.tell(&lifecycle.Fact{Ev: lifecycle.PagesWritten, Req: r.name, Pool: "kv", Pages: r.pages, By: lifecycle.ByForward})
	e.live = append(e.live, r)
	return 3
}

func (e *engine) tell(f *lifecycle.Fact) {
	e.now++
	f.T, f.Inst, f.Src, f.Epoch, f.Step = e.now, e.inst, lifecycle.Engine, lifecycle.Some(uint64(1)), lifecycle.Some(e.step)
	if f.Ev != lifecycle.Watermark {
		f.Seq = lifecycle.Some(e.seq)
		e.seq++
	}
	e.build.Add(f)
	if e.build.Full() {
		e.flush()
	}
}

func (e *engine) flush() {
	e.batch++
	e.pub.Publish(stream.Topic(e.inst), binary.BigEndian.AppendUint64(nil, e.batch), slices.Clone(e.build.Finish(1, lifecycle.Opt[int64]{})))
}
