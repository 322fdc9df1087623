package peer

import (
	"flag"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/scheduler"
)

var (
	randomSeed     = flag.Uint64("random.seed", 0, "seed of the random traffic; 0: a fresh one")
	randomHandoffs = flag.Int("random.handoffs", 120, "how many handoffs it has")
)

// Promise: over a link that stalls for longer and shorter than the patience, and is cut
// again and again, handoffs that are as they should be are clean or unwitnessed, and
// nobody is accused: not decode for pages that it frees when it hears that they are
// drained, nor for writes that are seen on the other node. Left alone, it is clean again.
func TestABadLinkAccusesNobody(t *testing.T) {
	seed := *randomSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-random.seed %d -random.handoffs %d", seed, *randomHandoffs)
	rnd := rand.New(rand.NewPCG(seed, 0))
	const patience = 300 * time.Millisecond
	p := newPair(t, false)
	p.keepLooking()
	m := newMiddle(t, p.server.Addr().String())
	p.link = p.b.dial(m.address, func(c *LinkConfig) { c.Patience, c.Retry = patience, 5*time.Millisecond })
	p.sight()
	await(t, "the receiver's instance at the sender's node", p.metTheirs)
	p.covers()

	quit, quitted := make(chan struct{}), make(chan struct{})
	go func() { // what happens to the link
		defer close(quitted)
		rnd := rand.New(rand.NewPCG(seed, 1))
		for {
			select {
			case <-quit:
				m.letGo()
				return
			case <-time.After(time.Duration(rnd.IntN(150)) * time.Millisecond):
			}
			switch rnd.IntN(4) {
			case 0:
				m.cut()
			case 1:
				m.hold()
				time.Sleep(time.Duration(rnd.Int64N(int64(2 * patience))))
				m.letGo()
			case 2:
				m.hold()
				time.Sleep(time.Duration(rnd.Int64N(int64(patience / 4))))
				m.letGo()
			}
		}
	}()
	n := 0
	for ; n < *randomHandoffs; n++ {
		p.handoff(rnd, n)
	}
	close(quit)
	<-quitted
	clean := func() (c int) {
		p.b.mu.Lock()
		defer p.b.mu.Unlock()
		for _, v := range p.b.verdicts {
			if v.Inst == "decode" && v.Verdict.String() == "clean" {
				c++
			}
		}
		return c
	}
	before := clean()
	await(t, "clean handoffs again", func() bool { n++; p.handoff(rnd, n); return clean() > before+2 })
	if found := slices.DeleteFunc(p.b.kinds(), func(k string) bool { return k == "blind" }); len(found) > 0 {
		t.Errorf("accused: %v", found)
		p.b.mu.Lock()
		for _, f := range p.b.findings {
			if f.Inst == "decode" && f.Kind.String() != "blind" {
				t.Logf("%+v", f)
			}
		}
		p.b.mu.Unlock()
	}
	st := p.link.Status()
	t.Logf("%d handoffs, %d clean; ends %v", n, clean(), st.Ends)
	if st.Ends == [NumEnd]uint64{} {
		t.Error("nothing happened to the link")
	}
}

// handoff is one of two pages that is as it should be; one in four is given up by
// decode, which frees the pages when prefill has said that they are drained.
func (p *pair) handoff(rnd *rand.Rand, n int) {
	room, req := strconv.Itoa(100+n), "d-"+strconv.Itoa(n)
	first := uint32(1 + 2*(n%7))
	pages := lifecycle.Runs{{First: first, Count: 2}}
	info := scheduler.Info{Req: kvcache.Req(100 + n), Room: scheduler.Room(100 + n), PromptTokens: 32}
	xfer := kvcache.Xfer(100 + n)
	source := []kvcache.Run{{First: kvcache.PageID(first), Count: 2}}
	pause := func() { time.Sleep(time.Duration(rnd.Int64N(int64(4 * time.Millisecond)))) }

	p.tell(lifecycle.Fact{Ev: lifecycle.RequestAdmitted, Req: req, Room: room, PromptTokens: lifecycle.Some(int64(32))})
	p.prefill.Admitted(p.at(), info, 0)
	p.pool.Reserved(p.at(), info.Req, source)
	p.pool.Written(p.at(), info.Req, kvcache.ByForward, source, 32)
	p.tell(lifecycle.Fact{Ev: lifecycle.PagesReserved, Pool: "kv", Pages: pages, Req: req, Room: room})
	p.tell(lifecycle.Fact{Ev: lifecycle.TransferStarted, Xfer: "x", Room: room, Req: req, Side: lifecycle.Receiver, Pool: "kv", Pages: pages, Peer: "prefill", Op: lifecycle.Push})
	pause()
	p.prefill.TransferStarted(p.at(), info, xfer, scheduler.Sender, "decode", []kvcache.PageID{kvcache.PageID(first), kvcache.PageID(first + 1)})
	p.writes(uint64(first))
	pause()
	givesUp := rnd.IntN(4) == 0
	if givesUp {
		p.tell(lifecycle.Fact{Ev: lifecycle.RequestAborted, Req: req, Room: room, Reason: "time out"})
	}
	p.writes(uint64(first + 1))
	p.prefill.TransferCompleted(p.at(), info, xfer, scheduler.Sender, "decode", true, scheduler.Extent{}, true)
	p.prefill.TransferDrained(p.at(), info.Room, xfer, scheduler.Sender, "decode")
	p.pool.Released(p.at(), info.Req, source)
	p.prefill.Finished(p.at(), info, scheduler.Outcome{Status: 200})
	pause()
	if givesUp {
		p.tell(lifecycle.Fact{Ev: lifecycle.TransferDrained, Xfer: "x", Room: room, Peer: "prefill"})
	} else {
		p.tell(lifecycle.Fact{
			Ev: lifecycle.TransferCompleted, Xfer: "x", Room: room, Peer: "prefill", Outcome: lifecycle.OK, Last: true, Tokens: lifecycle.Some(int64(32)),
		})
	}
	p.tell(lifecycle.Fact{Ev: lifecycle.RequestFinished, Req: req, Room: room, HTTPStatus: 200, Finish: map[bool]lifecycle.Finish{true: lifecycle.FinishAbort, false: lifecycle.FinishStop}[givesUp]})
	p.tell(lifecycle.Fact{Ev: lifecycle.PagesReleased, Req: req, Pool: "kv", Pages: pages})
}
