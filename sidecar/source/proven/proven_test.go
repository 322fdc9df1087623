package proven

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	wire "github.com/kvwitness/kvwitness/engine/pdwire"
	"github.com/kvwitness/kvwitness/engine/zmtp"
	"github.com/kvwitness/kvwitness/sidecar/probe"
	control "github.com/kvwitness/kvwitness/sidecar/source/pdwire"
	"github.com/kvwitness/kvwitness/sidecar/source/socket"
	"github.com/kvwitness/kvwitness/sidecar/source/tcpxfer"
)

// Promise: a handoff is told as it was, each message once although both ends were
// watched, with its instances, its pages and its writer.
func TestAHandoffIsToldOnce(t *testing.T) {
	w := proved(t)
	w.request(7, 5, 6, 9)
	w.moved(1, 5, nil)
	w.status(7, wire.StatusTransferring)
	w.status(7, wire.StatusSuccess)
	w.mark()
	for _, f := range w.facts {
		if f.Inst != decodeName || f.Node != "n" || f.T == 0 {
			t.Errorf("%+v", f)
		}
		switch f.Ev {
		case lifecycle.TransferStarted, lifecycle.TransferCompleted:
			if f.Peer != prefillName || f.Src != lifecycle.Wire || f.Xfer == "" {
				t.Errorf("%+v", f)
			}
		case lifecycle.BytesMoved:
			if f.From != prefillName || f.Src != lifecycle.TCP || f.Addr != base+5*stride || f.Bytes != stride || f.Op != lifecycle.Write || f.Outcome != lifecycle.OK {
				t.Errorf("%+v", f)
			}
		}
	}
	w.expect("a handoff", "transfer_started 7 5-6, 9; bytes_moved; transfer_completed 7 ok")
	if s := w.Stats(); s.Twice != 4 || s.Unplaced+s.Unread+s.Malformed+s.Late != 0 {
		t.Errorf("%+v", s)
	}
}

// Promise: one end is enough for the words, and the receiver's for the bytes.
func TestOneEndIsEnough(t *testing.T) {
	for name, seen := range map[string][2]uint32{"decode": {decodeProcess, 0}, "prefill": {0, prefillProcess}} {
		w := newWorld(t)
		r := &wire.Registration{Address: decodeAddress, Session: decodeSession, KVPtrs: []uint64{base}, KVItemBytes: stride, DCPSize: 1}
		w.say(toPrefill, seen[0], seen[1], r.Frames())
		q := &wire.TransferRequest{Room: 7, Address: decodeAddress, Session: decodeSession, Pages: []int32{1}, AuxIndex: 1}
		w.say(toPrefill, seen[0], seen[1], q.Frames())
		w.say(toDecode, seen[1], seen[0], (&wire.Status{Room: 7, Status: wire.StatusFailed}).Frames())
		w.expect(name, "pool_opened; transfer_started 7 1; transfer_completed 7 failed")
	}
}

// Promise: facts come in the order of their times, in whatever order the two
// rings were emptied.
func TestFactsComeInTheOrderOfTheirTimes(t *testing.T) {
	for seed := range uint64(20) {
		w := proved(t)
		first := len(w.held)
		w.request(7, 5)
		w.moved(1, 5, nil)
		w.status(7, wire.StatusSuccess)
		w.request(8, 6)
		waiting := w.held[first:]
		// Each ring keeps its own order.
		r := rand.New(rand.NewPCG(seed, 0))
		r.Shuffle(len(waiting), func(i, j int) { waiting[i], waiting[j] = waiting[j], waiting[i] })
		if w.facts != nil {
			t.Fatal("facts were said before their time had come")
		}
		w.expect(fmt.Sprint("seed ", seed), "transfer_started 7 5; bytes_moved; transfer_completed 7 ok; transfer_started 8 6")
	}
}

// Promise: sight is complete only while nothing stands against it, and what does
// is said once, with its reason.
func TestSightIsWithdrawnWithItsReason(t *testing.T) {
	second := func(kind tcpxfer.Kind, reason tcpxfer.Reason) func(*world) {
		return func(w *world) {
			w.tell(tcpxfer.Record{Kind: kind, Reason: reason, Inode: 2, Ends: socket.Ends{Local: transfers.Local, Remote: at("10.0.0.2:7000")}})
		}
	}
	for name, c := range map[string]struct {
		do         func(*world)
		said       string
		after      string // of a further write over the first connection
		reason     string
		recovering func(*world)
		recovered  string
	}{
		"a connection becomes blind": {
			do: func(w *world) {
				w.tell(tcpxfer.Record{Kind: tcpxfer.Blind, Reason: tcpxfer.Hole, Inode: 1, Ends: transfers})
			},
			said: "unseen", after: "bytes_moved; unseen", reason: "went by unseen",
			recovering: func(w *world) { w.tell(tcpxfer.Record{Kind: tcpxfer.Joined, Inode: 1, Ends: transfers}) },
			recovered:  "bytes_moved; unseen; bytes_moved; seen",
		},
		"part of a payload is not seen": {
			do:   func(w *world) { w.moved(1, 4, func(r *tcpxfer.Record) { r.Holed = true }) },
			said: "unseen", after: "bytes_moved; seen", reason: "part of a payload",
		},
		"the ring was full": {
			do:   func(w *world) { w.counts.TransferLost++ },
			said: "events_lost tcp", after: "bytes_moved; seen", reason: "ring",
		},
		"another connection to the port is blind": {
			do: second(tcpxfer.Blind, tcpxfer.NoHeader), said: "unseen", after: "bytes_moved; unseen", reason: "header",
			recovering: second(tcpxfer.Closed, 0), recovered: "bytes_moved; seen; bytes_moved",
		},
		"more connections than can be followed": {
			do: func(w *world) { w.counts.TransferFull++ }, said: "events_lost tcp", after: "bytes_moved; unseen", reason: "followed",
		},
		"memory is registered anew": {
			do: func(w *world) {
				r := &wire.Registration{Address: decodeAddress, Session: decodeSession, KVPtrs: []uint64{base, base + 1<<30}, KVItemBytes: stride, DCPSize: 1}
				w.say(toPrefill, decodeProcess, prefillProcess, r.Frames())
			},
			said: "pool_closed; unseen; pool_opened", after: "bytes_moved; seen", reason: "registered anew",
		},
		"a staging buffer": {
			do: func(w *world) {
				r := &wire.Registration{Address: decodeAddress, Session: decodeSession, KVPtrs: []uint64{base, base + 1<<30}, KVItemBytes: stride, StagingPtr: 1, DCPSize: 1}
				w.say(toPrefill, decodeProcess, prefillProcess, r.Frames())
			},
			said: "pool_closed; unseen; pool_opened", after: "bytes_moved; unseen", reason: "registered anew",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := proved(t)
			c.do(w)
			w.mark()
			var reasons []string
			for _, f := range w.facts {
				reasons = append(reasons, f.Reason)
			}
			if got := strings.Join(reasons, " "); !strings.Contains(got, c.reason) {
				t.Errorf("the reason is %q", got)
			}
			w.expect("what happened", c.said)
			w.moved(1, 5, nil)
			w.expect("a further write", c.after)
			if c.recovering != nil {
				c.recovering(w)
				w.moved(1, 5, nil)
				w.moved(1, 6, nil)
				w.expect("after recovery", c.recovered)
			}
		})
	}
}

// Promise: who did not hear that a path is seen, since it heard later that the
// instance had restarted, hears it again.
func TestSightIsDeclaredAnewNowAndThen(t *testing.T) {
	w := proved(t)
	w.moved(1, 5, nil)
	w.expect("at once", "bytes_moved")
	w.clock += sayAgain
	w.moved(1, 5, nil)
	w.moved(1, 6, nil)
	w.expect("a second later", "bytes_moved; seen; bytes_moved")
}

// Promise: a stranger on the port of a peer's transfers keeps its sight from
// being declared; one on another port does not.
func TestAStrangerOnTheSamePortIsNotOverlooked(t *testing.T) {
	for port, want := range map[string]string{"10.0.0.1:300": "pool_opened; bytes_moved; unseen", "10.0.0.1:8000": "pool_opened; bytes_moved; seen"} {
		w := newWorld(t)
		w.tell(tcpxfer.Record{Kind: tcpxfer.Client, Inode: 9, Ends: otherEnd(transfers)})
		w.tell(tcpxfer.Record{Kind: tcpxfer.Stranger, Inode: 2, Ends: socket.Ends{Local: at(port), Remote: at("10.0.0.2:6000")}})
		w.register(decodeSession)
		w.moved(1, 3, nil)
		w.expect("stranger at "+port, want)
	}
}

// Promise: who comes late to SGLang is told that the registration was not seen,
// once, and sees everything from the next one on.
func TestLateIsBlindUntilTheNextRegistration(t *testing.T) {
	w := newWorld(t)
	w.tell(tcpxfer.Record{Kind: tcpxfer.Client, Inode: 9, Ends: otherEnd(transfers)})
	w.request(7, 5)
	w.moved(1, 5, nil)
	w.status(7, wire.StatusSuccess)
	w.request(8, 6)
	w.mark()
	if f := w.facts[0]; f.Ev != lifecycle.SourceCoverage || f.Complete || !strings.Contains(f.Reason, "registration not seen") {
		t.Errorf("said first: %+v", f)
	}
	w.expect("late", "unseen; transfer_started 7 5; transfer_completed 7 ok; transfer_started 8 6")
	w.register(decodeSession)
	w.moved(1, 5, nil)
	w.expect("registered again", "pool_opened; bytes_moved; seen")
}

// Promise: vLLM's messages are complete in themselves: the first that is seen
// opens the pool, and a reply is of the request over the same connection.
func TestVLLMsMessagesAreCompleteInThemselves(t *testing.T) {
	w := newWorld(t)
	m := &wire.VLLMTransfer{
		Hostname: "10.0.0.1", Port: 999, Requests: []wire.VLLMRequest{{ID: "a", Transfer: "x", Groups: [][]int64{{3, 4}}}, {ID: "b", Transfer: "y", Groups: [][]int64{{9}}}},
		BaseAddrs: []uint64{base}, BlockBytes: []uint64{stride}, KVBlockBytes: []uint64{stride},
	}
	w.say(toPrefill, decodeProcess, prefillProcess, [][]byte{wire.AppendVLLMTransfer(nil, m)})
	w.moved(1, 3, nil)
	w.say(otherEnd(toPrefill), prefillProcess, decodeProcess, [][]byte{wire.AppendVLLMReply(nil, &wire.VLLMReply{OK: []string{"a"}, Failed: []string{"b"}})})
	w.expect("vLLM", "pool_opened; transfer_started a 3-4; transfer_started b 9; bytes_moved; seen; transfer_completed a ok; transfer_completed b failed")
	w.register(decodeSession) // another instance, by its control address
	w.mark()
	if w.Stats().Instances != 3 {
		t.Errorf("%+v", w.Stats())
	}
}

// Promise: a room that is given up is told so, and drained once the writer says
// so; a process that ends takes its pools with it.
func TestAbortsAndEndsAreTold(t *testing.T) {
	w := proved(t)
	w.request(7, 5)
	w.say(toPrefill, decodeProcess, prefillProcess, (&wire.Abort{Room: 7, Address: decodeAddress}).Frames())
	w.say(toDecode, prefillProcess, decodeProcess, (&wire.AbortAck{Room: 7, PrefillRank: 0}).Frames())
	w.expect("an abort", "transfer_started 7 5; request_aborted; transfer_drained")
	must(t, w.Take(probe.Process, (&probe.Seen{T: w.tick(), PID: prefillProcess, Ended: true}).Append(nil)))
	w.expect("prefill ends", "peer_gone")
	must(t, w.Take(probe.Process, (&probe.Seen{T: w.tick(), PID: decodeProcess, Ended: true}).Append(nil)))
	w.expect("decode ends", "pool_closed")
	if s := w.Stats(); s.Instances != 0 || s.Data != 0 {
		t.Errorf("%+v", s)
	}
}

// Promise: a control connection that is not followed any more is a loss of what
// its instances say, and of theirs only.
func TestALostControlConnectionIsToldOfItsInstances(t *testing.T) {
	w := proved(t)
	r := control.Record{T: w.tick(), Inode: 5001, TGID: decodeProcess, Kind: control.Blind, Reason: control.Hole, Sent: true, Ends: toPrefill}
	must(t, w.Take(probe.Control, controlRecord(&r)))
	w.mark()
	insts := map[string]bool{}
	for _, f := range w.facts {
		insts[f.Inst] = f.Ev == lifecycle.EventsLost && f.Of == lifecycle.Wire
	}
	if len(insts) != 2 || !insts[decodeName] || !insts[prefillName] {
		t.Errorf("told of %v", insts)
	}
	r.Kind, r.T = control.Refused, w.tick()
	must(t, w.Take(probe.Control, controlRecord(&r)))
	w.mark()
	if len(w.problems) != 1 || !strings.Contains(w.problems[0], "encrypted") {
		t.Errorf("problems %q", w.problems)
	}
}

// Promise: instances, rooms and connections are bounded; beyond that nothing is
// said, and it is counted.
func TestWhatIsRememberedIsBounded(t *testing.T) {
	w := proved(t)
	for i := range MaxRooms + 100 {
		w.request(int64(i+1), 1)
		if i%1000 == 0 {
			w.mark()
		}
	}
	for i := range uint64(MaxData + 100) {
		w.tell(tcpxfer.Record{Kind: tcpxfer.Stranger, Inode: i + 10, Ends: transfers})
	}
	for i := range MaxInstances + 100 {
		a := wire.Address{Host: fmt.Sprint("h", i), Port: 1}
		r := &wire.Registration{Address: a, KVPtrs: []uint64{base}, KVItemBytes: stride, DCPSize: 1}
		w.say(toPrefill, decodeProcess, 0, r.Frames())
	}
	w.mark()
	s := w.Stats()
	if s.Rooms > MaxRooms || s.Data > MaxData || s.Instances > MaxInstances || s.Flows > MaxFlows || s.Forgotten == 0 || s.Held != 0 {
		t.Errorf("%+v", s)
	}
}

// Whatever frames come, from a probe and so from engines: no panic, and the
// bounds hold.
func FuzzStateHoldsItsBounds(f *testing.F) {
	overTCP := newWorld(f)
	overTCP.register(decodeSession)
	overTCP.moved(1, 3, nil)
	overVerbs := newWorld(f)
	overVerbs.join(true)
	overVerbs.device(prefillProcess, 0x1800, true, "")
	overVerbs.writes(3, 4)
	overVerbs.complete(completion{Number: 17, Opcode: 1})
	for _, w := range []*world{overTCP, overVerbs} {
		var seed []byte
		for _, h := range w.held {
			seed = binary.LittleEndian.AppendUint16(append(seed, byte(h.kind)), uint16(len(h.b)))
			seed = append(seed, h.b...)
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		w := newWorld(t)
		for len(b) > 3 {
			k, n := probe.Kind(b[0]), min(int(binary.LittleEndian.Uint16(b[1:])), len(b)-3)
			_ = w.Take(k, b[3:3+n])
			b = b[3+n:]
		}
		_ = w.Take(probe.Progress, (&probe.Mark{T: 1 << 62}).Append(nil))
		if s := w.Stats(); s.Instances > MaxInstances || s.Data > MaxData || s.Held < 0 {
			t.Fatalf("%+v", s)
		}
	})
}

// Promise: a new connection between the ports of one that is gone is another, and
// its messages count, also where its greeting was lost.
func TestANewConnectionBetweenTheSamePortsIsAnother(t *testing.T) {
	w := proved(t)
	for room := range int64(5) {
		w.request(room+1, 5)
	}
	w.mark()
	w.facts = nil
	q := &wire.TransferRequest{Room: 9, Address: decodeAddress, Session: decodeSession, Pages: []int32{1}, AuxIndex: 1}
	b := zmtp.AppendMessage(nil, q.Frames()...)
	r := control.Record{T: w.tick(), Inode: 77, Length: uint64(len(b)), TGID: decodeProcess, Kind: control.Data, Sent: true, Begins: true, Ends: toPrefill, Data: b}
	must(t, w.Take(probe.Control, controlRecord(&r)))
	w.expect("another socket", "transfer_started 9 1")
}

// Promise: what is told of a message that is not understood quotes nothing of it,
// and is told a bounded number of times.
func TestProblemsQuoteNothingAndAreBounded(t *testing.T) {
	const secret = "somebody's prompt"
	w := proved(t)
	for range MaxProblems + 10 {
		w.say(toPrefill, decodeProcess, 0, [][]byte{[]byte("17"), []byte("h"), []byte(secret), []byte(secret), []byte(secret), []byte("x"), []byte("y")})
		w.say(toPrefill, decodeProcess, 0, [][]byte{append([]byte("\x82\xafremote_hostname\xa1h\xb1"), secret...)})
	}
	w.mark()
	if n := len(w.problems); n != MaxProblems || w.Stats().Unread != 2*(MaxProblems+10) {
		t.Errorf("%d problems, %+v", n, w.Stats())
	}
	for _, p := range w.problems {
		if strings.Contains(p, secret) {
			t.Fatalf("told %q", p)
		}
	}
}

// Promise: of the NIXL flavour the pools and the pages are told, and no end.
func TestNixlsPoolsAndPagesAreTold(t *testing.T) {
	w := newWorld(t)
	r := &wire.NixlRegistration{Address: decodeAddress, Agent: "a", KVPtrs: []uint64{base}, AuxPtrs: []uint64{1}, KVItemBytes: stride}
	w.say(toPrefill, decodeProcess, prefillProcess, r.Frames())
	q := &wire.NixlRequest{Room: 7, Address: decodeAddress, Agent: "a", Pages: []int32{4, 5}, AuxIndex: 1, RequiredDst: 1}
	w.say(toPrefill, decodeProcess, prefillProcess, q.Frames())
	w.expect("NIXL", "pool_opened; transfer_started 7 4-5")
}
