package proven

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	wire "github.com/kvwitness/kvwitness/engine/pdwire"
	"github.com/kvwitness/kvwitness/sidecar/probe"
	"github.com/kvwitness/kvwitness/sidecar/source/socket"
	"github.com/kvwitness/kvwitness/sidecar/source/tcpxfer"
	"github.com/kvwitness/kvwitness/sidecar/source/verbs"
)

// What the devices of both halves are called in the tests.
const (
	prefillContext, decodeContext = 0x1000, 0x2000
	prefillQP, decodeQP           = 0x1100, 0x2100
	writes, reads                 = 0, 4
)

// record is a record of verbs or UCX as the kernel lays it out.
func (w *world) record(of probe.Kind, process uint32, kind, flags uint16, n int, words ...any) {
	w.t.Helper()
	order := binary.NativeEndian
	b := order.AppendUint64(nil, uint64(w.tick()))
	b = order.AppendUint32(order.AppendUint32(b, process), process)
	b = order.AppendUint16(order.AppendUint16(b, kind), flags)
	b = order.AppendUint32(b, uint32(n))
	for _, v := range words {
		var err error
		if b, err = binary.Append(b, order, v); err != nil {
			w.t.Fatal(err)
		}
	}
	must(w.t, w.Take(of, b))
}

func (w *world) verbsRecord(process uint32, k verbs.Kind, flags verbs.Flags, n int, words ...any) {
	w.t.Helper()
	w.record(probe.Verbs, process, uint16(k), uint16(flags), n, words...)
}

// device opens a context, which the probe attaches to at once; why: it cannot.
func (w *world) device(process uint32, context uint64, ends bool, why string) {
	w.t.Helper()
	w.verbsRecord(process, verbs.KindContext, 0, 0, context, uint64(1), uint64(2), ^uint64(0), uint64(0))
	a := probe.Attached{T: w.tick(), PID: process, Seen: why == "", Ends: ends, Context: context, Reason: why}
	must(w.t, w.Take(probe.Sight, a.Append(nil)))
}

// pair connects a queue pair to a number at an address.
func (w *world) pair(process uint32, context, qp uint64, number, to uint32, at string) {
	w.t.Helper()
	gid := netip.MustParseAddr(at).As16()
	mask := uint32(verbs.AttrState | verbs.AttrAV | verbs.AttrDestQP)
	w.verbsRecord(process, verbs.KindQP, 0, 0, qp, context, uint64(1), uint64(2), ^uint64(0), number, mask, uint32(2), to, gid, uint32(1), uint64(0), uint32(0))
}

type extent struct {
	Remote, Local, Bytes, WRID uint64
	RKey, Requests             uint32
	Op, Signaled               uint8
	Pad                        [6]uint8
}

func (w *world) post(process uint32, context, qp uint64, number uint32, flags verbs.Flags, all ...extent) {
	w.t.Helper()
	requests := uint32(0)
	for _, e := range all {
		requests += e.Requests
	}
	w.verbsRecord(process, verbs.KindPosted, flags, len(all), context, qp, number, requests, uint64(1), all)
}

// page is a request that moves one page of the first region.
func page(n uint64, op uint8) extent {
	return extent{Remote: base + n*stride, Local: 0x5000 + n*stride, Bytes: stride, RKey: 7, Requests: 1, Op: op, Signaled: 1}
}

type completion struct {
	WRID           uint64
	Number         uint32
	Status, Opcode uint16
}

func (w *world) complete(all ...completion) {
	w.t.Helper()
	w.verbsRecord(prefillProcess, verbs.KindCompleted, 0, len(all), uint64(prefillContext), all)
}

// joined is a world with a registration and queue pairs between the two processes
// of this node.
func joinedByVerbs(t testing.TB, ends bool) *world {
	t.Helper()
	w := newWorld(t)
	w.join(ends)
	w.expect("nothing was written", "pool_opened")
	return w
}

func (w *world) join(ends bool) {
	w.t.Helper()
	w.device(prefillProcess, prefillContext, ends, "")
	w.device(decodeProcess, decodeContext, ends, "")
	w.pair(decodeProcess, decodeContext, decodeQP, 18, 17, "127.0.0.1")
	w.pair(prefillProcess, prefillContext, prefillQP, 17, 18, "127.0.0.1")
	w.register(decodeSession)
}

func (w *world) writes(list ...uint64) {
	w.t.Helper()
	var all []extent
	for _, n := range list {
		all = append(all, page(n, writes))
	}
	w.post(prefillProcess, prefillContext, prefillQP, 17, 0, all...)
}

// Promise: what is posted is told of whose memory it goes into, from where, by
// which queue pair, and completes the sight of that peer over RDMA.
func TestWhatIsPostedIsToldOfItsReceiver(t *testing.T) {
	w := joinedByVerbs(t, false)
	w.writes(3)
	w.mark()
	f := w.facts[0]
	if f.Inst != decodeName || f.From != prefillName || f.Src != lifecycle.RDMA || f.Outcome != lifecycle.Posted || f.Addr != base+3*stride ||
		f.Bytes != stride || f.FromAddr.V != 0x5000+3*stride || f.RKey.V != 7 || f.QP.V != 17 || f.Op != lifecycle.Write {
		t.Errorf("%+v", f)
	}
	if c := w.facts[1]; c.Of != lifecycle.RDMA || c.Peer != prefillName || !c.Complete {
		t.Errorf("%+v", c)
	}
	w.facts = nil
	w.writes(4, 5)
	w.expect("further writes", "bytes_moved; bytes_moved")
}

// Promise: an extent that begins before a pool or goes beyond it is told as far as
// it lies in it; one of 2^63 bytes is no more than that.
func TestExtentsAreCutToThePool(t *testing.T) {
	w := joinedByVerbs(t, false)
	all := extent{Remote: base - 100, Local: 1000, Bytes: 1 << 63, Requests: 1}
	w.post(prefillProcess, prefillContext, prefillQP, 17, 0, all)
	w.mark()
	f := w.facts[0]
	// The two regions of the test touch.
	if f.Addr != base || f.Bytes != 2*pages*stride || f.FromAddr.V != 1100 {
		t.Errorf("%+v", f)
	}
}

// Promise: bytes are never placed by their address alone. Of instances with the
// same addresses it is the one that the queue pair leads to; if it leads nowhere
// that is known, whom it may lead to is not seen any more, and nobody else.
func TestBytesAreNeverPlacedByTheirAddressAlone(t *testing.T) {
	const there, other = "10.0.0.8:100", "10.0.0.9:100"
	start := func() *world {
		w := newWorld(t)
		w.device(prefillProcess, prefillContext, false, "")
		for i, host := range []string{"10.0.0.8", "10.0.0.9"} {
			r := &wire.Registration{Address: wire.Address{Host: host, Port: 100}, Session: host + ":999", KVPtrs: []uint64{base}, KVItemBytes: stride, DCPSize: 1}
			// A rank each, in one process.
			e := socket.Ends{Local: netip.AddrPortFrom(netip.MustParseAddr(host), 5001), Remote: netip.AddrPortFrom(prefillAt.Addr(), uint16(200+i))}
			w.say(e, 0, prefillProcess, r.Frames())
		}
		w.expect("two registrations", "pool_opened; pool_opened")
		return w
	}
	told := func(w *world) string {
		w.mark()
		var out []string
		for _, f := range w.facts {
			text := f.Ev.String() + " " + f.Inst
			if f.Ev == lifecycle.SourceCoverage && !f.Complete {
				text = "unseen " + f.Inst
			}
			out = append(out, text)
		}
		w.facts = nil
		return strings.Join(out, "; ")
	}
	for at, want := range map[string]string{
		"10.0.0.8":  "bytes_moved " + there + "; source_coverage " + there,
		"10.0.0.9":  "bytes_moved " + other + "; source_coverage " + other,
		"10.0.0.7":  "unseen " + there + "; unseen " + other,
		"127.0.0.1": "unseen " + there + "; unseen " + other,
	} {
		w := start()
		w.pair(prefillProcess, prefillContext, prefillQP, 17, 18, at)
		w.writes(3)
		if got := told(w); sorted(got) != sorted(want) {
			t.Errorf("it leads to %s: told %s, want %s", at, got, want)
		}
	}
	w := start()
	w.writes(3)
	if got, want := told(w), "unseen "+there+"; unseen "+other; sorted(got) != sorted(want) {
		t.Errorf("it was connected unseen: told %s", got)
	}
	w = start()
	w.post(prefillProcess, prefillContext, prefillQP, 17, 0, extent{Remote: 1 << 20, Bytes: stride, Requests: 1})
	if got := told(w); got != "" {
		t.Errorf("nobody has that address: told %s", got)
	}
}

func sorted(list string) string {
	all := strings.Split(list, "; ")
	for i := range all {
		for j := range i {
			if all[i] < all[j] {
				all[i], all[j] = all[j], all[i]
			}
		}
	}
	return strings.Join(all, "; ")
}

// Promise: queue pairs of two processes that answer to the same numbers lead
// nowhere that is known; a queue pair of another node with the same numbers is
// none of them.
func TestNumbersThatSeveralAnswerToLeadNowhere(t *testing.T) {
	w := joinedByVerbs(t, false)
	w.device(33, 0x3000, false, "")
	w.pair(33, 0x3000, 0x3100, 18, 17, "127.0.0.1")
	w.writes(3)
	w.expect("two answer", "unseen")
	w = joinedByVerbs(t, false)
	w.pair(prefillProcess, prefillContext, prefillQP, 17, 18, "10.0.0.7")
	w.writes(3)
	w.expect("it leads to another node", "")
}

// Promise: sight over RDMA is complete only while nothing stands against it, and
// what does is said with its reason.
func TestSightOverVerbsIsWithdrawnWithItsReason(t *testing.T) {
	for name, c := range map[string]struct {
		do          func(*world)
		said, after string // of a further write
		reason      string
	}{
		"another device cannot be attached to": {
			func(w *world) { w.device(prefillProcess, 0x1800, false, "no provider") }, "unseen", "bytes_moved", "just been opened",
		},
		"the probe finds a device that is not known": {
			func(w *world) {
				a := probe.Attached{T: w.tick(), PID: prefillProcess, Reason: "it opened uverbs1"}
				must(w.t, w.Take(probe.Sight, a.Append(nil)))
			}, "unseen", "bytes_moved", "uverbs1",
		},
		"it gets at a doorbell": {
			func(w *world) { w.verbsRecord(prefillProcess, verbs.KindBypass, 0, 0, uint64(0)) }, "unseen", "bytes_moved", "rings doorbells",
		},
		"a chain was too long": {
			func(w *world) {
				w.post(prefillProcess, prefillContext, prefillQP, 17, verbs.Truncated, page(4, writes))
			},
			"bytes_moved; unseen", "bytes_moved; seen", "to their end",
		},
		"a queue pair that was connected unseen writes there": {
			func(w *world) { w.post(prefillProcess, prefillContext, 0x1900, 19, 0, page(4, writes)) }, "unseen", "bytes_moved", "connected unseen",
		},
		"requests were lost": {
			func(w *world) { w.counts.VerbsLost++ }, "events_lost rdma", "bytes_moved; seen", "was full",
		},
		"records of queue pairs were lost": {
			func(w *world) { w.counts.VerbsLost++; w.counts.VerbsUntold++ }, "events_lost rdma", "unseen", "was full",
		},
		"its bytes come over TCP too": {
			func(w *world) {
				w.tell(tcpxfer.Record{Kind: tcpxfer.Client, Inode: 9, Ends: otherEnd(transfers)})
				w.moved(1, 5, nil)
			}, "bytes_moved; unseen; unseen", "bytes_moved", "TCP and over RDMA",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := joinedByVerbs(t, false)
			w.writes(3)
			w.expect("a write is mapped", "bytes_moved; seen")
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
			w.writes(4)
			w.mark()
			if got := strings.TrimSuffix(w.said(), "; unseen"); got != c.after { // the reason may be another now
				t.Errorf("a further write: said %s, want %s", got, c.after)
			}
		})
	}
}

// Promise: sight over TCP ends once bytes of that peer come over RDMA.
func TestSightOverTCPEndsWithRDMA(t *testing.T) {
	w := joinedByVerbs(t, false)
	w.tell(tcpxfer.Record{Kind: tcpxfer.Client, Inode: 9, Ends: otherEnd(transfers)})
	w.moved(1, 3, nil)
	w.expect("a write over TCP", "bytes_moved; seen")
	w.writes(4)
	w.mark()
	for _, f := range w.facts[1:] {
		if f.Complete || f.Of != lifecycle.TCP && f.Of != lifecycle.RDMA {
			t.Errorf("%+v", f)
		}
	}
	w.expect("a write over RDMA", "bytes_moved; unseen; unseen")
}

// Promise: a READ is told of who reads, at the address where the bytes arrive.
func TestAReadIsToldOfWhoReads(t *testing.T) {
	w := joinedByVerbs(t, false)
	e := extent{Remote: 0x5000, Local: base + 6*stride, Bytes: stride, Requests: 1, Op: reads}
	w.post(decodeProcess, decodeContext, decodeQP, 18, 0, e)
	w.mark()
	if f := w.facts[0]; f.Inst != decodeName || f.From != prefillName || f.Op != lifecycle.Read || f.Addr != base+6*stride || f.FromAddr.V != 0x5000 {
		t.Errorf("%+v", f)
	}
	w.expect("a read", "bytes_moved; seen")
}

// Promise: where completions are seen, bytes are done when their request is, in
// order; those of a request that failed are not, and where it cannot be told which
// bytes are there, the sight ends.
func TestBytesAreDoneWhenTheirRequestIs(t *testing.T) {
	outcomes := func(w *world) string {
		w.mark()
		var out []string
		for _, f := range w.facts {
			text := f.Outcome.String()
			if f.Ev == lifecycle.SourceCoverage {
				text = map[bool]string{true: "seen", false: "unseen"}[f.Complete]
			}
			out = append(out, text)
		}
		w.facts = nil
		return strings.Join(out, " ")
	}
	done := completion{Number: 17, Opcode: 1}
	merged := page(4, writes)
	merged.Bytes, merged.Requests = 2*stride, 2
	silent := page(8, writes)
	silent.Signaled = 0
	for name, c := range map[string]struct {
		posted []extent
		polled []completion
		want   string
	}{
		"one":               {[]extent{page(4, writes)}, []completion{done}, "posted seen ok"},
		"half of a merged":  {[]extent{merged}, []completion{done}, "posted seen"},
		"a merged one":      {[]extent{merged}, []completion{done, done}, "posted seen ok"},
		"one is silent":     {[]extent{silent, page(4, writes)}, []completion{done}, "posted seen posted ok ok"},
		"a failed one":      {[]extent{page(4, writes)}, []completion{{Number: 17, Status: 10}}, "posted seen error"},
		"failed in part":    {[]extent{merged}, []completion{done, {Number: 17, Status: 10}}, "posted seen unseen"},
		"never posted":      {[]extent{page(4, writes)}, []completion{done, done}, "posted seen ok unseen"},
		"something arrived": {[]extent{page(4, writes)}, []completion{{Number: 17, Opcode: 128}}, "posted seen"},
		"of another pair":   {[]extent{page(4, writes)}, []completion{{Number: 99, Opcode: 1}}, "posted seen"},
	} {
		w := joinedByVerbs(t, true)
		w.post(prefillProcess, prefillContext, prefillQP, 17, 0, c.posted...)
		w.complete(c.polled...)
		if got := outcomes(w); got != c.want {
			t.Errorf("%s: told %s, want %s", name, got, c.want)
		}
	}
}

// Promise: what was posted before records were lost proves nothing, though it is taken
// in only after the loss is known: those that were lost may have come after it. It is
// so for TCP too.
func TestWhatCameBeforeALossProvesNothing(t *testing.T) {
	w := joinedByVerbs(t, false)
	w.writes(3)
	w.expect("a write is mapped", "bytes_moved; seen")
	w.writes(4)
	w.tick() // here they are lost
	w.counts.VerbsLost++
	w.counted = w.tick()
	w.mark()
	w.expect("the loss, and what came before it", "events_lost rdma; bytes_moved")
	w.writes(5)
	w.expect("what comes after", "bytes_moved; seen")

	w = proved(t)
	w.moved(1, 4, nil)
	w.tick()
	w.counts.TransferLost++
	w.counted = w.tick()
	w.mark()
	w.expect("the loss, and what came before it", "events_lost tcp; bytes_moved")
	w.moved(1, 5, nil)
	w.expect("what comes after", "bytes_moved; seen")
}

// Promise: a registration is told once of each memory, also if it came before its
// instance was known, and so is its end.
func TestRegistrationsAreToldOncePerMemory(t *testing.T) {
	w := newWorld(t)
	for _, mr := range []uint64{1, 2} { // of two devices
		w.verbsRecord(decodeProcess, verbs.KindRegion, 0, 0, mr, uint64(base), uint64(8192), uint32(5), uint32(6), uint32(1), uint32(0))
	}
	w.register(decodeSession)
	w.expect("known now", "region_registered; pool_opened")
	w.verbsRecord(decodeProcess, verbs.KindRegionGone, 0, 0, uint64(1))
	w.expect("one of two", "")
	w.verbsRecord(decodeProcess, verbs.KindRegionGone, 0, 0, uint64(2))
	w.mark()
	if f := w.facts[0]; f.Base != base || f.Bytes != 8192 || f.RKey.V != 5 || f.Memory != lifecycle.VRAM || f.Inst != decodeName {
		t.Errorf("%+v", f)
	}
	w.expect("the last", "region_deregistered")
}

// Promise: a writer is gone when its last queue pair to an instance is destroyed.
func TestAWriterIsGoneWithItsLastQueuePair(t *testing.T) {
	w := joinedByVerbs(t, false)
	w.pair(decodeProcess, decodeContext, decodeQP+8, 28, 27, "127.0.0.1")
	w.pair(prefillProcess, prefillContext, prefillQP+8, 27, 28, "127.0.0.1")
	w.writes(3)
	w.post(prefillProcess, prefillContext, prefillQP+8, 27, 0, page(4, writes))
	w.expect("writes", "bytes_moved; seen; bytes_moved")
	w.verbsRecord(prefillProcess, verbs.KindQPGone, 0, 0, uint64(prefillQP))
	w.expect("one is destroyed", "")
	w.verbsRecord(prefillProcess, verbs.KindQPGone, 0, 0, uint64(prefillQP+8))
	w.expect("the other", "peer_gone")
}

// Promise: what waits is counted to the byte, whatever kind it is.
func TestWhatWaitsIsCounted(t *testing.T) {
	w := proved(t)
	w.request(7, 5)
	must(t, w.Take(probe.Gone, binary.LittleEndian.AppendUint64(nil, 77)))
	if w.Stats().Held <= 0 {
		t.Errorf("%d bytes wait", w.Stats().Held)
	}
	w.mark()
	w.mark()
	if n := w.Stats().Held; n != 0 {
		t.Errorf("%d bytes wait", n)
	}
}
