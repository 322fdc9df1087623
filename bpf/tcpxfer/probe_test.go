//go:build amd64

package tcpxfer

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/bpf/load"
	"github.com/kvwitness/kvwitness/engine/transfer"
	"github.com/kvwitness/kvwitness/engine/transfer/tcp"
	"github.com/kvwitness/kvwitness/sidecar/source/socket"
	source "github.com/kvwitness/kvwitness/sidecar/source/tcpxfer"
)

const patience = 20 * time.Second

// watched is this process under the probe.
type watched struct {
	t    *testing.T
	p    *load.Probe
	seen []source.Record
}

func watch(t *testing.T) *watched {
	t.Helper()
	p, err := Open(load.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := p.Targets().Put(uint32(os.Getpid()), uint64(1)); err != nil {
		t.Fatal(err)
	}
	return &watched{t: t, p: p}
}

func (w *watched) drain() {
	w.t.Helper()
	err := w.p.Drain(func(b []byte) {
		r, err := source.Parse(b)
		if err != nil {
			w.t.Fatal(err)
		}
		w.seen = append(w.seen, r)
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *watched) of(kind source.Kind) (out []source.Record) {
	for _, r := range w.seen {
		if r.Kind == kind {
			out = append(out, r)
		}
	}
	return out
}

// await drains until n records of a kind were seen.
func (w *watched) await(kind source.Kind, n int) []source.Record {
	w.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if w.drain(); len(w.of(kind)) >= n {
			return w.of(kind)
		}
	}
	w.t.Fatalf("saw %d records of kind %d, want %d: %+v", len(w.of(kind)), kind, n, w.seen)
	return nil
}

// server is kvengine's end of the transfers.
func server(t *testing.T, size int) (base uint64, address string) {
	t.Helper()
	mem := &transfer.Memory{}
	region, err := mem.Register(make([]byte, size), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := tcp.NewServer(mem, tcp.ServerConfig{})
	t.Cleanup(func() { _ = s.Close() })
	address, err = s.Listen(context.Background(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return region.Base, address
}

// Promise: every piece that was written is seen once, with its address and its
// length, whatever its size, in both versions of the protocol.
func TestEveryPieceIsSeenWithItsAddressAndLength(t *testing.T) {
	sizes := []int{1, 7, 23, 24, 25, 1000, 4096, 65536, 65537, 300_000, 1 << 20}
	for name, acknowledged := range map[string]bool{"first": false, "second": true} {
		t.Run(name, func(t *testing.T) {
			base, address := server(t, 4<<20)
			w := watch(t)
			c := tcp.NewClient(address, tcp.ClientConfig{Acknowledged: acknowledged})
			t.Cleanup(func() { _ = c.Close() })
			var pieces []tcp.Piece
			at := base
			for _, n := range sizes {
				pieces = append(pieces, tcp.Piece{Source: make([]byte, n), Remote: at})
				at += uint64(n)
			}
			for range 3 {
				if err := c.Write(t.Context(), pieces...); err != nil {
					t.Fatal(err)
				}
			}
			moved := w.await(source.Moved, 3*len(pieces))
			for i, r := range moved {
				p := pieces[i%len(pieces)]
				if r.Address != p.Remote || r.Bytes != uint64(len(p.Source)) || !r.Write || r.Holed || r.AfterJoin || r.Acknowledged != acknowledged ||
					r.TGID != uint32(os.Getpid()) || r.Ends.Local.String() != address {
					t.Fatalf("record %d is %+v, want %d bytes at %#x to %s", i, r, len(p.Source), p.Remote, address)
				}
			}
			clients := map[socket.Flow]bool{}
			for _, r := range w.of(source.Client) {
				clients[r.Ends.Sent()] = true
			}
			for _, r := range moved {
				if !clients[r.Ends.Received()] {
					t.Errorf("nobody was told to write to %+v", r.Ends)
				}
			}
			if n := len(w.of(source.Blind)) + len(w.of(source.Stranger)); n != 0 || len(moved) != 3*len(pieces) {
				t.Errorf("%d pieces seen of %d, blind %d times", len(moved), 3*len(pieces), n)
			}
		})
	}
}
