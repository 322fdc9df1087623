package serve

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvwitness/kvwitness/sidecar/report"
)

func source(sees bool) Source {
	entries := func(since uint64, limit int) []report.Entry {
		all := []report.Entry{{ID: 1, Said: []byte(`{"kind":"blind"}`)}, {ID: 2, Said: []byte(`{"kind":"blind"}`)}}
		return all[min(int(since), 2):][:min(limit, 2-min(int(since), 2))]
	}
	return Source{
		Metrics: prometheus.NewRegistry(), Sees: func() (bool, []string) { return sees, []string{"decode-0 is away"} },
		Findings: entries, Verdicts: entries, State: func() any { return map[string]int{"engines": 2} },
	}
}

func serve(t testing.TB, token string, src Source) *Server {
	t.Helper()
	s, err := Listen(t.Context(), "127.0.0.1:0", Access{Token: token}, src)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func get(t testing.TB, url, token string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestToRunAndToSeeAreTwoThings(t *testing.T) {
	for _, sees := range []bool{true, false} {
		s := serve(t, "", source(sees))
		if status, _ := get(t, s.URL()+"/livez", ""); status != 200 {
			t.Errorf("livez: %d", status)
		}
		status, body := get(t, s.URL()+"/healthz", "")
		if (status == 200) != sees || !strings.Contains(body, "decode-0 is away") {
			t.Errorf("healthz: %d %s", status, body)
		}
	}
}

func TestListsAreAnsweredFromWhereTheyAreAskedFor(t *testing.T) {
	s := serve(t, "", source(true))
	for path, want := range map[string]string{
		"/api/v1/findings":            `{"findings":[{"id":1,`,
		"/api/v1/findings?since=1":    `{"findings":[{"id":2,`,
		"/api/v1/findings?since=9":    `{"findings":[]}`,
		"/api/v1/verdicts?limit=1":    `{"verdicts":[{"id":1,`,
		"/api/v1/findings?since=-1":   `{"error":"since`,
		"/api/v1/findings?limit=0":    `{"error":"limit`,
		"/api/v1/findings?limit=none": `{"error":"limit`,
		"/api/v1/state":               `{"engines":2}`,
	} {
		if _, body := get(t, s.URL()+path, ""); !strings.HasPrefix(body, want) {
			t.Errorf("%s: %s", path, body)
		}
	}
	if status, _ := get(t, s.URL()+"/metrics", ""); status != 200 {
		t.Errorf("metrics: %d", status)
	}
}

func TestATokenIsAskedForWhereThereIsOne(t *testing.T) {
	const token = "0123456789abcdef"
	s := serve(t, token, source(true))
	for _, path := range []string{"/metrics", "/api/v1/findings", "/api/v1/verdicts", "/api/v1/state", "/nothing"} {
		for _, wrong := range []string{"", "0123456789abcdeg", token + "x"} {
			if status, _ := get(t, s.URL()+path, wrong); status != 401 {
				t.Errorf("%s with %q: %d", path, wrong, status)
			}
		}
		if status, _ := get(t, s.URL()+path, token); status == 401 {
			t.Errorf("%s: %d with the token", path, status)
		}
	}
	for _, path := range []string{"/livez", "/healthz"} {
		if status, _ := get(t, s.URL()+path, ""); status != 200 {
			t.Errorf("%s: %d", path, status)
		}
	}
}

func TestStrangersAreNotListenedToWithoutAToken(t *testing.T) {
	for address, want := range map[string]error{
		"0.0.0.0:0": ErrOpen, "[::]:0": ErrOpen, ":0": ErrOpen, "8.8.8.8:0": ErrOpen, "example.org:0": ErrOpen,
	} {
		if _, err := Listen(t.Context(), address, Access{}, source(true)); !errors.Is(err, want) {
			t.Errorf("%s: %v", address, err)
		}
	}
	if _, err := Listen(t.Context(), "0.0.0.0:0", Access{Token: "short"}, source(true)); !errors.Is(err, ErrToken) {
		t.Errorf("%v", err)
	}
	if _, err := Listen(t.Context(), "nowhere", Access{}, source(true)); err == nil {
		t.Error("an address without a port is one")
	}
}

// Those who connect and say nothing do not keep others out for longer than they may.
func TestConnectionsAreBounded(t *testing.T) {
	s := serve(t, "", source(true))
	var idle []net.Conn
	for range MaxConnections {
		c, err := net.Dial("tcp", s.addr.String())
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, c)
	}
	waited := make(chan int, 1)
	go func() {
		resp, err := http.Get(s.URL() + "/livez")
		if err != nil {
			waited <- 0
			return
		}
		resp.Body.Close()
		waited <- resp.StatusCode
	}()
	select {
	case status := <-waited:
		t.Fatalf("one more is answered: %d", status)
	case <-time.After(50 * time.Millisecond):
	}
	for _, c := range idle {
		c.Close()
	}
	if status := <-waited; status != 200 {
		t.Errorf("%d after the others left", status)
	}
}
