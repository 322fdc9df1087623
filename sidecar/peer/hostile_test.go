package peer

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/intake"
)

// ended waits until a connection has ended for that reason.
func ended(t testing.TB, l *Link, why End) {
	t.Helper()
	await(t, "an end: "+why.String(), func() bool { return l.Status().Ends[why] > 0 })
	await(t, "a sum that is right", func() bool {
		st := l.Status()
		sum := st.Taken + st.Twice + st.PassedOver
		for _, n := range st.Lost {
			sum += n
		}
		return st.Received == sum
	})
}

// Promise: what is not a peer's to say does not reach the judge, and ends the
// connection.
func TestWhatIsNotThePeersToSayIsRefused(t *testing.T) {
	a := newHost(t, "node-a", time.Hour, "prefill")
	covers := lifecycle.Fact{Inst: "decode", Src: lifecycle.Sidecar, Ev: lifecycle.SourceCoverage, Of: lifecycle.RDMA, Complete: true, Peer: "prefill"}
	bytes := lifecycle.Fact{Inst: "decode", Src: lifecycle.RDMA, Ev: lifecycle.BytesMoved, Addr: 1, Bytes: 1, From: "prefill", Outcome: lifecycle.OK}
	with := func(f lifecycle.Fact, change func(*lifecycle.Fact)) lifecycle.Fact { change(&f); return f }
	for name, f := range map[string]lifecycle.Fact{
		"a claim of our engine":             claim("decode", lifecycle.PeerGone, 1, 0),
		"a claim of a third node's engine":  claim("other", lifecycle.PeerGone, 1, 0),
		"an observation as a claim":         with(bytes, func(f *lifecycle.Fact) { f.Src = lifecycle.Engine }),
		"bytes in its own memory":           with(bytes, func(f *lifecycle.Fact) { f.Inst = "prefill" }),
		"bytes of a third node's engine":    with(bytes, func(f *lifecycle.Fact) { f.From = "other" }),
		"sight of all of our peers":         with(covers, func(f *lifecycle.Fact) { f.Peer = "" }),
		"sight of a third node's writes":    with(covers, func(f *lifecycle.Fact) { f.Peer = "other" }),
		"sight of its own memory":           with(covers, func(f *lifecycle.Fact) { f.Inst = "prefill" }),
		"sight of a source of claims":       with(covers, func(f *lifecycle.Fact) { f.Of = lifecycle.Wire }),
		"a loss of ours":                    {Inst: "decode", Src: lifecycle.Sidecar, Ev: lifecycle.EventsLost, Of: lifecycle.Engine, Count: 1},
		"a loss of a whole node":            {Src: lifecycle.Sidecar, Ev: lifecycle.EventsLost, Of: lifecycle.TCP, Count: 1},
		"a clock":                           {Src: lifecycle.Sidecar, Ev: lifecycle.ClockOffset, NS: 1},
		"a message on the wire":             with(claim("prefill", lifecycle.PeerGone, 1, 0), func(f *lifecycle.Fact) { f.Src = lifecycle.Wire }),
		"a claim of no epoch":               with(claim("prefill", lifecycle.PeerGone, 1, 0), func(f *lifecycle.Fact) { f.Epoch = lifecycle.Opt[uint64]{} }),
		"a driver's word":                   {Src: lifecycle.NVML, Ev: lifecycle.VRAMUsage, Inst: "decode", Bytes: 1, VRAM: &lifecycle.Usage{GPU: "0", PID: 1}},
		"a registration of our memory":      {Src: lifecycle.RDMA, Ev: lifecycle.RegionRegistered, Inst: "decode", Base: 1, Bytes: 1},
		"a watermark of what is no engine":  with(claim("prefill", lifecycle.Watermark, 1, 0), func(f *lifecycle.Fact) { f.Of = lifecycle.TCP }),
		"bytes of memory that is nobody's":  with(bytes, func(f *lifecycle.Fact) { f.Inst = "nobody" }),
		"an engine's gap told of our probe": {Inst: "prefill", Src: lifecycle.Sidecar, Ev: lifecycle.StreamGap, Of: lifecycle.TCP},
	} {
		fk := newFake(a, func(c *talk) {
			f.T = a.now()
			if f.Peer == "" && f.Ev == lifecycle.PeerGone {
				f.Peer = "decode"
			}
			c.fact(f)
		})
		h, l := linked(t, fk, patient)
		await(t, name+" is refused", func() bool { return l.Status().Ends[NotTheirs] > 0 })
		if n := h.count(func(o *lifecycle.Fact) bool { return o.Node == "node-a" && o.Ev != lifecycle.ClockOffset }); n != 0 {
			t.Errorf("%s: %d facts reached the judge", name, n)
		}
		if st := l.Status(); st.Lost[NotTheirs] == 0 || st.Taken != 0 {
			t.Errorf("%s: %+v", name, st)
		}
	}
}

func TestWhatIsNoneOfTheProtocolEndsTheConnection(t *testing.T) {
	a := newHost(t, "node-a", 0, "prefill")
	for name, send := range map[string]func(*talk){
		"random bytes": func(c *talk) {
			c.raw([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n padded to the length of a frame's head"))
		},
		"a frame of four gigabytes": func(c *talk) {
			b := appendFrame(nil, kindFact, c.number, a.now(), nil)
			binary.BigEndian.PutUint32(b, 1<<32-1)
			c.raw(b)
		},
		"a frame that came before":       func(c *talk) { c.raw(c.last) },
		"a frame out of turn":            func(c *talk) { c.number += 2; c.say(kindMark, asTimes(0)) },
		"a frame of the one who dials":   func(c *talk) { c.say(kindFollow, asJSON([]string{})) },
		"a list that is none":            func(c *talk) { c.say(kindInstances, func(b []byte) []byte { return append(b, "{]"...) }) },
		"a fact that is none":            func(c *talk) { c.say(kindFact, func(b []byte) []byte { return append(b, 0xc1) }) },
		"a time that nobody asked for":   func(c *talk) { c.say(kindPong, asTimes(1, 2)) },
		"a stream in an unknown state":   func(c *talk) { c.say(kindStanding, asJSON(standing{"prefill", "asleep"})) },
		"an instance with a broken name": func(c *talk) { c.say(kindInstances, asJSON([]string{"a\nb"})) },
		"too many instances":             func(c *talk) { c.say(kindInstances, asJSON(make([]string, MaxInstances+1))) },
	} {
		fk := newFake(a, send)
		_, l := linked(t, fk, patient)
		await(t, name+" ends the connection", func() bool { return l.Status().Ends[Malformed] > 0 })
	}
}

// Promise: a fact is taken once, however often it is sent.
func TestAFactIsTakenOnce(t *testing.T) {
	a := newHost(t, "node-a", time.Hour, "prefill")
	const n, times = 50, 4
	fk := newFake(a, func(c *talk) {
		for range times {
			for seq := range uint64(n) {
				f := claim("prefill", lifecycle.PeerGone, seq, a.now())
				f.Peer = "decode"
				c.fact(f)
			}
		}
	})
	h, l := linked(t, fk, patient)
	await(t, "all of them", func() bool { return l.Status().Received == n*times })
	st := l.Status()
	if st.Taken != n || st.Twice != n*(times-1) {
		t.Errorf("%d taken, %d of before", st.Taken, st.Twice)
	}
	await(t, "the judge", func() bool { return h.count(func(f *lifecycle.Fact) bool { return f.Ev == lifecycle.PeerGone }) == n })
}

func TestMoreThanOnePeerMayHaveIsRefused(t *testing.T) {
	a := newHost(t, "node-a", 0, "prefill")
	pool := func(c *talk, name string, pages uint32) bool {
		f := claim("prefill", lifecycle.PoolOpened, c.number, a.now())
		f.Pool, f.Spec = name, &lifecycle.PoolSpec{Pages: pages, PageTokens: 16}
		return c.fact(f)
	}
	for name, send := range map[string]func(*talk){
		"pools": func(c *talk) {
			for i := 0; i <= MaxPools && pool(c, strconv.Itoa(i), 1); i++ {
			}
		},
		"pages": func(c *talk) { pool(c, "kv", 1<<20+1) },
		"peers": func(c *talk) {
			for i := range MaxPeers + 1 {
				f := claim("prefill", lifecycle.PeerGone, c.number, a.now())
				f.Peer = strconv.Itoa(i)
				c.fact(f)
			}
		},
		"instances, one after the other": func(c *talk) {
			for i := 0; i < 5*MaxInstances; i += MaxInstances {
				var names []string
				for k := range MaxInstances {
					names = append(names, fmt.Sprintf("i-%d", i+k))
				}
				c.say(kindInstances, asJSON(names))
			}
		},
	} {
		fk := newFake(a, send)
		_, l := linked(t, fk, patient)
		await(t, "too many "+name, func() bool { return l.Status().Ends[TooMuch] > 0 })
	}
}

// Promise: one who sends as fast as it can is read no faster than is allowed, costs
// bounded memory, and the node's own facts are judged meanwhile.
func TestAFloodIsBounded(t *testing.T) {
	a := newHost(t, "node-a", 0, "prefill")
	fk := newFake(a, func(c *talk) {
		for {
			// One batch to the system at a time, or most of it would go by in system calls.
			var batch []byte
			now := a.now()
			for range 500 {
				f := claim("prefill", lifecycle.PeerGone, c.number, now)
				f.Peer = "decode"
				batch = appendFrame(batch, kindFact, c.number, now, f.AppendMsgpack)
				c.number++
			}
			if !c.raw(appendFrame(batch, kindMark, c.number, now, asTimes(0))) {
				return
			}
			c.number++
		}
	})
	var before, during runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	h, l := linked(t, fk, patient)
	own := h.in.Open("decode", func() intake.Standing { return intake.Live })
	most, judged := uint64(0), 0
	begun := time.Now()
	await(t, "own facts, judged for two seconds of a flood", func() bool {
		h.tell(own, lifecycle.Fact{Ev: lifecycle.PeerGone, Inst: "decode", Peer: "prefill"})
		runtime.ReadMemStats(&during)
		most = max(most, during.HeapInuse)
		judged += h.count(func(f *lifecycle.Fact) bool { return f.Inst == "decode" })
		h.mu.Lock()
		h.facts = nil // that the test itself keeps
		h.mu.Unlock()
		return judged > 10 && time.Since(begun) > 2*time.Second
	})
	received, passed := l.Status().Received, time.Since(begun)
	if grown := int64(most) - int64(before.HeapInuse); grown > 256<<20 {
		t.Errorf("%d MiB more in use", grown>>20)
	}
	if rate := float64(received) / passed.Seconds(); received < 1000 || rate > 1.1*MaxPace {
		t.Errorf("%d facts, %.0f a second", received, rate)
	}
}

// Promise: one whose facts are older than the patience is lost, and counted.
func TestAPeerThatIsBehindIsLost(t *testing.T) {
	a := newHost(t, "node-a", 0, "prefill")
	fk := newFake(a, func(c *talk) {
		f := claim("prefill", lifecycle.PeerGone, 0, a.now())
		f.Peer = "decode"
		c.raw(appendFrame(nil, kindFact, c.number, a.now()-int64(time.Minute), f.AppendMsgpack))
	})
	_, l := linked(t, fk, patient)
	ended(t, l, BehindTime)
}

func TestAPeerThatIsSilentIsLost(t *testing.T) {
	a := newHost(t, "node-a", 0, "prefill")
	fk := newFake(a, nil)
	_, l := linked(t, fk, 3*time.Second)
	await(t, "sight", func() bool { return l.Status().Connected })
	fk.mute.Store(true)
	ended(t, l, Silent)
}

func TestAPeersClockThatIsSetEndsTheConnection(t *testing.T) {
	a := newHost(t, "node-a", 0, "prefill")
	fk := newFake(a, nil)
	_, l := linked(t, fk, patient)
	await(t, "sight", func() bool { return l.Status().Connected })
	fk.jump.Store(int64(10 * time.Second))
	ended(t, l, ClockJumped)
}
