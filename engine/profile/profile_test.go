package profile

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	pprof "github.com/google/pprof/profile"
)

// server is a Pyroscope that keeps what it is sent.
type server struct {
	*httptest.Server
	mu     sync.Mutex
	names  map[string]bool
	phases map[string]bool
	auth   string
	status int
}

func newServer(t *testing.T) *server {
	s := &server{names: map[string]bool{}, phases: map[string]bool{}, status: http.StatusOK}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.auth = r.Header.Get("Authorization")
		s.names[r.URL.Query().Get("name")] = true
		if s.status == http.StatusOK {
			s.take(t, r)
		}
		w.WriteHeader(s.status)
	}))
	t.Cleanup(s.Close)
	return s
}

// take reads the profile of an upload.
func (s *server) take(t *testing.T, r *http.Request) {
	parts, err := r.MultipartReader()
	if err != nil {
		t.Error(err)
		return
	}
	for {
		part, err := parts.NextPart()
		if err != nil {
			return
		}
		if part.FormName() != "profile" {
			continue
		}
		text, err := io.ReadAll(part)
		if err != nil {
			t.Error(err)
			return
		}
		p, err := pprof.Parse(bytes.NewReader(text))
		if err != nil {
			t.Errorf("what is sent is no profile: %v", err)
			return
		}
		for _, sample := range p.Sample {
			for _, phase := range sample.Label["phase"] {
				s.phases[phase] = true
			}
		}
	}
}

func (s *server) await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		s.mu.Lock()
		ok := done()
		s.mu.Unlock()
		if ok {
			return
		}
	}
	t.Fatalf("%s did not come about: %v, %v", what, s.names, s.phases)
}

// Promise: profiles come to the server that is configured, by role, node and phase,
// and to no other.
func TestProfilesComeWithRoleAndPhase(t *testing.T) {
	s, elsewhere := newServer(t), newServer(t)
	t.Setenv(adhoc, elsewhere.URL)
	secret := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(secret, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := Start(Config{URL: s.URL, TokenFile: secret, Role: "sidecar", Node: "node-a", Every: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(time.Second)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		Phase("judge")
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
				_ = strings.Repeat("x", n%100)
			}
		}
	}()
	s.await(t, "a CPU profile of the phase, counted", func() bool { return s.phases["judge"] && p.Stats().Sent > 0 })
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.names {
		if !strings.Contains(name, "role=sidecar") || !strings.Contains(name, "node=node-a") {
			t.Errorf("a profile is called %q", name)
		}
	}
	if s.auth != "Bearer secret" || len(elsewhere.names) > 0 {
		t.Errorf("%q, %d elsewhere", s.auth, len(elsewhere.names))
	}
}

// Promise: a server that refuses, or takes nothing, is counted, and holds up no end.
func TestAServerThatRefusesIsCountedAndHoldsUpNothing(t *testing.T) {
	s := newServer(t)
	s.status = http.StatusForbidden
	p, err := Start(Config{URL: s.URL, Role: "sidecar", Every: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	s.await(t, "a failure", func() bool { return p.Stats().Failed > 0 })
	done := make(chan struct{})
	go func() { p.Close(time.Second); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("it does not end")
	}
	(*log)(p).Errorf("remote upload queue is full, dropping a profile job")
	if p.Stats().Dropped != 1 {
		t.Errorf("%+v", p.Stats())
	}
}

func TestWithoutAnAddressNothingIsTaken(t *testing.T) {
	p, err := Start(Config{})
	if p != nil || err != nil || p.Stats() != (Stats{}) {
		t.Errorf("%v, %v", p, err)
	}
	p.Close(time.Second)
	for _, at := range []string{"pyroscope:4040", "file:///x", "http://"} {
		if _, err := Start(Config{URL: at}); err == nil {
			t.Errorf("%s is taken", at)
		}
	}
	empty := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(empty, []byte(" \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{empty, empty + ".not"} {
		if _, err := Start(Config{URL: "http://127.0.0.1:1", TokenFile: token}); err == nil {
			t.Errorf("a token of %s is taken", token)
		}
	}
}
