package api

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// hurried is a server with the bounds of Web, in a hundredth of their time.
func hurried(t *testing.T) string {
	t.Helper()
	s := Web(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, e := ReadBody(w, r); e != nil {
			WriteError(w, e)
		}
	}))
	s.ReadHeaderTimeout, s.ReadTimeout, s.IdleTimeout = s.ReadHeaderTimeout/100, s.ReadTimeout/100, s.IdleTimeout/100
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return l.Addr().String()
}

// Promise: a client that says nothing, or the half of something, or promises more
// than is allowed, is refused or dropped within the time that is named for it.
func TestHostileClientsAreDroppedWithinNamedTimes(t *testing.T) {
	const slack = 3 * time.Second
	head := func(length string) string {
		return "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: " + length + "\r\n\r\n"
	}
	for name, c := range map[string]struct {
		say    string
		within time.Duration
		want   string // how the answer begins, if there is one
	}{
		"nothing":                {"", HeaderTimeout, ""},
		"half a header":          {"POST /v1/comp", HeaderTimeout, ""},
		"headers without end":    {"GET / HTTP/1.1\r\n" + strings.Repeat("A: "+strings.Repeat("x", 1000)+"\r\n", 200), 0, "HTTP/1.1 431"},
		"half a body":            {head("1000") + "{", BodyTimeout, "HTTP/1.1 400"},
		"2^62 bytes":             {head("4611686018427387904") + "{", 0, "HTTP/1.1 413"},
		"2^64 bytes":             {head("18446744073709551616"), 0, "HTTP/1.1 400"},
		"chunks without end":     {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("fffff\r\n"+strings.Repeat("x", 0xfffff)+"\r\n", 5), 0, "HTTP/1.1 413"},
		"a chunk of 2^62":        {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4000000000000000\r\nx", BodyTimeout, "HTTP/1.1 400"},
		"a request and no other": {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", IdleTimeout, "HTTP/1.1 200"},
		"garbage":                {"\x00\x01garbage\r\n\r\n", 0, "HTTP/1.1 400"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", hurried(t))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			go func() { _, _ = fmt.Fprint(conn, c.say) }()
			_ = conn.SetReadDeadline(time.Now().Add(c.within/100 + slack))
			answer, err := io.ReadAll(conn)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("still connected after %v, %q", c.within/100+slack, answer)
			}
			// One that is dropped while it still sends may lose the answer with the rest.
			dropped := !errors.Is(err, os.ErrDeadlineExceeded) && len(answer) == 0 && len(c.say) > 1<<20
			if c.want != "" && !strings.HasPrefix(string(answer), c.want) && !dropped {
				t.Errorf("answered %.80q, want %s", answer, c.want)
			}
		})
	}
}
