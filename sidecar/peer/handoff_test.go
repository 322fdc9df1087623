package peer

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/publish"
	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/sidecar/intake"
)

// The receiver's memory: one region, whose pages are as long as they are apart.
const (
	base, pageBytes = uint64(0x10000), uint64(4096)
	room            = "7"
)

// pair are two nodes: prefill's sees the writes and what prefill says, decode's what
// decode says.
type pair struct {
	t       *testing.T
	a, b    *host
	server  *Server
	link    *Link
	prefill *publish.Publisher
	pool    *publish.Pool
	decode  *intake.Source
}

func newPair(t *testing.T, joined bool) *pair {
	dir := t.TempDir()
	p := &pair{t: t, a: newHost(t, "node-a", 3*time.Hour, "prefill"), b: newHost(t, "node-b", -time.Minute, "decode")}
	p.prefill = p.a.engine("prefill", dir)
	var err error
	if p.pool, err = p.prefill.PoolEvents("kv", lifecycle.PoolSpec{Pages: 16, PageTokens: 16, PageBytes: pageBytes}); err != nil {
		t.Fatal(err)
	}
	p.server = p.a.serve(dir, nil)
	p.decode = p.b.in.Open("decode", func() intake.Standing { return intake.Live })
	p.tell(lifecycle.Fact{Ev: lifecycle.PoolOpened, Pool: "kv", Spec: &lifecycle.PoolSpec{
		Pages: 16, PageTokens: 16, PageBytes: pageBytes, Regions: []lifecycle.Region{{Base: base, Stride: pageBytes, Bytes: pageBytes, Part: "kv"}},
		Claims: lifecycle.Some([]lifecycle.Ev{ // what is written here is not for decode to say
			lifecycle.RequestAdmitted, lifecycle.RequestRejected, lifecycle.RequestAborted, lifecycle.RequestFinished, lifecycle.PagesReserved,
			lifecycle.PagesReleased, lifecycle.TransferStarted, lifecycle.TransferCompleted, lifecycle.TransferDrained, lifecycle.PeerGone,
		}),
	}})
	if joined {
		p.link = p.b.dial(p.server.Addr().String(), nil)
		p.sight()
	}
	return p
}

// sight waits until decode's node follows prefill.
func (p *pair) sight() {
	p.t.Helper()
	await(p.t, "prefill's pool at decode's node", func() bool {
		return p.b.count(func(f *lifecycle.Fact) bool {
			return f.Inst == "prefill" && f.Ev == lifecycle.PoolOpened && f.Pool == "kv"
		}) > 0
	})
}

func (p *pair) tell(f lifecycle.Fact) {
	f.Inst = "decode"
	p.b.tell(p.decode, f)
}

// saw is what the probe of prefill's node sees.
func (p *pair) saw(f lifecycle.Fact) {
	f.T, f.Node, f.Inst = p.a.now(), p.a.node, "decode"
	p.server.Saw(&f)
	p.server.Reached(p.a.now())
}

func (p *pair) writes(page uint64) {
	p.saw(lifecycle.Fact{
		Src: lifecycle.RDMA, Ev: lifecycle.BytesMoved, From: "prefill", Addr: base + page*pageBytes, Bytes: pageBytes,
		Op: lifecycle.Write, Outcome: lifecycle.OK,
	})
}

func (p *pair) covers() {
	p.saw(lifecycle.Fact{Src: lifecycle.Sidecar, Ev: lifecycle.SourceCoverage, Of: lifecycle.RDMA, Complete: true, Peer: "prefill"})
}

// keepLooking is a probe that goes on: it has come as far as now.
func (p *pair) keepLooking() {
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
				p.server.Reached(p.a.now())
			}
		}
	}()
	p.t.Cleanup(func() { close(stop); <-ended })
}

func (p *pair) info() scheduler.Info {
	return scheduler.Info{Req: 1, Room: 7, PromptTokens: 32}
}

func (p *pair) at() kvcache.At { return kvcache.At{Now: p.a.now()} }

// reserve: decode hands two pages out and names them.
func (p *pair) reserve() {
	pages := lifecycle.Runs{{First: 1, Count: 2}}
	p.tell(lifecycle.Fact{Ev: lifecycle.RequestAdmitted, Req: "d1", Room: room, PromptTokens: lifecycle.Some(int64(32))})
	p.tell(lifecycle.Fact{Ev: lifecycle.PagesReserved, Pool: "kv", Pages: pages, Req: "d1", Room: room})
	p.tell(lifecycle.Fact{Ev: lifecycle.TransferStarted, Xfer: "x", Room: room, Req: "d1", Side: lifecycle.Receiver, Pool: "kv", Pages: pages, Peer: "prefill", Op: lifecycle.Push})
}

// send: prefill has computed the two pages, and begins to write them.
func (p *pair) send() {
	pages := []kvcache.Run{{First: 3, Count: 2}}
	p.prefill.Admitted(p.at(), p.info(), 0)
	p.pool.Reserved(p.at(), 1, pages)
	p.pool.Written(p.at(), 1, kvcache.ByForward, pages, 32)
	p.prefill.TransferStarted(p.at(), p.info(), 1, scheduler.Sender, "decode", []kvcache.PageID{3, 4})
}

func (p *pair) completes() {
	p.tell(lifecycle.Fact{
		Ev: lifecycle.TransferCompleted, Xfer: "x", Room: room, Peer: "prefill", Outcome: lifecycle.OK, Last: true, Tokens: lifecycle.Some(int64(32)),
	})
	p.tell(lifecycle.Fact{Ev: lifecycle.RequestFinished, Req: "d1", Room: room, HTTPStatus: 200, Finish: lifecycle.FinishStop})
	p.tell(lifecycle.Fact{Ev: lifecycle.PagesReleased, Req: "d1", Pool: "kv", Pages: lifecycle.Runs{{First: 1, Count: 2}}})
}

// done: prefill is done with the request.
func (p *pair) done() {
	p.prefill.TransferCompleted(p.at(), p.info(), 1, scheduler.Sender, "decode", true, scheduler.Extent{}, true)
	p.pool.Released(p.at(), 1, []kvcache.Run{{First: 3, Count: 2}})
	p.prefill.Finished(p.at(), p.info(), scheduler.Outcome{Status: 200})
}

// sent waits until decode's node knows that prefill sends.
func (p *pair) sent() {
	p.t.Helper()
	await(p.t, "prefill's transfer at decode's node", func() bool {
		return p.b.count(func(f *lifecycle.Fact) bool {
			return f.Inst == "prefill" && f.Ev == lifecycle.TransferStarted && len(f.Pages) > 0
		}) > 0
	})
}

// givesUp: decode frees the pages while prefill may still write them.
func (p *pair) givesUp() {
	p.tell(lifecycle.Fact{Ev: lifecycle.RequestAborted, Req: "d1", Room: room, Reason: "time out"})
	p.tell(lifecycle.Fact{Ev: lifecycle.PagesReleased, Req: "d1", Pool: "kv", Pages: lifecycle.Runs{{First: 1, Count: 2}}})
}

// parts: decode's connection to prefill is closed at last, which ends its transfers.
func (p *pair) parts() { p.tell(lifecycle.Fact{Ev: lifecycle.PeerGone, Peer: "prefill"}) }

// Promise: decode frees pages that prefill still writes. The two nodes together find
// both halves of it; decode's alone finds neither.
func TestTwoNodesFindWhatNeitherFindsAlone(t *testing.T) {
	for _, joined := range []bool{true, false} {
		p := newPair(t, joined)
		p.keepLooking()
		p.reserve()
		p.send()
		if joined {
			p.sent()
		}
		p.writes(1)
		p.givesUp()
		p.writes(2)
		p.done()
		p.parts()
		verdict := func() bool { _, given := p.b.verdict(room); return given }
		if !joined {
			await(t, "a verdict", verdict)
			if v, _ := p.b.verdict(room); v.Verdict.String() != "unwitnessed" || p.b.kinds() != nil {
				t.Errorf("decode's node alone found %v, verdict %+v", p.b.kinds(), v)
			}
			continue
		}
		await(t, "both findings", func() bool { return slices.Equal(p.b.kinds(), []string{"early_release", "write_after_release"}) })
		await(t, "a verdict", verdict)
		if v, _ := p.b.verdict(room); v.Verdict.String() != "violated" {
			t.Errorf("verdict %+v", v)
		}
	}
}

// Promise: a handoff all of whose writes were seen at the sender's node is clean at
// the receiver's; one of which a page was not written is short.
func TestWritesSeenAtTheSendersNodeCountAtTheReceivers(t *testing.T) {
	for pages, want := range map[uint64]string{2: "clean", 1: "violated"} {
		p := newPair(t, true)
		p.keepLooking()
		await(t, "the receiver's instance at the sender's node", func() bool { return p.server.Served().Connected == 1 && p.metTheirs() })
		p.covers()
		await(t, "sight", func() bool {
			return p.b.count(func(f *lifecycle.Fact) bool { return f.Ev == lifecycle.SourceCoverage && f.Complete }) == 1
		})
		p.reserve()
		p.send()
		for page := range pages {
			p.writes(1 + page)
		}
		p.done()
		p.completes()
		await(t, "a verdict", func() bool { _, given := p.b.verdict(room); return given })
		if v, _ := p.b.verdict(room); v.Verdict.String() != want {
			t.Errorf("with %d of 2 pages the verdict is %+v, found %v", pages, v, p.b.kinds())
		}
	}
}

func (p *pair) metTheirs() bool {
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	for c := range p.server.conns {
		c.mu.Lock()
		defer c.mu.Unlock()
		return slices.Contains(c.theirs, "decode")
	}
	return false
}

// Promise: when the link is cut while a handoff is under way, and what comes is not
// seen, nobody is accused: not for the drain that was not told, nor for the writes
// that were not seen.
func TestACutLinkAccusesNobody(t *testing.T) {
	for i, fault := range []func(*pair){(*pair).givesUp, (*pair).completes} {
		p := newPair(t, true)
		p.keepLooking()
		await(t, "the receiver's instance at the sender's node", p.metTheirs)
		p.covers()
		await(t, "sight", func() bool {
			return p.b.count(func(f *lifecycle.Fact) bool { return f.Ev == lifecycle.SourceCoverage && f.Complete }) == 1
		})
		p.reserve()
		p.send()
		p.sent()
		p.writes(1)
		if err := p.server.Close(); err != nil {
			t.Fatal(err)
		}
		await(t, "the end of the link", func() bool { return !p.link.Status().Connected })
		fault(p)
		p.parts()
		await(t, "a verdict", func() bool { _, given := p.b.verdict(room); return given })
		if v, _ := p.b.verdict(room); v.Verdict.String() != "unwitnessed" || slices.ContainsFunc(p.b.kinds(), func(k string) bool { return k != "blind" }) {
			t.Errorf("fault %d: found %v, verdict %+v", i, p.b.kinds(), v)
		}
		// Nor for one that begins while the link is away.
		p.tell(lifecycle.Fact{Ev: lifecycle.RequestAdmitted, Req: "d2", Room: "8", PromptTokens: lifecycle.Some(int64(32))})
		pages := lifecycle.Runs{{First: 5, Count: 2}}
		p.tell(lifecycle.Fact{Ev: lifecycle.PagesReserved, Pool: "kv", Pages: pages, Req: "d2", Room: "8"})
		p.tell(lifecycle.Fact{Ev: lifecycle.TransferStarted, Xfer: "y", Room: "8", Req: "d2", Side: lifecycle.Receiver, Pool: "kv", Pages: pages, Peer: "prefill", Op: lifecycle.Push})
		p.tell(lifecycle.Fact{Ev: lifecycle.PagesReleased, Req: "d2", Pool: "kv", Pages: pages})
		p.tell(lifecycle.Fact{Ev: lifecycle.RequestAborted, Req: "d2", Room: "8"})
		p.parts()
		await(t, "a verdict", func() bool { _, given := p.b.verdict("8"); return given })
		if slices.ContainsFunc(p.b.kinds(), func(k string) bool { return k != "blind" }) {
			t.Errorf("fault %d: after the link was cut, found %v", i, p.b.kinds())
		}
	}
}

// Promise: a link that came back begins with a snapshot, and finds again.
func TestALinkThatCameBackFindsAgain(t *testing.T) {
	p := newPair(t, true)
	address := p.server.Addr().String()
	if err := p.server.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, "the end of the link", func() bool { return !p.link.Status().Connected })
	snapshots := p.b.count(func(f *lifecycle.Fact) bool {
		return f.Inst == "prefill" && f.Pool == "kv" && f.Ev == lifecycle.PoolOpened
	})
	stream := p.server.cfg.Stream
	p.server = p.a.serve("", func(c *ServerConfig) { c.Address, c.Stream = address, stream })
	await(t, "another snapshot", func() bool {
		return p.b.count(func(f *lifecycle.Fact) bool {
			return f.Inst == "prefill" && f.Pool == "kv" && f.Ev == lifecycle.PoolOpened
		}) > snapshots
	})
	p.keepLooking()
	await(t, "the receiver's instance at the sender's node", p.metTheirs)
	p.reserve()
	p.send()
	p.sent()
	p.givesUp()
	p.writes(2)
	await(t, "both findings", func() bool {
		return slices.Equal(slices.DeleteFunc(p.b.kinds(), func(k string) bool { return k == "blind" }), []string{"early_release", "write_after_release"})
	})
}

// Promise: a peer that hangs is lost after the patience, and what it had to say is not
// taken for nothing.
func TestAPeerThatHangsIsLost(t *testing.T) {
	p := newPair(t, false)
	inn := newMiddle(t, p.server.Addr().String())
	p.link = p.b.dial(inn.address, func(c *LinkConfig) { c.Patience = 2 * time.Second })
	p.sight()
	p.reserve()
	p.send()
	p.sent()
	inn.hold()
	p.givesUp()
	p.parts()
	await(t, "the end of the link", func() bool {
		st := p.link.Status()
		return st.Ends[Silent]+st.Ends[BehindTime] > 0
	})
	await(t, "a verdict", func() bool { _, given := p.b.verdict(room); return given })
	if v, _ := p.b.verdict(room); v.Verdict.String() != "unwitnessed" || slices.ContainsFunc(p.b.kinds(), func(k string) bool { return k != "blind" }) {
		t.Errorf("found %v, verdict %+v", p.b.kinds(), v)
	}
}

// Promise: the sum holds over many facts: sent is received, and received is taken.
func TestEveryFactIsAccountedFor(t *testing.T) {
	p := newPair(t, true)
	const n = 5000
	for i := range n {
		p.prefill.PeerGone(p.at(), scheduler.Peer("decode-"+strconv.Itoa(i%100)))
	}
	await(t, "all facts", func() bool {
		return p.b.count(func(f *lifecycle.Fact) bool { return f.Ev == lifecycle.PeerGone && f.Inst == "prefill" }) == n
	})
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	for ; ; time.Sleep(5 * time.Millisecond) {
		st, served := p.link.Status(), p.server.Served()
		if st.Received == served.Sent && st.Received == st.Taken+st.Twice+st.PassedOver && st.Received > n && st.Waiting == 0 {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("link %+v, server %+v", st, served)
		}
	}
}
