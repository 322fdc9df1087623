//go:build amd64

package pdwire

import (
	"bytes"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kvwitness/kvwitness/bpf/load"
	source "github.com/kvwitness/kvwitness/sidecar/source/pdwire"
)

const patience = 20 * time.Second

// secret is content: it may be in no record.
const secret = "the prompt of somebody"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// watched is this process under the probe.
type watched struct {
	t        *testing.T
	p        *load.Probe
	reader   *source.Reader
	messages []*source.Message
	lost     []string
	kinds    [source.Closed + 1]int
	bytes    int // of all records
}

func watch(t *testing.T, o load.Options) *watched {
	t.Helper()
	p, err := Open(o)
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	must(t, p.Targets().Put(uint32(os.Getpid()), uint64(1)))
	w := &watched{t: t, p: p}
	w.reader = source.NewReader(
		func(m *source.Message) { w.messages = append(w.messages, m) },
		func(_ *source.Record, why string) { w.lost = append(w.lost, why) },
	)
	return w
}

func (w *watched) drain() {
	w.t.Helper()
	err := w.p.Drain(func(b []byte) {
		if bytes.Contains(b, []byte(secret)) {
			w.t.Fatalf("content left the kernel: %.300q", b)
		}
		r, err := source.Parse(b)
		must(w.t, err)
		w.kinds[r.Kind]++
		w.bytes += len(b)
		w.reader.Take(&r)
	})
	must(w.t, err)
}

// sides sorts the messages into those sent and those received, without the ones
// whose first frame was cut.
func (w *watched) sides() (sent, received []*source.Message) {
	for _, m := range w.messages {
		switch {
		case m.Frames[0].Damaged || m.Frames[0].Size == 0:
		case m.Sent:
			sent = append(sent, m)
		default:
			received = append(received, m)
		}
	}
	return sent, received
}

// await drains until n messages were seen at each end.
func (w *watched) await(n int) (sent, received []*source.Message) {
	w.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		w.drain()
		if sent, received = w.sides(); len(sent) >= n && len(received) >= n {
			return sent, received
		}
	}
	w.t.Fatalf("saw %d messages sent and %d received, want %d; lost %q, kinds %v", len(sent), len(received), n, w.lost, w.kinds)
	return nil, nil
}

// pair is a connection whose ends the test uses as it likes.
func pair(t testing.TB) (client, server *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	must(t, err)
	s, err := l.Accept()
	must(t, err)
	t.Cleanup(func() { _ = c.Close(); _ = s.Close() })
	return c.(*net.TCPConn), s.(*net.TCPConn)
}

// carry sends bytes and takes them at the other end, cut as the sizes say; the
// last size goes for all that is left.
func carry(t *testing.T, from, to *net.TCPConn, b []byte, sends, reads []int) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		rest := b
		for i := 0; len(rest) > 0; i++ {
			n := min(len(rest), sends[min(i, len(sends)-1)])
			if _, err := from.Write(rest[:n]); err != nil {
				done <- err
				return
			}
			rest = rest[n:]
		}
		done <- nil
	}()
	for i, left := 0, len(b); left > 0; i++ {
		n := min(left, reads[min(i, len(reads)-1)])
		_, err := io.ReadFull(to, make([]byte, n))
		must(t, err)
		left -= n
	}
	must(t, <-done)
}

var whole = []int{1 << 30}

// splice takes bytes from a connection without read or recv.
func splice(t *testing.T, c *net.TCPConn, n int) {
	t.Helper()
	var pipe [2]int
	must(t, unix.Pipe(pipe[:]))
	defer func() { _, _ = unix.Close(pipe[0]), unix.Close(pipe[1]) }()
	raw, err := c.SyscallConn()
	must(t, err)
	must(t, raw.Read(func(fd uintptr) bool {
		moved, err := unix.Splice(int(fd), nil, pipe[1], nil, n, 0)
		if err == nil && moved != int64(n) {
			t.Fatalf("spliced %d of %d bytes", moved, n)
		}
		return err != syscall.EAGAIN
	}))
}
