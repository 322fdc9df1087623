//go:build linux && cgo

package verbs

import (
	"bytes"
	"errors"
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/kvwitness/kvwitness/engine/transfer"
	"github.com/kvwitness/kvwitness/engine/transfer/tcp"
)

// Promise: what is missing is said, with what to do.
func TestWhatIsMissingIsSaid(t *testing.T) {
	library, err := compiled()
	must(t, err)
	for _, c := range []struct {
		told string
		c    Config
		says string
	}{
		{"", Config{Library: "libnothing.so.1"}, "apt-get install libibverbs1"},
		{"", Config{Library: "libc.so.6"}, "it has no ibv_get_device_list"},
		{"none", Config{Library: library}, "rdma link add"},
		{"", Config{Library: library, Device: "mlx5_0"}, "there is no mlx5_0, but stub0"},
		{"", Config{Library: library, Port: 2}, "no such port"},
		{"down", Config{Library: library}, "not active"},
		{"", Config{Library: library, GID: 99}, "GID 99"},
		{"", Config{Library: library, GID: 3}, "GID 3 is empty"},
	} {
		release := func() {}
		if c.told != "" {
			release = tell(t, c.told, 1)
		}
		d, err := Open(c.c)
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want it to say %q", c, err, c.says)
		}
		if err == nil {
			must(t, d.Close())
		}
		release()
	}
	tell(t, "locked", 1)
	d := stub(t)
	mem := &transfer.Memory{}
	_, err = mem.Register(make([]byte, 100), nil)
	must(t, err)
	if _, err := d.Serve(t.Context(), mem, "127.0.0.1", nil); err == nil || !strings.Contains(err.Error(), "ulimit -l") {
		t.Errorf("memory that cannot be locked: %v", err)
	}
}

// Promise: the address that is taken by itself is the first of IPv4, and the one
// that is asked for otherwise.
func TestTheGIDIsChosen(t *testing.T) {
	if text := stub(t).String(); text != "stub0/1 gid 2 ::ffff:10.77.0.1" {
		t.Error(text)
	}
	library, err := compiled()
	must(t, err)
	d, err := Open(Config{Library: library, Device: "stub0", GID: 1})
	must(t, err)
	if d.String() != "stub0/1 gid 1 fe80::1" {
		t.Error(d)
	}
	must(t, d.Close())
}

// Promise: what this package takes for the library's ABI is that of the installed
// header.
func TestTheABIIsTheLibrarys(t *testing.T) {
	out, err := exec.Command("gcc", "-Wall", "-Werror", "-fsyntax-only", "testdata/abi.c").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// Promise: sides that transfer in different ways refuse each other, and say so.
func TestADifferentWayIsRefused(t *testing.T) {
	w := newWorld(t)
	server, err := tcp.Way{}.Serve(t.Context(), w.mem, "127.0.0.1", nil)
	must(t, err)
	defer server.Close()
	piece := transfer.Piece{Source: bytes.Repeat([]byte{7}, 100), Remote: w.at(0)}
	writer := w.d.Reach(server.Session())
	if err := writer.Write(w.ctx(), piece); !errors.Is(err, ErrHandshake) || errors.Is(err, transfer.ErrUndrained) {
		t.Errorf("verbs to TCP: %v", err)
	}
	must(t, writer.Close())
	client := tcp.Way{}.Reach(w.r.Session())
	if err := client.Write(w.ctx(), piece); !errors.Is(err, transfer.ErrRefused) || errors.Is(err, transfer.ErrUndrained) {
		t.Errorf("TCP to verbs: %v", err)
	}
	must(t, client.Close())
	if w.a[0] != 0 {
		t.Error("something was written")
	}
}

// Promise: a peer that greets and says nonsense, or nothing, costs a connection for
// a bounded time and no queue pair; others are served meanwhile.
func TestHostileHandshakesAreRefused(t *testing.T) {
	w := newWorld(t)
	for _, text := range []string{
		"", "\xff\xff\xff\xff\xff\xff\xff\x7f\x00", "\x03\x00\x00\x00\x00\x00\x00\x00\x00{}", "\x01\x00\x00\x00\x00\x00\x00\x00\x05",
		strings.Repeat("GET / HTTP/1.1\r\n", 10),
	} {
		conn, err := net.Dial("tcp", w.r.Session())
		must(t, err)
		if text != "" {
			_, err = conn.Write([]byte(text))
			must(t, err)
			if n, err := conn.Read(make([]byte, 1)); err == nil {
				t.Errorf("%q is answered with %d bytes", text, n)
			}
		}
		defer conn.Close()
	}
	must(t, w.w.Write(w.ctx(), transfer.Piece{Source: []byte("on"), Remote: w.at(0)}))
	for range maxPairs {
		conn, err := net.Dial("tcp", w.r.Session())
		must(t, err)
		defer conn.Close()
	}
	must(t, w.w.Write(w.ctx(), transfer.Piece{Source: []byte("on"), Remote: w.at(0)}))
}
