package proven

import (
	"encoding/binary"
	"net/netip"
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

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The world of the tests: decode listens at 1:100 for statuses and at 1:300 for
// transfers, prefill at 2:200.
const (
	decodeProcess, prefillProcess = 11, 22
	base, stride, pages           = 1 << 40, 4096, 64
)

var (
	decodeAt, prefillAt = at("10.0.0.1:100"), at("10.0.0.2:200")
	toPrefill           = socket.Ends{Local: at("10.0.0.1:5001"), Remote: prefillAt} // as decode sees it
	toDecode            = socket.Ends{Local: at("10.0.0.2:5002"), Remote: decodeAt}  // as prefill sees it
	transfers           = socket.Ends{Local: at("10.0.0.1:300"), Remote: at("10.0.0.2:5003")}
	decodeName          = decodeAt.String()
	prefillName         = prefillAt.String()
	decodeSession       = "10.0.0.1:999"
	decodeAddress       = wire.Address{Host: "10.0.0.1", Port: 100}
	otherEnd            = func(e socket.Ends) socket.Ends { return socket.Ends{Local: e.Remote, Remote: e.Local} }
)

func at(text string) netip.AddrPort { return netip.MustParseAddrPort(text) }

// world is a State and what it said.
type world struct {
	*State
	t        testing.TB
	facts    []*lifecycle.Fact
	problems []string
	clock    int64
	counts   probe.Counts
	counted  int64
	offsets  map[tap]uint64
}

// tap is one direction of a connection, at the end where it is watched.
type tap struct {
	ends socket.Ends
	sent bool
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, clock: 1000, offsets: map[tap]uint64{}}
	w.State = New(Config{
		Node: "n", Emit: func(f *lifecycle.Fact) { w.facts = append(w.facts, f) },
		Known:   func(string) Layout { return Layout{Pages: pages, PageTokens: 16} },
		Problem: func(text string) { w.problems = append(w.problems, text) },
	})
	return w
}

func appendEnds(b []byte, e socket.Ends) []byte {
	var raw [socket.EndsBytes]byte
	binary.NativeEndian.PutUint16(raw[4:], 2)
	binary.NativeEndian.PutUint16(raw[6:], e.Local.Port())
	binary.NativeEndian.PutUint16(raw[8:], e.Remote.Port())
	copy(raw[16:], e.Local.Addr().AsSlice())
	copy(raw[32:], e.Remote.Addr().AsSlice())
	return append(b, raw[:]...)
}

// controlRecord is a record as the kernel lays it out.
func controlRecord(r *control.Record) []byte {
	b := binary.NativeEndian.AppendUint64(nil, uint64(r.T))
	b = binary.NativeEndian.AppendUint64(b, r.Inode)
	b = binary.NativeEndian.AppendUint64(b, r.Offset)
	b = binary.NativeEndian.AppendUint64(b, r.Length)
	b = binary.NativeEndian.AppendUint32(b, r.TGID)
	flags := [4]byte{byte(r.Kind), 0, 0, byte(r.Reason)}
	if r.Sent {
		flags[1] = 1
	}
	if r.Begins {
		flags[2] = 1
	}
	return append(appendEnds(append(b, flags[:]...), r.Ends), r.Data...)
}

func transferRecord(r *tcpxfer.Record) []byte {
	b := binary.NativeEndian.AppendUint64(nil, uint64(r.T))
	for _, n := range []uint64{r.Inode, r.Offset, r.Address, r.Bytes} {
		b = binary.NativeEndian.AppendUint64(b, n)
	}
	b = binary.NativeEndian.AppendUint32(b, r.TGID)
	flags := byte(0)
	if r.AfterJoin {
		flags |= 1
	}
	if r.Holed {
		flags |= 2
	}
	return appendEnds(append(b, byte(r.Kind), 1, flags, byte(r.Reason)), r.Ends)
}

func (w *world) tick() int64 { w.clock += 10; return w.clock }

// say is a message that was sent, seen at the sender, at the receiver, or both.
func (w *world) say(e socket.Ends, from, to uint32, frames [][]byte) {
	w.t.Helper()
	b := zmtp.AppendMessage(nil, frames...)
	for _, seen := range []struct {
		process uint32
		ends    socket.Ends
		sent    bool
	}{{from, e, true}, {to, otherEnd(e), false}} {
		if seen.process == 0 {
			continue
		}
		k := tap{seen.ends, seen.sent}
		r := control.Record{
			T: w.tick(), Inode: uint64(seen.ends.Local.Port()), Offset: w.offsets[k], Length: uint64(len(b)), TGID: seen.process,
			Kind: control.Data, Sent: seen.sent, Begins: true, Ends: seen.ends, Data: b,
		}
		w.offsets[k] += uint64(len(b))
		must(w.t, w.Take(probe.Control, controlRecord(&r)))
	}
}

func (w *world) tell(r tcpxfer.Record) {
	w.t.Helper()
	r.T, r.TGID = w.tick(), decodeProcess
	if r.Kind == tcpxfer.Client {
		r.TGID = prefillProcess
	}
	must(w.t, w.Take(probe.Transfer, transferRecord(&r)))
}

// moved is a WRITE of a page into the first region, over connection inode.
func (w *world) moved(inode uint64, page int, change func(*tcpxfer.Record)) {
	w.t.Helper()
	r := tcpxfer.Record{Kind: tcpxfer.Moved, Inode: inode, Address: base + uint64(page)*stride, Bytes: stride, Ends: transfers}
	if change != nil {
		change(&r)
	}
	w.tell(r)
}

// mark lets everything be taken in.
func (w *world) mark() {
	w.t.Helper()
	m := probe.Mark{T: w.tick(), Counted: w.counted, Counts: w.counts}
	must(w.t, w.Take(probe.Progress, m.Append(nil)))
}

func (w *world) register(session string) {
	w.t.Helper()
	r := &wire.Registration{
		Address: decodeAddress, Session: session, KVPtrs: []uint64{base, base + pages*stride}, KVItemBytes: stride, AttnTPSize: 1, DCPSize: 1,
	}
	w.say(toPrefill, decodeProcess, prefillProcess, r.Frames())
}

func (w *world) request(room int64, list ...int32) {
	w.t.Helper()
	r := &wire.TransferRequest{Room: room, Address: decodeAddress, Session: decodeSession, Pages: list, AuxIndex: 1, RequiredDst: 1}
	w.say(toPrefill, decodeProcess, prefillProcess, r.Frames())
}

func (w *world) status(room int64, s wire.TransferStatus) {
	w.t.Helper()
	w.say(toDecode, prefillProcess, decodeProcess, (&wire.Status{Room: room, Status: s}).Frames())
}

// said are the facts, in short.
func (w *world) said() string {
	var out []string
	for _, f := range w.facts {
		text := f.Ev.String()
		switch f.Ev {
		case lifecycle.SourceCoverage:
			text = map[bool]string{true: "seen", false: "unseen"}[f.Complete]
		case lifecycle.TransferStarted:
			text += " " + f.Room + " " + f.Pages.String()
		case lifecycle.TransferCompleted:
			text += " " + f.Room + " " + f.Outcome.String()
		case lifecycle.EventsLost:
			text += " " + f.Of.String()
		}
		out = append(out, text)
	}
	w.facts = nil
	return strings.Join(out, "; ")
}

func (w *world) expect(what, want string) {
	w.t.Helper()
	w.mark()
	if got := w.said(); got != want {
		w.t.Errorf("%s: said\n\t%s\nwant\n\t%s", what, got, want)
	}
}

// proved is a world whose path is proven.
func proved(t testing.TB) *world {
	t.Helper()
	w := newWorld(t)
	w.tell(tcpxfer.Record{Kind: tcpxfer.Client, Inode: 9, Ends: otherEnd(transfers)})
	w.register(decodeSession)
	w.moved(1, 3, nil)
	w.expect("a write is mapped", "pool_opened; bytes_moved; seen")
	return w
}
