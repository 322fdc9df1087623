package live

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	pprof "github.com/google/pprof/profile"
)

// pyroscope keeps what an engine's profiles are called and labelled.
type pyroscope struct {
	mu     sync.Mutex
	names  string
	phases map[string]bool
	all    bytes.Buffer // the profiles, unpacked
}

func (p *pyroscope) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	parts, err := r.MultipartReader()
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.names += r.URL.Query().Get("name") + "\n"
	for part, err := parts.NextPart(); err == nil; part, err = parts.NextPart() {
		text, _ := io.ReadAll(part)
		profile, err := pprof.ParseData(text)
		if err != nil {
			continue // not the profile's part
		}
		_ = profile.WriteUncompressed(&p.all)
		for _, s := range profile.Sample {
			for _, phase := range s.Label["phase"] {
				p.phases[phase] = true
			}
		}
	}
}

// Promise: an engine that is told to sends its profiles, by role and phase, counts
// them, and says nothing of a prompt in them.
func TestAnEngineSendsItsProfiles(t *testing.T) {
	p := &pyroscope{phases: map[string]bool{}}
	web := httptest.NewServer(p)
	t.Cleanup(web.Close)
	e, err := Start(engine, "serving", "serve", "--port", "0", "--events", "off", "--profiles", web.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Kill)
	const word = "quinquereme"
	ask := fmt.Sprintf(`{"prompt": %q, "max_tokens": 600}`, strings.Repeat(word+" of Nineveh; ", 20))
	err = Await("profiles of both phases, counted", func() bool {
		resp, err := http.Post(e.Said["url"]+"/v1/completions", "application/json", strings.NewReader(ask))
		if err != nil {
			return false
		}
		resp.Body.Close()
		if resp, err = http.Get(e.Said["url"] + "/metrics"); err != nil {
			return false
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.phases["forward"] && p.phases["schedule"] && strings.Contains(string(text), `kvengine_profile_uploads_total{outcome="sent"}`) &&
			!strings.Contains(string(text), `kvengine_profile_uploads_total{outcome="sent"} 0`)
	})
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !strings.Contains(p.names, "role=unified") || !strings.Contains(p.names, "node=") {
		t.Errorf("profiles are called %q", p.names)
	}
	if bytes.Contains(p.all.Bytes(), []byte(word)) {
		t.Error("a profile holds a word of the prompt")
	}
}
