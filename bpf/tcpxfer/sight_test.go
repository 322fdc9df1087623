//go:build amd64

package tcpxfer

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kvwitness/kvwitness/bpf/load"
	"github.com/kvwitness/kvwitness/engine/transfer/tcp"
	source "github.com/kvwitness/kvwitness/sidecar/source/tcpxfer"
)

// pair is a connection whose receiving end the test reads as it likes.
func pair(t testing.TB) (client net.Conn, server *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	client, err = net.Dial("tcp", l.Addr().String())
	must(t, err)
	conn, err := l.Accept()
	must(t, err)
	t.Cleanup(func() { _ = client.Close(); _ = conn.Close() })
	return client, conn.(*net.TCPConn)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func piece(size, address uint64) []byte {
	h := tcp.AppendHeader(nil, tcp.Header{Size: size, Address: address, Opcode: tcp.Write})
	return append(h, make([]byte, size)...)
}

func send(t *testing.T, c net.Conn, parts ...[]byte) {
	t.Helper()
	for _, p := range parts {
		_, err := c.Write(p)
		must(t, err)
	}
}

func read(t *testing.T, c io.Reader, sizes ...int) {
	t.Helper()
	for _, n := range sizes {
		_, err := io.ReadFull(c, make([]byte, n))
		must(t, err)
	}
}

// descriptor runs f with the descriptor of a connection.
func descriptor(t *testing.T, c *net.TCPConn, f func(fd int) error) {
	t.Helper()
	raw, err := c.SyscallConn()
	must(t, err)
	var failed error
	must(t, raw.Read(func(fd uintptr) bool {
		failed = f(int(fd))
		return failed != syscall.EAGAIN
	}))
	must(t, failed)
}

// Promise: headers are found however the process cuts its reads: byte by byte,
// several in one call, scattered over an iovec, after a look with MSG_PEEK.
func TestHeadersAreFoundHoweverTheProcessReads(t *testing.T) {
	one, two := piece(100, 1<<20), piece(40, 2<<20)
	both := len(one) + len(two)
	ways := map[string]func(t *testing.T, c *net.TCPConn){
		"byte by byte": func(t *testing.T, c *net.TCPConn) {
			for range both {
				read(t, c, 1)
			}
		},
		"at once":       func(t *testing.T, c *net.TCPConn) { read(t, c, both) },
		"in the middle": func(t *testing.T, c *net.TCPConn) { read(t, c, 10, 100, 20, 5, both-135) },
		"readv": func(t *testing.T, c *net.TCPConn) {
			descriptor(t, c, func(fd int) error {
				_, err := unix.Readv(fd, [][]byte{make([]byte, 5), make([]byte, 10), make([]byte, 120), make([]byte, 500)})
				return err
			})
		},
		"recvmsg after peeking": func(t *testing.T, c *net.TCPConn) {
			descriptor(t, c, func(fd int) error {
				_, _, err := syscall.Recvfrom(fd, make([]byte, 30), syscall.MSG_PEEK)
				return err
			})
			descriptor(t, c, func(fd int) error {
				_, _, _, _, err := unix.RecvmsgBuffers(fd, [][]byte{make([]byte, 3), make([]byte, 600)}, nil, 0)
				return err
			})
		},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			w := watch(t)
			client, server := pair(t)
			send(t, client, append(append([]byte(nil), one...), two...))
			way(t, server)
			moved := w.await(source.Moved, 2)
			if moved[0].Address != 1<<20 || moved[0].Bytes != 100 || moved[1].Address != 2<<20 || moved[1].Bytes != 40 || moved[1].Offset != 124 {
				t.Errorf("saw %+v", moved)
			}
			if len(w.of(source.Blind)) > 0 {
				t.Errorf("blind: %+v", w.of(source.Blind))
			}
		})
	}
}

// Promise: bytes that are taken unseen make the connection blind where a header
// could have been among them, and mark the piece where none could; afterwards it
// is believed again only where the process asks for a header alone.
func TestBytesThatGoByUnseenAreNoticed(t *testing.T) {
	w := watch(t)
	client, server := pair(t)
	send(t, client, piece(1000, 1<<20), piece(1000, 2<<20), piece(1000, 3<<20), piece(1000, 4<<20), piece(1000, 5<<20))
	read(t, server, 24, 100)
	splice(t, server, 200)
	read(t, server, 700)
	if moved := w.await(source.Moved, 1); !moved[0].Holed || moved[0].Address != 1<<20 {
		t.Errorf("the piece with the hole is %+v", moved)
	}
	splice(t, server, 50)
	read(t, server, 974) // the rest of the second piece
	if blind := w.await(source.Blind, 1); blind[0].Reason != source.Hole {
		t.Errorf("blind: %+v", blind)
	}
	read(t, server, 1, 23, 1000) // not as Mooncake reads
	read(t, server, 24, 1000)
	read(t, server, 24, 1000)
	w.await(source.Joined, 1)
	moved := w.await(source.Moved, 3)[1:]
	if len(moved) != 2 || moved[0].Address != 4<<20 || !moved[0].AfterJoin || moved[0].Holed || moved[1].Address != 5<<20 || moved[1].Offset != 4*1024 {
		t.Errorf("after it was joined: %+v", moved)
	}
}

// splice takes bytes from a connection without read or recv.
func splice(t *testing.T, c *net.TCPConn, n int) {
	t.Helper()
	var pipe [2]int
	must(t, unix.Pipe(pipe[:]))
	defer func() { _, _ = unix.Close(pipe[0]), unix.Close(pipe[1]) }()
	descriptor(t, c, func(fd int) error {
		moved, err := unix.Splice(fd, nil, pipe[1], nil, n, 0)
		if err == nil && moved != int64(n) {
			t.Fatalf("spliced %d of %d bytes", moved, n)
		}
		return err
	})
}

// Promise: a connection that was open before is followed from the first header
// that the process asks for alone, and told as a stranger until then.
func TestAnOpenConnectionIsJoinedAtAHeader(t *testing.T) {
	client, server := pair(t)
	send(t, client, piece(300, 1<<20), piece(300, 2<<20))
	read(t, server, 24, 100)
	w := watch(t)
	read(t, server, 200)
	w.await(source.Stranger, 1)
	read(t, server, 24, 300)
	if moved := w.await(source.Moved, 1); moved[0].Address != 2<<20 || !moved[0].AfterJoin || moved[0].Offset != 324 {
		t.Errorf("saw %+v", moved)
	}
}

// Promise: other traffic of the process is no transfer and makes nothing blind.
func TestOtherTrafficIsNoTransfer(t *testing.T) {
	w := watch(t)
	web := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		_, _ = io.Copy(out, in.Body)
	}))
	defer web.Close()
	for range 20 {
		resp, err := http.Post(web.URL, "text/plain", io.LimitReader(zeros{}, 100_000))
		must(t, err)
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	client, server := pair(t) // zeros are no header
	send(t, client, make([]byte, 1000))
	read(t, server, 1000)
	w.drain()
	for _, r := range w.seen {
		if r.Kind != source.Closed {
			t.Errorf("took other traffic for %+v", r)
		}
	}
	if inodes, err := w.p.Connections(); err != nil || len(inodes) > 1 {
		t.Errorf("follows %d connections, %v", len(inodes), err)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// Promise: seen = handed on + lost; a ring without room loses records and says
// how many, and what it holds stays right.
func TestAFullRingCountsWhatItLoses(t *testing.T) {
	p, err := Open(load.Options{RingBytes: 4096})
	must(t, err)
	defer p.Close()
	must(t, p.Targets().Put(uint32(os.Getpid()), uint64(1)))
	client, server := pair(t)
	const pieces = 200
	for i := range pieces {
		send(t, client, piece(10, uint64(i+1)<<20))
		read(t, server, 34)
	}
	counted, err := p.Counters()
	must(t, err)
	got := uint64(0)
	err = p.Drain(func([]byte) { got++ })
	must(t, err)
	if counted[RecordsLost] == 0 || counted[RecordsSent] != got || counted[RecordsSent]+counted[RecordsLost] < pieces {
		t.Errorf("counters %v, %d records", counted, got)
	}
}

// Promise: a listener on all addresses names its IPv4 peers by their own address.
func TestPeersOfADualListenerHaveTheirOwnAddress(t *testing.T) {
	w := watch(t)
	l, err := net.Listen("tcp", ":0")
	must(t, err)
	defer l.Close()
	client, err := net.Dial("tcp4", net.JoinHostPort("127.0.0.1", fmt.Sprint(l.Addr().(*net.TCPAddr).Port)))
	must(t, err)
	defer client.Close()
	server, err := l.Accept()
	must(t, err)
	defer server.Close()
	send(t, client, piece(10, 1<<20))
	read(t, server, 34)
	moved := w.await(source.Moved, 1)[0].Ends
	if moved.Remote.String() != client.LocalAddr().String() || moved.Local.String() != client.RemoteAddr().String() {
		t.Errorf("ends are %+v, want %s to %s", moved, client.LocalAddr(), client.RemoteAddr())
	}
	told := w.await(source.Client, 1)[0].Ends
	if told.Sent() != moved.Received() {
		t.Errorf("the two ends are told as %+v and %+v", told, moved)
	}
}
