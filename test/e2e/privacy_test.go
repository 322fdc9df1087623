package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/api"
	"github.com/kvwitness/kvwitness/engine/process"
	"github.com/kvwitness/kvwitness/engine/scheduler"
)

// shared is a buffer that several engines log to.
type shared struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// Promise: no prompt, answer, key or tenant is in a log at its finest level, in a
// lifecycle stream, in metrics or in server_info, whether requests go well or not.
func TestNothingOfARequestIsToldAnywhere(t *testing.T) {
	var logs shared
	keys, err := api.ParseKeys([]byte("tenantname apikeyvalue\n"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := disaggregated(t, func(_ scheduler.Role, p *process.Config) {
		p.Keys = keys
		p.Log = slog.New(slog.NewTextHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	if err != nil {
		t.Fatal(err)
	}
	const word = "xylophone"
	prompt := "the word is " + word + "; again: the word is "
	if a := c.complete("apikeyvalue", prompt, 20); a.status != 200 || !strings.Contains(a.text, word) {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	c.complete("apikeyvalue", strings.Repeat(prompt, 40), 5)      // too long
	c.complete("wrong"+"apikeyvalue", prompt, 5)                  // not let in
	c.complete("apikeyvalue", prompt, 5, api.DrillHeader, "luck") // not allowed
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	body, _ := json.Marshal(map[string]any{"prompt": strings.Repeat(prompt, 8), "max_tokens": 100, "cache_salt": "saltvalue"})
	_, _ = ask(ctx, c.url+"/v1/completions", "apikeyvalue", body) // left
	told := map[string]string{}
	for _, p := range c.processes() {
		for _, path := range []string{"/metrics", "/server_info"} {
			resp, err := http.Get(p.URL() + path)
			if err != nil {
				t.Fatal(err)
			}
			raw, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			told[p.Control+path] = string(raw)
		}
	}
	c.rest()
	c.close()
	for _, path := range c.traces {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		told[path] = string(raw)
	}
	told["logs"] = logs.String()
	for where, text := range told {
		if len(text) == 0 {
			t.Errorf("%s is empty: this proves nothing", where)
		}
		for _, secret := range []string{word, "the word is", "apikeyvalue", "tenantname", "saltvalue"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s tells %q", where, secret)
			}
		}
	}
}
