package router

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/api"
)

// Promise: whatever body comes, what goes on is a JSON object with the router's own
// room and addresses, which no client chooses.
func FuzzJoin(f *testing.F) {
	for _, s := range []string{`{}`, `{"bootstrap_room":1,"bootstrap_host":"evil","prompt":"x"}`, `null`, `[]`, `{"a":1e999}`} {
		f.Add([]byte(s))
	}
	p := &pair{prefill{bootstrap: "127.0.0.1:8998"}, nil, "127.0.0.1:7"}
	f.Fuzz(func(t *testing.T, raw []byte) {
		out, err := join(raw, p)
		if err != nil {
			return
		}
		var b struct {
			Host   string `json:"bootstrap_host"`
			Port   int    `json:"bootstrap_port"`
			Room   int64  `json:"bootstrap_room"`
			Decode string `json:"bootstrap_decode"`
		}
		if err := json.Unmarshal(out, &b); err != nil || b.Host != "127.0.0.1" || b.Port != 8998 || b.Room < 1 || b.Decode != "127.0.0.1:7" {
			t.Errorf("%q becomes %q: %v", raw, out, err)
		}
	})
}

// stub is an instance that answers as it is told.
func stub(t *testing.T, status int, body string, wait time.Duration) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/server_info" {
			api.WriteJSON(w, 200, api.Info{BootstrapPort: 1, Control: "127.0.0.1:7"})
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-time.After(wait):
		case <-r.Context().Done():
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func routed(t *testing.T, prefill, decode string) (int, string) {
	t.Helper()
	r, err := New(Config{Prefills: []string{prefill}, Decodes: []string{decode}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	web := httptest.NewServer(r.Handler())
	t.Cleanup(web.Close)
	for end := time.Now().Add(10 * time.Second); !r.Ready() && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	resp, err := http.Post(web.URL+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw)
}

// Promise: decode's answer is the answer; where prefill refuses and decode does not
// hear of it, the refusal is, and soon.
func TestDecodeAnswersUnlessPrefillRefusesAlone(t *testing.T) {
	if status, body := routed(t, stub(t, 200, "{}", 0), stub(t, 200, "good", 50*time.Millisecond)); status != 200 || body != "good" {
		t.Errorf("%d %q", status, body)
	}
	begin := time.Now()
	status, body := routed(t, stub(t, 503, "stopping", 0), stub(t, 200, "late", time.Minute))
	if status != 503 || body != "stopping" || time.Since(begin) > 20*time.Second {
		t.Errorf("%d %q after %v", status, body, time.Since(begin))
	}
}
