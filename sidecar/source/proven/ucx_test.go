package proven

import (
	"strings"
	"testing"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/probe"
	"github.com/kvwitness/kvwitness/sidecar/source/tcpxfer"
	"github.com/kvwitness/kvwitness/sidecar/source/ucp"
)

// What UCX of both halves is called in the tests.
const (
	prefillWorker, decodeWorker = 0x1200, 0x2200
	prefillEndpoint             = 0x1300
	aRequest                    = 0x1400
	failedCall                  = ^uint64(2) // minus 3
)

// decodeID and prefillID are how the addresses of their workers begin.
var decodeID, prefillID = ucp.ID{0x20, 2}, ucp.ID{0x20, 1}

func (w *world) ucxRecord(process uint32, k ucp.Kind, flags ucp.Flags, words ...any) {
	w.t.Helper()
	w.record(probe.UCX, process, uint16(k), uint16(flags), 0, words...)
}

// loads has a process load UCX, which is attached to; why: it cannot be.
func (w *world) loads(process uint32, worker uint64, id ucp.ID, why string) {
	w.t.Helper()
	a := probe.Attached{T: w.tick(), PID: process, Seen: why == "", UCX: true, Ends: why == "", Reason: why}
	must(w.t, w.Take(probe.Sight, a.Append(nil)))
	w.ucxRecord(process, ucp.KindWorker, 0, worker, id)
}

func (w *world) endpoint(process uint32, endpoint, worker uint64, id ucp.ID) {
	w.t.Helper()
	w.ucxRecord(process, ucp.KindEndpoint, 0, endpoint, worker, id, uint32(1), uint32(0))
}

// moves puts or gets a page, at an address of the other.
func (w *world) moves(process uint32, endpoint, remote, local uint64, op ucp.Op, returned uint64) {
	w.t.Helper()
	w.ucxRecord(process, ucp.KindMoved, 0, endpoint, remote, local, uint64(stride), returned, uint32(op), uint32(0))
}

func (w *world) puts(page, returned uint64) {
	w.t.Helper()
	w.moves(prefillProcess, prefillEndpoint, base+page*stride, 0x5000+page*stride, ucp.Put, returned)
}

// joinedByUCX is a world with a registration, and an endpoint from prefill to decode.
func joinedByUCX(t testing.TB) *world {
	t.Helper()
	w := newWorld(t)
	w.loads(decodeProcess, decodeWorker, decodeID, "")
	w.loads(prefillProcess, prefillWorker, prefillID, "")
	w.endpoint(prefillProcess, prefillEndpoint, prefillWorker, decodeID)
	w.register(decodeSession)
	w.expect("nothing was written", "pool_opened")
	return w
}

// Promise: what UCX puts is told of whose memory it goes into and from where, as
// posted, and completes the sight of that peer over RDMA.
func TestWhatUCXPutsIsToldOfItsReceiver(t *testing.T) {
	w := joinedByUCX(t)
	w.puts(3, 0)
	w.mark()
	f := w.facts[0]
	if f.Inst != decodeName || f.From != prefillName || f.Src != lifecycle.RDMA || f.Outcome != lifecycle.Posted || f.Addr != base+3*stride ||
		f.Bytes != stride || f.FromAddr.V != 0x5000+3*stride || f.QP.Has || f.RKey.Has || f.Op != lifecycle.Write {
		t.Errorf("%+v", f)
	}
	if c := w.facts[1]; c.Of != lifecycle.RDMA || c.Peer != prefillName || !c.Complete {
		t.Errorf("%+v", c)
	}
	w.facts = nil
	w.puts(4, aRequest)
	w.expect("a further one", "bytes_moved")
}

// Promise: what UCX gets is told of who gets it, at the address where it arrives.
func TestWhatUCXGetsIsToldOfWhoGets(t *testing.T) {
	w := joinedByUCX(t)
	w.endpoint(decodeProcess, 0x2300, decodeWorker, prefillID)
	w.moves(decodeProcess, 0x2300, 0x5000, base+6*stride, ucp.Get, 0)
	w.mark()
	if f := w.facts[0]; f.Inst != decodeName || f.From != prefillName || f.Op != lifecycle.Read || f.Addr != base+6*stride || f.FromAddr.V != 0x5000 || f.Outcome != lifecycle.OK {
		t.Errorf("%+v", f)
	}
	w.expect("a get", "bytes_moved; seen")
}

// Promise: bytes that were put are done when a flush after them has ended, and those
// of a call or a request that failed are not.
func TestBytesThatUCXPutAreDoneWithAFlush(t *testing.T) {
	flush := func(w *world, returned uint64) {
		w.ucxRecord(prefillProcess, ucp.KindFlushed, 0, uint64(prefillEndpoint), returned, uint32(0), uint32(0))
	}
	done := func(w *world, request uint64, status int64) {
		w.ucxRecord(prefillProcess, ucp.KindDone, 0, request, status)
	}
	for name, c := range map[string]struct {
		do   func(*world)
		want string
	}{
		"at once":            {func(w *world) { w.puts(4, 0); flush(w, 0) }, "posted seen ok"},
		"a flush's request":  {func(w *world) { w.puts(4, 0); flush(w, aRequest); done(w, aRequest, 0) }, "posted seen ok"},
		"it is under way":    {func(w *world) { w.puts(4, 0); flush(w, aRequest) }, "posted seen"},
		"a put's request":    {func(w *world) { w.puts(4, aRequest); done(w, aRequest, 0) }, "posted seen"},
		"which failed":       {func(w *world) { w.puts(4, aRequest); done(w, aRequest, -3); flush(w, 0) }, "posted seen error"},
		"a call that failed": {func(w *world) { w.puts(4, failedCall); flush(w, 0) }, "error"},
	} {
		w := joinedByUCX(t)
		c.do(w)
		w.mark()
		var out []string
		for _, f := range w.facts {
			text := f.Outcome.String()
			if f.Ev == lifecycle.SourceCoverage {
				text = map[bool]string{true: "seen", false: "unseen"}[f.Complete]
			}
			out = append(out, text)
		}
		if got := strings.Join(out, " "); got != c.want {
			t.Errorf("%s: told %s, want %s", name, got, c.want)
		}
	}
}

// Promise: bytes are never placed by their address alone. What is put over an
// endpoint that leads to another process goes elsewhere, and over one that leads
// nowhere that is known may have come in.
func TestBytesOfUCXAreNeverPlacedByTheirAddressAlone(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(*world)
		want string
	}{
		"it leads to a third process": {func(w *world) {
			w.loads(33, 0x3200, ucp.ID{0x20, 3}, "")
			w.endpoint(prefillProcess, prefillEndpoint, prefillWorker, ucp.ID{0x20, 3})
		}, ""},
		"it leads to another node":   {func(w *world) { w.endpoint(prefillProcess, prefillEndpoint, prefillWorker, ucp.ID{0x20, 4}) }, "unseen"},
		"another tells that address": {func(w *world) { w.loads(33, 0x3200, decodeID, "") }, "unseen"},
		"it was closed":              {func(w *world) { w.ucxRecord(prefillProcess, ucp.KindEndpointGone, 0, uint64(prefillEndpoint)) }, "unseen"},
		"its worker is gone":         {func(w *world) { w.ucxRecord(prefillProcess, ucp.KindWorkerGone, 0, uint64(prefillWorker)) }, "unseen"},
	} {
		w := joinedByUCX(t)
		c.do(w)
		w.puts(3, 0)
		w.mark()
		if got := w.said(); got != c.want {
			t.Errorf("%s: said %q, want %q", name, got, c.want)
		}
	}
}

// Promise: sight over UCX is complete only while nothing stands against it, and what
// does is said with its reason; what can be mended is seen again.
func TestSightOverUCXIsWithdrawnWithItsReason(t *testing.T) {
	for name, c := range map[string]struct {
		do          func(*world)
		said, after string // of a further put
		reason      string
	}{
		"a second UCX cannot be attached to": {
			func(w *world) { w.loads(prefillProcess, prefillWorker, prefillID, "no function starts there") }, "unseen", "bytes_moved", "no function starts",
		},
		"it has a way around": {
			func(w *world) { w.ucxRecord(prefillProcess, ucp.KindBypass, 0, uint64(0)) }, "unseen", "bytes_moved", "by itself",
		},
		"a list was put": {
			func(w *world) {
				w.ucxRecord(prefillProcess, ucp.KindMoved, ucp.Truncated, uint64(prefillEndpoint), uint64(1), uint64(2), uint64(0), uint64(0), uint32(0), uint32(0))
			}, "unseen", "bytes_moved; seen", "a list",
		},
		"an endpoint that was made unseen puts there": {
			func(w *world) { w.moves(prefillProcess, 0x9999, base, 0, ucp.Put, 0) }, "unseen", "bytes_moved", "made unseen",
		},
		"and is closed": {
			func(w *world) {
				w.moves(prefillProcess, 0x9999, base, 0, ucp.Put, 0)
				w.ucxRecord(prefillProcess, ucp.KindEndpointGone, 0, uint64(0x9999))
			}, "unseen", "bytes_moved; seen", "made unseen",
		},
		"puts were lost": {
			func(w *world) { w.counts.VerbsLost++ }, "events_lost rdma", "bytes_moved; seen", "was full",
		},
		"records of endpoints were lost": {
			func(w *world) { w.counts.VerbsLost++; w.counts.VerbsUntold++ }, "events_lost rdma", "unseen", "was full",
		},
		"its device cannot be attached to": {
			func(w *world) { w.device(prefillProcess, prefillContext, false, "no provider") }, "unseen", "bytes_moved", "just been opened",
		},
		"its bytes come over TCP too": {
			func(w *world) {
				w.tell(tcpxfer.Record{Kind: tcpxfer.Client, Inode: 9, Ends: otherEnd(transfers)})
				w.moved(1, 5, nil)
			}, "bytes_moved; unseen; unseen", "bytes_moved", "TCP and over RDMA",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := joinedByUCX(t)
			w.puts(3, 0)
			w.expect("a put is mapped", "bytes_moved; seen")
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
			w.puts(4, 0)
			w.mark()
			if got := strings.TrimSuffix(w.said(), "; unseen"); got != c.after { // the reason may be another now
				t.Errorf("a further put: said %s, want %s", got, c.after)
			}
		})
	}
}

// Promise: before the probe has said that UCX is attached to, what it puts completes
// no sight; and memory that it registers is told as such, and its end.
func TestUCXThatIsNotAttachedToIsUnseen(t *testing.T) {
	w := newWorld(t)
	w.loads(decodeProcess, decodeWorker, decodeID, "")
	w.endpoint(prefillProcess, prefillEndpoint, prefillWorker, decodeID)
	w.register(decodeSession)
	w.puts(3, 0)
	w.expect("a put", "pool_opened; bytes_moved; unseen")
	w.loads(prefillProcess, prefillWorker, prefillID, "")
	w.puts(4, 0)
	w.expect("another", "bytes_moved; seen")
	w.ucxRecord(decodeProcess, ucp.KindRegion, 0, uint64(7), uint64(base), uint64(8192), uint32(1), uint32(1))
	w.mark()
	if f := w.facts[0]; f.Base != base || f.Bytes != 8192 || f.RKey.Has || f.Memory != lifecycle.VRAM || f.Inst != decodeName {
		t.Errorf("%+v", f)
	}
	w.expect("a registration", "region_registered")
	w.ucxRecord(decodeProcess, ucp.KindRegionGone, 0, uint64(7))
	w.expect("its end", "region_deregistered")
}
