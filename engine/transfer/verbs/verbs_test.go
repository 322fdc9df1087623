//go:build linux && cgo

package verbs

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/transfer"
)

// world is a receiver's memory, and a writer to it.
type world struct {
	t   testing.TB
	d   Device
	mem *transfer.Memory
	a   []byte
	b   []byte
	r   transfer.Receiver
	w   transfer.Writer
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, d: stub(t), mem: &transfer.Memory{}, a: make([]byte, 9<<20), b: make([]byte, 4096)}
	for _, b := range [][]byte{w.a, w.b} {
		_, err := w.mem.Register(b, nil)
		must(t, err)
	}
	var err error
	w.r, err = w.d.Serve(t.Context(), w.mem, "127.0.0.1", nil)
	must(t, err)
	w.w = w.d.Reach(w.r.Session())
	t.Cleanup(func() {
		must(t, w.w.Close())
		must(t, w.r.Close())
	})
	return w
}

func (w *world) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	w.t.Cleanup(cancel)
	return ctx
}

// hold keeps the NIC from carrying out what it is given from now on.
func (w *world) hold() (release func()) {
	w.t.Helper()
	must(w.t, w.w.Write(w.ctx(), transfer.Piece{Source: []byte{0}, Remote: w.at(0)}))
	_ = os.Remove(filepath.Join(stubs, "held")) // of an earlier hold, or not there
	return tell(w.t, "hold", 1)
}

// isHeld waits until it was given something since it holds.
func (w *world) isHeld() {
	w.t.Helper()
	path := filepath.Join(stubs, "held")
	eventually(w.t, "something to be posted", func() bool { _, err := os.Stat(path); return err == nil })
	must(w.t, os.Remove(path))
}

func (w *world) at(n int) uint64 { return transfer.AddressOf(w.a) + uint64(n) }

// Promise: what was written lies in the receiver's memory, whatever its length,
// more of it than is under way at a time, in every region, and nothing else does.
func TestAWriteArrivesWhole(t *testing.T) {
	w := newWorld(t)
	r := rand.New(rand.NewPCG(1, 2))
	want := make([]byte, len(w.a))
	var pieces []transfer.Piece
	for at := 100; at < len(want)-3*SliceBytes; {
		n := []int{1, 8, 4096, SliceBytes, SliceBytes + 1, 2*SliceBytes + 77}[r.IntN(6)]
		p := make([]byte, n)
		for i := range p {
			p[i] = byte(r.Uint32())
		}
		copy(want[at:], p)
		pieces = append(pieces, transfer.Piece{Source: p, Remote: w.at(at)})
		at += n + r.IntN(3)*50
	}
	pieces = append(pieces, transfer.Piece{Source: []byte("the other region"), Remote: transfer.AddressOf(w.b) + 4080})
	must(t, w.w.Write(w.ctx(), pieces...))
	if !bytes.Equal(w.a, want) || string(w.b[4080:]) != "the other region" {
		t.Error("memory differs from what was written")
	}
}

// Promise: of pieces that overlap the later one stays; a tag behind its bytes is
// never there before them.
func TestPiecesKeepTheirOrder(t *testing.T) {
	w := newWorld(t)
	var pieces []transfer.Piece
	for i := range 1000 {
		pieces = append(pieces, transfer.Piece{Source: bytes.Repeat([]byte{byte(i)}, 300), Remote: w.at(0)})
	}
	must(t, w.w.Write(w.ctx(), pieces...))
	if !bytes.Equal(w.a[:300], bytes.Repeat([]byte{byte(999 % 256)}, 300)) {
		t.Errorf("the last piece is not what stays: %d", w.a[0])
	}
}

// Promise: nothing outside a region is written, nor asked of the NIC, and the
// connection lives on.
func TestWhatIsOutsideIsRefused(t *testing.T) {
	w := newWorld(t)
	for name, p := range map[string]transfer.Piece{
		"before":    {Source: []byte("ab"), Remote: w.at(-1)},
		"across":    {Source: []byte("ab"), Remote: w.at(len(w.a) - 1)},
		"null":      {Source: []byte("ab"), Remote: 0},
		"far":       {Source: []byte("ab"), Remote: 1 << 63},
		"wraps":     {Source: []byte("ab"), Remote: ^uint64(0)},
		"not there": {Source: nil, Remote: w.at(0)},
	} {
		err := w.w.Write(w.ctx(), transfer.Piece{Source: []byte("in"), Remote: w.at(0)}, p)
		if err == nil || errors.Is(err, transfer.ErrUndrained) || len(p.Source) > 0 && !errors.Is(err, transfer.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if w.a[0] != 0 {
		t.Error("a part of a refused transfer was written")
	}
	must(t, w.w.Write(w.ctx(), transfer.Piece{Source: []byte("in"), Remote: w.at(0)}))
}

// Promise: a cancelled transfer ends when what was handed to the NIC has completed,
// and nothing of it is written after that.
func TestACancelledTransferHasDrained(t *testing.T) {
	w := newWorld(t)
	release := w.hold()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- w.w.Write(ctx, transfer.Piece{Source: bytes.Repeat([]byte{7}, len(w.a)), Remote: w.at(0)})
	}()
	w.isHeld()
	cancel()
	select {
	case err := <-ended:
		t.Fatalf("ended while writes were under way: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	release()
	if err := <-ended; !errors.Is(err, context.Canceled) || errors.Is(err, transfer.ErrUndrained) {
		t.Fatalf("ends with %v, want cancelled and drained", err)
	}
	if w.a[len(w.a)-1] != 0 {
		t.Error("more was posted after the cancellation")
	}
	clear(w.a)
	time.Sleep(20 * time.Millisecond)
	if !bytes.Equal(w.a, make([]byte, len(w.a))) {
		t.Error("bytes arrived after the transfer was said to be drained")
	}
	must(t, w.w.Write(w.ctx(), transfer.Piece{Source: []byte("on"), Remote: w.at(0)}))
}

// Promise: a transfer that is cancelled when nothing of it is under way ends at once.
func TestACancellationBetweenWritesEndsAtOnce(t *testing.T) {
	w := newWorld(t)
	must(t, w.w.Write(w.ctx(), transfer.Piece{Source: []byte{0}, Remote: w.at(0)}))
	l := w.w.(*writer).link
	slices, err := l.cut([]transfer.Piece{{Source: make([]byte, len(w.a)), Remote: w.at(0)}})
	must(t, err)
	ctx, cancel := context.WithCancel(w.ctx())
	cancel()
	ended := make(chan error, 1)
	go func() { ended <- l.run(ctx, slices) }()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) || !l.intact() {
			t.Errorf("%v", err)
		}
	case <-time.After(stallTimeout / 2):
		t.Error("it waits for a write that was never posted")
		must(t, <-ended)
	}
}

// Promise: an error of the NIC fails the transfer, what is behind it is flushed and
// not written, and the next transfer has a new queue pair.
func TestAnErrorFlushesAndFailsTheTransfer(t *testing.T) {
	w := newWorld(t)
	for status, text := range map[int]string{10: "refused the access", 12: "no answer"} {
		tell(t, "fail", status)
		clear(w.a)
		err := w.w.Write(w.ctx(), transfer.Piece{Source: bytes.Repeat([]byte{7}, len(w.a)), Remote: w.at(0)})
		if !errors.Is(err, ErrWrite) || errors.Is(err, transfer.ErrUndrained) || !strings.Contains(err.Error(), text) {
			t.Errorf("status %d: %v", status, err)
		}
		if w.a[0] != 0 || w.a[len(w.a)-1] != 0 {
			t.Error("something behind the error was written")
		}
		must(t, w.w.Write(w.ctx(), transfer.Piece{Source: []byte("on"), Remote: w.at(0)}))
	}
}

// Promise: a chain of which the NIC takes only a part fails the transfer, drained.
func TestAHalfTakenChainFailsTheTransfer(t *testing.T) {
	w := newWorld(t)
	tell(t, "full", 3)
	err := w.w.Write(w.ctx(), transfer.Piece{Source: bytes.Repeat([]byte{7}, 10*SliceBytes), Remote: w.at(0)})
	if err == nil || errors.Is(err, transfer.ErrUndrained) || w.a[4*SliceBytes] != 0 {
		t.Errorf("%v, and the fourth was written: %v", err, w.a[4*SliceBytes] != 0)
	}
	must(t, w.w.Write(w.ctx(), transfer.Piece{Source: []byte("on"), Remote: w.at(0)}))
}

// Promise: when a receiver is closed nothing of its peer can arrive any more, not
// even what the peer's NIC has yet to carry out; the writer fails, drained.
func TestNothingArrivesAtAClosedReceiver(t *testing.T) {
	w := newWorld(t)
	must(t, w.w.Write(w.ctx(), transfer.Piece{Source: []byte("on"), Remote: w.at(0)}))
	release := w.hold()
	ended := make(chan error, 1)
	go func() {
		ended <- w.w.Write(w.ctx(), transfer.Piece{Source: bytes.Repeat([]byte{7}, 1000), Remote: w.at(100)})
	}()
	w.isHeld()
	must(t, w.r.Close())
	release()
	if err := <-ended; err == nil || errors.Is(err, transfer.ErrUndrained) {
		t.Errorf("ends with %v", err)
	}
	if !bytes.Equal(w.a[100:1100], make([]byte, 1000)) {
		t.Error("bytes arrived at a closed receiver")
	}
	if err := w.w.Write(w.ctx(), transfer.Piece{Source: []byte("on"), Remote: w.at(0)}); err == nil {
		t.Error("a closed receiver is written to")
	}
}

// Promise: where the receiver does not confirm that its queue pair is gone, that is
// said. Here the one that answers is no receiver.
func TestAnUnconfirmedEndIsSaid(t *testing.T) {
	w := newWorld(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	var wg sync.WaitGroup
	over := make(chan struct{})
	defer wg.Wait()
	defer close(over)
	wg.Go(func() {
		near, err := l.Accept()
		if err != nil {
			return
		}
		defer near.Close()
		// Between the writer and its receiver, and deaf to its end.
		far, err := net.Dial("tcp", w.r.Session())
		if err != nil {
			return
		}
		defer far.Close()
		hello, err := readHello(near)
		if err != nil || writeMessage(far, hello) != nil {
			return
		}
		if a, err := readAnswer(far); err == nil && writeMessage(near, a) == nil {
			<-over
		}
	})
	tell(t, "fail", 12)
	writer := newWriter(w.d.(*device), l.Addr().String())
	writer.drainTimeout = 500 * time.Millisecond
	err = writer.Write(w.ctx(), transfer.Piece{Source: []byte("on"), Remote: w.at(0)})
	if !errors.Is(err, ErrWrite) || !errors.Is(err, transfer.ErrUndrained) {
		t.Errorf("%v", err)
	}
	must(t, writer.Close())
}

// Promise: transfers of many goroutines side by side all arrive.
func TestManyWriteAtOnce(t *testing.T) {
	w := newWorld(t)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			for j := range 10 {
				at := (i*10 + j) * 1000
				if err := w.w.Write(w.ctx(), transfer.Piece{Source: bytes.Repeat([]byte{byte(i + 1)}, 1000), Remote: w.at(at)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for i := range 200_000 {
		if w.a[i] != byte(i/10_000+1) {
			t.Fatalf("byte %d is %d", i, w.a[i])
		}
	}
}

// Promise: closing a writer ends its transfers, drained.
func TestCloseCancels(t *testing.T) {
	w := newWorld(t)
	release := w.hold()
	ended := make(chan error, 1)
	go func() { ended <- w.w.Write(w.ctx(), transfer.Piece{Source: make([]byte, len(w.a)), Remote: w.at(0)}) }()
	w.isHeld()
	closed := make(chan error, 1)
	go func() { closed <- w.w.Close() }()
	time.Sleep(20 * time.Millisecond)
	release()
	if err := <-ended; !errors.Is(err, transfer.ErrClosed) || errors.Is(err, transfer.ErrUndrained) {
		t.Errorf("%v", err)
	}
	must(t, <-closed)
	if err := w.w.Write(w.ctx(), transfer.Piece{Source: []byte("on"), Remote: w.at(0)}); !errors.Is(err, transfer.ErrClosed) {
		t.Errorf("after the close: %v", err)
	}
}
