package peers

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/transfer"
	"github.com/kvwitness/kvwitness/engine/transfer/tcp"
)

const (
	mooncake      = "requirements-mooncake.txt"
	mooncakeBytes = 3<<20 + 12345
)

// startMooncake runs the engine, or fails saying what it lacks.
func startMooncake(t *testing.T, env ...string) *program {
	t.Helper()
	out, err := exec.Command(python(t, mooncake), "-c", "import mooncake.engine").CombinedOutput()
	if err != nil {
		t.Fatalf("load Mooncake's engine: %v\n%s\ninstall what it names (Debian: apt-get install libibverbs1 libnuma1)", err, out)
	}
	return start(t, mooncake, "mooncake_peer.py", env...)
}

type mooncakeOpened struct {
	Code     int
	Address  uint64
	Endpoint string
}

func openMooncake(t *testing.T, p *program) mooncakeOpened {
	t.Helper()
	var o mooncakeOpened
	p.ask(map[string]any{"op": "open", "bytes": mooncakeBytes}, &o)
	if o.Code != 0 {
		t.Fatalf("Mooncake opens with code %d\n%s", o.Code, p.errs)
	}
	return o
}

func mooncakePattern(value int) []byte {
	b := make([]byte, mooncakeBytes)
	for i := range b {
		b[i] = byte(i*7 + i/256 + value)
	}
	return b
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// segment is how Mooncake describes a process's memory in its handshake.
type segment struct {
	Name        string          `json:"name"`
	Protocol    string          `json:"protocol"`
	DataHost    string          `json:"tcp_data_host"`
	DataPort    int             `json:"tcp_data_port"`
	Version     int             `json:"tcp_proto_version"`
	Timestamp   string          `json:"timestamp"`
	RDMAName    string          `json:"rdma_server_name"`
	BufferDescs []segmentBuffer `json:"buffers"`
}

type segmentBuffer struct {
	Name   string `json:"name"`
	Addr   uint64 `json:"addr"`
	Length uint64 `json:"length"`
}

// metadataKind is the handshake's request for a segment's description.
const metadataKind = 1

// Handshake messages are a u64 length, a byte of kind, and JSON.
func writeHandshake(w io.Writer, body []byte) error {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(body)+1))
	_, err := w.Write(append(append(b, metadataKind), body...))
	return err
}

func readHandshake(r io.Reader) ([]byte, error) {
	var n uint64
	if err := binary.Read(r, binary.LittleEndian, &n); err != nil {
		return nil, err
	}
	if n == 0 || n > 1<<20 {
		return nil, fmt.Errorf("handshake of %d bytes", n)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, err
	}
	if b[0] != metadataKind {
		return nil, fmt.Errorf("handshake of kind %d", b[0])
	}
	return b[1:], nil
}

func askSegment(t *testing.T, endpoint string) segment {
	t.Helper()
	conn, err := net.DialTimeout("tcp", endpoint, answerLimit)
	must(t, err)
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(answerLimit)))
	must(t, writeHandshake(conn, []byte("{}")))
	b, err := readHandshake(conn)
	must(t, err)
	var s segment
	must(t, json.Unmarshal(b, &s))
	return s
}

// serveSegment answers Mooncake's handshakes for our server.
func serveSegment(t *testing.T, mem *transfer.Memory, data string, version int) (endpoint string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	host, port, err := net.SplitHostPort(data)
	must(t, err)
	number, err := strconv.Atoi(port)
	must(t, err)
	s := segment{Name: l.Addr().String(), Protocol: "tcp", DataHost: host, DataPort: number, Version: version, Timestamp: "now"}
	for _, r := range mem.Regions() {
		s.BufferDescs = append(s.BufferDescs, segmentBuffer{s.Name, r.Base, r.Bytes})
	}
	body, err := json.Marshal(s)
	must(t, err)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if _, err := readHandshake(conn); err == nil {
				_ = writeHandshake(conn, body)
			}
			_ = conn.Close()
		}
	}()
	return s.Name
}

// protocols are the two versions of Mooncake's TCP framing.
var protocols = map[string]int{"first-protocol": 1, "second-protocol": 2}

func TestBytesReachMooncakesMemoryAndComeBack(t *testing.T) {
	for name, version := range protocols {
		t.Run(name, func(t *testing.T) {
			p := startMooncake(t)
			o := openMooncake(t, p)
			s := askSegment(t, o.Endpoint)
			if len(s.BufferDescs) != 1 || s.BufferDescs[0].Addr != o.Address || s.Version < version {
				t.Fatalf("Mooncake describes itself as %+v", s)
			}
			c := tcp.NewClient(net.JoinHostPort("127.0.0.1", strconv.Itoa(s.DataPort)), tcp.ClientConfig{Acknowledged: version == 2})
			defer c.Close()
			want := mooncakePattern(3)
			var pieces []tcp.Piece
			for at := 0; at < len(want); at += 70_000 {
				end := min(len(want), at+70_000)
				pieces = append(pieces, tcp.Piece{Source: want[at:end], Remote: o.Address + uint64(at)})
			}
			must(t, c.Write(testContext(t), pieces...))
			var got struct{ SHA256 string }
			p.ask(map[string]any{"op": "digest"}, &got)
			if got.SHA256 != digest(want) {
				t.Error("a success is not applied: Mooncake's memory differs")
			}
			p.ask(map[string]any{"op": "fill", "value": 9}, nil)
			back := make([]byte, len(want))
			must(t, c.Read(testContext(t), tcp.Piece{Source: back, Remote: o.Address}))
			if digest(back) != digest(mooncakePattern(9)) {
				t.Error("read other bytes than Mooncake holds")
			}
			if err := c.Write(testContext(t), tcp.Piece{Source: want[:100], Remote: o.Address + mooncakeBytes - 50}); err == nil {
				t.Error("a write beyond Mooncake's memory is reported as a success")
			}
		})
	}
}

func TestMooncakeWritesIntoOurMemoryAndReadsFromIt(t *testing.T) {
	for name, version := range protocols {
		t.Run(name, func(t *testing.T) {
			mem := &transfer.Memory{}
			ours := make([]byte, mooncakeBytes)
			region, err := mem.Register(ours, nil)
			must(t, err)
			var applied atomic.Uint64
			server := tcp.NewServer(mem, tcp.ServerConfig{Applied: func(_, n uint64) { applied.Add(n) }})
			defer server.Close()
			at, err := server.Listen(context.Background(), "127.0.0.1:0")
			must(t, err)
			target := serveSegment(t, mem, at, version)
			p := startMooncake(t, "MC_TCP_PROTO="+map[int]string{1: "1", 2: ""}[version])
			openMooncake(t, p)
			p.ask(map[string]any{"op": "fill", "value": 3}, nil)
			call := func(request map[string]any) int {
				request["target"], request["bytes"] = target, mooncakeBytes
				var got struct{ Code int }
				p.ask(request, &got)
				return got.Code
			}
			if code := call(map[string]any{"op": "write", "from": 0, "to": region.Base}); code != 0 {
				t.Fatalf("Mooncake's write ends with %d\n%s", code, p.errs)
			}
			// The first protocol's sender does not wait until it is applied.
			eventually(t, "the write to be applied", func() bool { return applied.Load() == mooncakeBytes })
			if digest(ours) != digest(mooncakePattern(3)) {
				t.Error("our memory differs from what Mooncake wrote")
			}
			copy(ours, mooncakePattern(9))
			if code := call(map[string]any{"op": "read", "from": region.Base, "to": 0}); code != 0 {
				t.Fatalf("Mooncake's read ends with %d\n%s", code, p.errs)
			}
			var got struct{ SHA256 string }
			p.ask(map[string]any{"op": "digest"}, &got)
			if got.SHA256 != digest(mooncakePattern(9)) {
				t.Error("Mooncake read other bytes than we hold")
			}
			before := server.Stats().RefusedAddress
			code := call(map[string]any{"op": "write", "from": 0, "to": region.Base + 1})
			eventually(t, "the refusal", func() bool { return server.Stats().RefusedAddress > before })
			if version == 2 && code == 0 {
				t.Error("Mooncake takes a refused write for a success")
			}
			if strings.Contains(p.errs.String(), "MC_TCP_PROTO") {
				t.Errorf("the engine complains: %s", p.errs)
			}
			t.Logf("a refused write ends in Mooncake with code %d; server %+v", code, server.Stats())
		})
	}
}

// Mooncake's own server keeps the promise that a cancellation rests on: it
// closes its side once it has read all there is, and writes nothing after.
func TestACancelledTransferToMooncakeHasDrained(t *testing.T) {
	for name, version := range protocols {
		t.Run(name, func(t *testing.T) {
			p := startMooncake(t)
			o := openMooncake(t, p)
			s := askSegment(t, o.Endpoint)
			c := tcp.NewClient(net.JoinHostPort("127.0.0.1", strconv.Itoa(s.DataPort)), tcp.ClientConfig{Acknowledged: version == 2})
			defer c.Close()
			body := mooncakePattern(3)
			pieces := make([]tcp.Piece, 500)
			for i := range pieces {
				pieces[i] = tcp.Piece{Source: body, Remote: o.Address}
			}
			tr, err := c.Post(pieces)
			must(t, err)
			eventually(t, "bytes to flow", func() bool { return tr.Sent() > mooncakeBytes/2 })
			over, cancel := context.WithCancel(context.Background())
			cancel()
			if err := tr.Wait(over); !errors.Is(err, context.Canceled) || errors.Is(err, tcp.ErrUndrained) {
				t.Fatalf("cancelled transfer ends with %v, want drained", err)
			}
			p.ask(map[string]any{"op": "fill", "value": 9}, nil)
			time.Sleep(200 * time.Millisecond)
			var got struct{ SHA256 string }
			p.ask(map[string]any{"op": "digest"}, &got)
			if got.SHA256 != digest(mooncakePattern(9)) {
				t.Error("bytes arrived after the transfer was said to be drained")
			}
		})
	}
}
