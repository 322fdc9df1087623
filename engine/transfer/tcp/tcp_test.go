package tcp

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/transfer"
)

const patience = 10 * time.Second

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not within %v: %s", patience, what)
}

// receiver is a server with one region.
type receiver struct {
	*Server
	mem    *transfer.Memory
	bytes  []byte
	base   uint64
	listen string
}

func newReceiver(t *testing.T, size int, cfg ServerConfig) *receiver {
	t.Helper()
	r := &receiver{mem: &transfer.Memory{}, bytes: make([]byte, size)}
	region, err := r.mem.Register(r.bytes, nil)
	must(t, err)
	r.base = region.Base
	r.Server = NewServer(r.mem, cfg)
	r.listen, err = r.Listen(context.Background(), "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { must(t, r.Close()) })
	return r
}

func newSender(t *testing.T, address string, cfg ClientConfig) *Client {
	t.Helper()
	c := NewClient(address, cfg)
	t.Cleanup(func() { must(t, c.Close()) })
	return c
}

func both(t *testing.T, test func(t *testing.T, cfg ClientConfig)) {
	t.Run("first-protocol", func(t *testing.T) { test(t, ClientConfig{}) })
	t.Run("second-protocol", func(t *testing.T) { test(t, ClientConfig{Acknowledged: true}) })
}

func TestHeaderIsTwentyFourBytesLittleEndian(t *testing.T) {
	h := Header{Size: 0x0102030405060708, Address: 0x7f0000001000, Opcode: Write}
	want := "0807060504030201" + "00100000007f0000" + "0100000000000000"
	b := AppendHeader(nil, h)
	if got := hex.EncodeToString(b); got != want {
		t.Errorf("header is %s, want %s", got, want)
	}
	for _, h := range []Header{h, {Size: 1, Opcode: Read}, {Size: 1, Opcode: Write, Acknowledged: true}} {
		got, err := ParseHeader((*[HeaderBytes]byte)(AppendHeader(nil, h)))
		if err != nil || got != h {
			t.Errorf("%+v comes back as %+v, %v", h, got, err)
		}
	}
}

// A transfer that succeeded is applied: the memory is looked at with no other
// synchronisation than the end of the transfer.
func TestASuccessIsApplied(t *testing.T) {
	both(t, func(t *testing.T, cfg ClientConfig) {
		seed := uint64(time.Now().UnixNano())
		rng := rand.New(rand.NewPCG(seed, 1))
		fill := rand.NewChaCha8([32]byte{byte(seed)})
		r := newReceiver(t, 4<<20, ServerConfig{})
		c := newSender(t, r.listen, cfg)
		want := make([]byte, len(r.bytes))
		for round := range 20 {
			var pieces []Piece
			for at := rng.IntN(1000); at < len(want); at += rng.IntN(400_000) {
				n := 1 + rng.IntN(min(200_000, len(want)-at))
				_, _ = fill.Read(want[at : at+n])
				pieces = append(pieces, Piece{Source: bytes.Clone(want[at : at+n]), Remote: r.base + uint64(at)})
				at += n
			}
			must(t, c.Write(testContext(t), pieces...))
			if !bytes.Equal(r.bytes, want) {
				t.Fatalf("round %d, seed %d: memory differs", round, seed)
			}
		}
		got := make([]byte, len(want))
		must(t, c.Read(testContext(t), Piece{Source: got[:5], Remote: r.base}, Piece{Source: got[5:], Remote: r.base + 5}))
		if !bytes.Equal(got, want) {
			t.Error("read back differently")
		}
	})
}

func TestThousandsOfSmallPiecesDoNotDeadlock(t *testing.T) {
	both(t, func(t *testing.T, cfg ClientConfig) {
		var mu sync.Mutex
		applied := uint64(0)
		r := newReceiver(t, 20_000, ServerConfig{Applied: func(_, n uint64) {
			mu.Lock()
			applied += n
			mu.Unlock()
		}})
		c := newSender(t, r.listen, cfg)
		pieces := make([]Piece, len(r.bytes))
		for i := range pieces {
			pieces[i] = Piece{Source: []byte{byte(i)}, Remote: r.base + uint64(i)}
		}
		must(t, c.Write(testContext(t), pieces...))
		for i, b := range r.bytes {
			if b != byte(i) {
				t.Fatalf("byte %d is %d", i, b)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if s := r.Stats(); applied != 20_000 || s.Writes != 20_000 || s.BytesWritten != 20_000 {
			t.Errorf("%d bytes told of, counters %+v", applied, s)
		}
	})
}

func TestConcurrentTransfersKeepApart(t *testing.T) {
	both(t, func(t *testing.T, cfg ClientConfig) {
		const n, size = 64, 100_000
		r := newReceiver(t, n*size, ServerConfig{})
		c := newSender(t, r.listen, cfg)
		ctx := testContext(t)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				body := bytes.Repeat([]byte{byte(i + 1)}, size)
				if err := c.Write(ctx, Piece{Source: body, Remote: r.base + uint64(i*size)}); err != nil {
					t.Errorf("transfer %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		for i, b := range r.bytes {
			if b != byte(i/size+1) {
				t.Fatalf("byte %d is %d", i, b)
			}
		}
		if s := c.Stats(); s.Posted != n || s.Succeeded != n || s.Bytes != n*size {
			t.Errorf("counters %+v", s)
		}
	})
}

func TestAWriteOutsideIsRefusedAndChangesNothing(t *testing.T) {
	both(t, func(t *testing.T, cfg ClientConfig) {
		r := newReceiver(t, 4096, ServerConfig{})
		c := newSender(t, r.listen, cfg)
		for _, p := range []Piece{
			{Source: make([]byte, 8), Remote: 16},
			{Source: bytes.Repeat([]byte{1}, 10), Remote: r.base + 4090},
			{Source: bytes.Repeat([]byte{1}, 5000), Remote: r.base},
			{Source: bytes.Repeat([]byte{1}, 8<<20), Remote: r.base + 1},
		} {
			if err := c.Write(testContext(t), p); !errors.Is(err, ErrRefused) || errors.Is(err, ErrUndrained) {
				t.Errorf("%d bytes at %#x: %v, want ErrRefused and drained", len(p.Source), p.Remote-r.base, err)
			}
		}
		if !bytes.Equal(r.bytes, make([]byte, 4096)) {
			t.Error("memory changed")
		}
		if s := r.Stats(); s.RefusedAddress != 4 || s.Writes != 0 {
			t.Errorf("counters %+v", s)
		}
		must(t, c.Write(testContext(t), Piece{Source: []byte("ok"), Remote: r.base}))
	})
}

func rawConn(t *testing.T, r *receiver) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", r.listen)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func closedWithin(t *testing.T, conn net.Conn, limit time.Duration) {
	t.Helper()
	must(t, conn.SetReadDeadline(time.Now().Add(limit)))
	if n, err := io.Copy(io.Discard, conn); err != nil && errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("still connected after %v, %d bytes", limit, n)
	} else if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
		t.Fatalf("still connected after %v", limit)
	}
}

func TestHostileHeadersAreRefusedByTheirHeaderAlone(t *testing.T) {
	r := newReceiver(t, 4096, ServerConfig{StallTimeout: 300 * time.Millisecond, IdleTimeout: 300 * time.Millisecond})
	raw := func(size, addr uint64, op byte) []byte {
		b := AppendHeader(nil, Header{Size: size, Address: addr})
		b[16] = op
		return b
	}
	for name, c := range map[string]struct {
		say   []byte
		count func(ServerStats) uint64
	}{
		"2^63 bytes":               {raw(1<<63, r.base, 1), func(s ServerStats) uint64 { return s.RefusedAddress }},
		"2^64-1 bytes":             {raw(1<<64-1, r.base+1, 1), func(s ServerStats) uint64 { return s.RefusedAddress }},
		"2^63 bytes, acknowledged": {raw(1<<63, r.base, 0x81), func(s ServerStats) uint64 { return s.RefusedAddress }},
		"read of 2^63 bytes":       {raw(1<<63, r.base, 0), func(s ServerStats) uint64 { return s.RefusedAddress }},
		"null":                     {raw(8, 0, 1), func(s ServerStats) uint64 { return s.RefusedAddress }},
		"straddles the end":        {raw(2, r.base+4095, 1), func(s ServerStats) uint64 { return s.RefusedAddress }},
		"read before the start":    {raw(2, r.base-1, 0), func(s ServerStats) uint64 { return s.RefusedAddress }},
		"nothing":                  {raw(0, r.base, 1), func(s ServerStats) uint64 { return s.RefusedEmpty }},
		"opcode 2":                 {raw(8, r.base, 2), func(s ServerStats) uint64 { return s.RefusedOpcode }},
		"opcode 0x7f":              {raw(8, r.base, 0x7f), func(s ServerStats) uint64 { return s.RefusedOpcode }},
		"half a header":            {raw(8, r.base, 1)[:11], func(s ServerStats) uint64 { return s.CutHeaders }},
		"half a body":              {append(raw(8, r.base, 1), 0, 0, 0), func(s ServerStats) uint64 { return s.Cut }},
	} {
		before := c.count(r.Stats())
		conn := rawConn(t, r)
		_, err := conn.Write(c.say)
		must(t, err)
		closedWithin(t, conn, 3*time.Second)
		eventually(t, name+" to be counted", func() bool { return c.count(r.Stats()) == before+1 })
	}
	silent := rawConn(t, r)
	closedWithin(t, silent, 3*time.Second)
	if !bytes.Equal(r.bytes, make([]byte, 4096)) {
		t.Error("memory changed")
	}
	eventually(t, "connections to end", func() bool { return r.Stats().Conns == 0 })
}

func TestAnAcknowledgedRefusalIsSaid(t *testing.T) {
	r := newReceiver(t, 16, ServerConfig{})
	conn := rawConn(t, r)
	_, err := conn.Write(AppendHeader(nil, Header{Size: 8, Address: 1, Opcode: Write, Acknowledged: true}))
	must(t, err)
	b, err := io.ReadAll(conn)
	if err != nil || hex.EncodeToString(b) != "010000005654434d" {
		t.Errorf("answer %x, %v", b, err)
	}
}

// What arrived before a peer died is in memory, is counted, and is not
// reported as a write that was applied.
func TestAPeerThatDiesWithinAPieceIsCutAndCounted(t *testing.T) {
	r := newReceiver(t, 1<<20, ServerConfig{Applied: func(uint64, uint64) { t.Error("a cut write was reported as applied") }})
	conn := rawConn(t, r)
	_, err := conn.Write(append(AppendHeader(nil, Header{Size: 1 << 20, Address: r.base, Opcode: Write}), bytes.Repeat([]byte{7}, 100_000)...))
	must(t, err)
	must(t, conn.Close())
	eventually(t, "the cut", func() bool { return r.Stats().Cut == 1 && r.Stats().Conns == 0 })
	must(t, r.Close())
	if s := r.Stats(); s.BytesWritten != 100_000 || s.Writes != 0 || r.bytes[99_999] != 7 || r.bytes[100_000] != 0 {
		t.Errorf("counters %+v, bytes %d %d", s, r.bytes[99_999], r.bytes[100_000])
	}
}

func TestOneConnectionTooManyIsClosed(t *testing.T) {
	r := newReceiver(t, 16, ServerConfig{MaxConns: 1})
	rawConn(t, r)
	eventually(t, "the first", func() bool { return r.Stats().Conns == 1 })
	closedWithin(t, rawConn(t, r), 3*time.Second)
	if s := r.Stats(); s.ConnsRefused != 1 {
		t.Errorf("counters %+v", s)
	}
}

func TestADeregisteredRegionStopsATransferUnderWay(t *testing.T) {
	r := newReceiver(t, 16<<20, ServerConfig{})
	conn := rawConn(t, r)
	_, err := conn.Write(append(AppendHeader(nil, Header{Size: 16 << 20, Address: r.base, Opcode: Write}), make([]byte, 1<<20)...))
	must(t, err)
	eventually(t, "the first megabyte", func() bool { return r.Stats().BytesWritten == 1<<20 })
	must(t, r.mem.Deregister(r.base))
	clear(r.bytes) // the owner's again: the race detector watches
	_, _ = conn.Write(bytes.Repeat([]byte{9}, 1<<20))
	eventually(t, "the refusal", func() bool { return r.Stats().RefusedAddress == 1 })
	if bytes.Contains(r.bytes, []byte{9}) {
		t.Error("written after it was deregistered")
	}
}
