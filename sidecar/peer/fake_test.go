package peer

import (
	"bufio"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// fake serves as a test wants it to: it greets as it should, answers for the time, and
// then does what then says, once the streams were asked for.
type fake struct {
	h       *host
	address string
	own     []string
	jump    atomic.Int64 // what its clock is set by
	mute    atomic.Bool  // it says nothing any more
}

// talk is a connection of one who dialled a fake.
type talk struct {
	net.Conn
	f      *fake
	in     *frames
	number uint64
	last   []byte // frame
	broken bool
}

func newFake(h *host, then func(*talk)) *fake {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		h.t.Fatal(err)
	}
	f := &fake{h: h, address: l.Addr().String(), own: h.own}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			f.serve(&talk{Conn: conn, f: f, in: &frames{in: bufio.NewReader(conn)}}, then)
		}
	}()
	h.t.Cleanup(func() { l.Close(); <-done })
	return f
}

// say sends a frame; false: the other side is gone.
func (c *talk) say(k kind, fill func([]byte) []byte) bool {
	c.last = appendFrame(nil, k, c.number, c.f.h.now()+c.f.jump.Load(), fill)
	c.number++
	return c.raw(c.last)
}

func (c *talk) raw(b []byte) bool {
	_ = c.SetWriteDeadline(time.Now().Add(wait))
	_, err := c.Write(b)
	c.broken = c.broken || err != nil
	return !c.broken
}

func (c *talk) fact(f lifecycle.Fact) bool { return c.say(kindFact, f.AppendMsgpack) }

// serve greets, and answers until the streams are asked for.
func (f *fake) serve(c *talk, then func(*talk)) {
	defer c.Close()
	nonce := newNonce()
	c.say(kindHello, asJSON(greeting{Version: Version, Node: f.h.node, Nonce: nonce}))
	first, err := c.in.Next()
	if err != nil {
		return
	}
	g, err := parse[greeting](first, kindHello)
	if err != nil {
		return
	}
	c.say(kindWelcome, asJSON(welcome{Proof: proofOf(token, roleServes, g.Nonce, nonce)}))
	c.say(kindInstances, asJSON(f.own))
	for begun := false; !c.broken; {
		_ = c.SetReadDeadline(time.Now().Add(wait))
		m, err := c.in.Next()
		if err != nil {
			return
		}
		switch {
		case f.mute.Load():
		case m.kind == kindPing:
			times, err := parseTimes(m, kindPing, 1)
			if err != nil {
				return
			}
			c.say(kindPong, asTimes(times[0], f.h.now()+f.jump.Load()))
			c.say(kindMark, asTimes(0))
		case m.kind == kindFollow && !begun && then != nil:
			begun = true
			then(c)
		}
	}
}

// claim is a fact that an engine of the fake may say.
func claim(inst string, ev lifecycle.Ev, seq uint64, at int64) lifecycle.Fact {
	return lifecycle.Fact{
		T: at, Node: "anything", Inst: inst, Src: lifecycle.Engine, Ev: ev, Epoch: lifecycle.Some(uint64(1)), Seq: lifecycle.Some(seq),
	}
}

// linked is a host that dialled a fake, patient with what is slow alone.
func linked(t testing.TB, f *fake, patience time.Duration) (*host, *Link) {
	h := newHost(t, "node-b", 0, "decode")
	return h, h.dial(f.address, func(c *LinkConfig) { c.Patience = patience })
}
