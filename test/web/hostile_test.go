package web

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/test/live"
)

// raw sends bytes to a sidecar and returns the status line of the answer, "" for none.
func raw(t *testing.T, url, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(c, text) // it may hang up in the middle
	line, _ := bufio.NewReader(c).ReadString('\n')
	return strings.TrimSpace(line)
}

// Promise: whoever asks without the token, under another name, for what is not there,
// or too much, gets nothing and harms nothing.
func TestHostileRequestsGetNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := live.Start(witness, "watching", "sidecar", "--listen", "127.0.0.1:0", "--engines", "a=;instance=i", "--events-dir", t.TempDir(), "--token-file", file, "--evidence", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	const with = "Authorization: Bearer 0123456789abcdef\r\n"
	for _, c := range []struct{ name, request, want string }{
		{"no token", "GET /api/v1/incidents HTTP/1.1\r\nHost: localhost\r\n\r\n", "401"},
		{"no token for a live view", "GET /api/v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n", "401"},
		{"a wrong token", "GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer 0123456789abcdeF\r\n\r\n", "401"},
		{"another scheme", "GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic 0123456789abcdef\r\n\r\n", "401"},
		{"no token to close", "POST /api/v1/incidents/x/close HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}", "401"},
		{"another host", "GET / HTTP/1.1\r\nHost: evil.example\r\n" + with + "\r\n", "421"},
		{"two hosts", "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n" + with + "\r\n", "400"},
		{"an absolute address", "GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n" + with + "\r\n", "421"},
		{"a path that climbs", "GET /assets/../../../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n" + with + "\r\n", "307"},
		{"a path that climbs unseen", "GET /assets/%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"},
		{"an encoded slash", "GET /incident/..%2f..%2f..%2fetc%2fpasswd HTTP/1.1\r\nHost: localhost\r\n" + with + "\r\n", "404"},
		{"another method", "DELETE /api/v1/incidents HTTP/1.1\r\nHost: localhost\r\n" + with + "\r\n", "404"},
		{"a huge header", "GET / HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n", "431"},
		{"many headers", "GET / HTTP/1.1\r\nHost: localhost\r\n" + strings.Repeat("X: y\r\n", 1<<17) + "\r\n", "431"},
		{"no HTTP", "\x16\x03\x01\x00\xa5 what\r\n\r\n", "400"},
		{"a huge body", "POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 99999999\r\n\r\ntoken=" + strings.Repeat("x", 64<<10), "303"},
	} {
		line := raw(t, p.Said["url"], c.request)
		if _, status, _ := strings.Cut(line, " "); !strings.HasPrefix(status, c.want) && line != "" {
			t.Errorf("%s: %q, want %s", c.name, line, c.want)
		}
	}
	if line := raw(t, p.Said["url"], "GET /api/v1/incidents HTTP/1.1\r\nHost: localhost\r\n"+with+"\r\n"); !strings.Contains(line, "200") {
		t.Errorf("who shows the token gets %q", line)
	}
}

// Promise: a thousand who want a live view, and as many who never finish their request,
// are bounded; who comes after them is answered.
func TestAThousandLiveViewsAreBounded(t *testing.T) {
	p, err := live.Start(witness, "watching", "sidecar", "--listen", "127.0.0.1:0", "--engines", "a=;instance=i", "--events-dir", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	var all []net.Conn
	for n := range 1000 {
		c, err := net.DialTimeout("tcp", strings.TrimPrefix(p.Said["url"], "http://"), time.Second)
		if err != nil {
			break // the system's queue is full, which is a bound as well
		}
		all = append(all, c)
		request := "GET /api/v1/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
		if n%2 == 1 {
			request = "GET / HTTP/1.1\r\nHost: local"
		}
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = io.WriteString(c, request)
	}
	memory, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(memory)) {
		var kib int
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kib); n == 1 && kib > 256<<10 {
			t.Errorf("it takes %d KiB", kib)
		}
	}
	t.Logf("%d connections", len(all))
	for _, c := range all {
		c.Close()
	}
	if err := live.Await("an answer after them", func() bool {
		resp, err := http.Get(p.Said["url"] + "/")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == 200
	}); err != nil {
		t.Error(err)
	}
}

// words are what tenants wrote in the drill.
var words = []string{"alpha says", "beta asks", "first tenant wrote", "nobody else", "bbbbbbbbbbbbbbbb"}

// Promise: nothing that a sidecar shows, tells, logs or keeps has a word of a prompt
// or an answer.
func TestNothingThatIsKeptOrShownHasAWordOfAPrompt(t *testing.T) {
	store := t.TempDir()
	trace := filepath.Join(t.TempDir(), "trace.jsonl")
	e, c, s := drilled(t, "--evidence", store, "--record", trace)
	if _, err := e.Play(c, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Rest(0); err != nil {
		t.Fatal(err)
	}
	var list struct{ Incidents []struct{ ID string } }
	if err := live.Await("the evidence is whole", func() bool {
		return s.Get("/api/v1/incidents", &list) == nil && len(list.Incidents) > 0
	}); err != nil {
		t.Fatal(err)
	}
	said := map[string]string{"its output": s.Out(), "its log": s.Notes()}
	paths := []string{"/", "/history", "/metrics", "/healthz", "/api/v1/findings", "/api/v1/verdicts", "/api/v1/state", "/api/v1/now", "/api/v1/incidents"}
	for _, i := range list.Incidents {
		paths = append(paths, "/incident/"+i.ID, "/api/v1/incidents/"+i.ID, "/api/v1/incidents/"+i.ID+"/export")
	}
	for _, path := range paths {
		body, err := s.Body(path)
		if err != nil || len(body) == 0 {
			t.Errorf("%s: %d bytes, %v", path, len(body), err)
		}
		said[path] = string(body)
	}
	if _, err := s.Stop(); err != nil {
		t.Error(err)
	}
	for _, folder := range []string{store, filepath.Dir(trace)} {
		err := fs.WalkDir(os.DirFS(folder), ".", func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(filepath.Join(folder, p))
			said[p] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(said) < 15 {
		t.Errorf("only %d things were looked at", len(said))
	}
	for where, text := range said {
		for _, word := range words {
			if strings.Contains(text, word) {
				t.Errorf("%s says %q", where, word)
			}
		}
	}
}
