package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/engine/worker"
)

// unified is a whole engine behind HTTP.
func unified(t *testing.T, change func(*worker.Config, *Config)) (string, *worker.Worker) {
	t.Helper()
	url, s := served(t, change)
	return url, s.worker
}

func served(t *testing.T, change func(*worker.Config, *Config)) (string, *Server) {
	t.Helper()
	c := worker.Config{
		Role: scheduler.Unified, Instance: "unified-0", Pages: 65, PageTokens: 16, ContextTokens: 512,
		MaxQueued: 16, MaxRunning: 8, BatchTokens: 128, ChunkTokens: 64, QueueTimeout: 20 * time.Second,
	}
	a := Config{Keys: NoKeys(), Model: "induction"}
	if change != nil {
		change(&c, &a)
	}
	w, err := worker.New(c)
	if err != nil {
		t.Fatal(err)
	}
	a.Worker = w
	server := New(a)
	s := httptest.NewServer(server.Handler())
	t.Cleanup(func() {
		s.Close()
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return s.URL, server
}

func post(t *testing.T, url, key, body string) (int, http.Header, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(raw)
}

const story = "the cat sat on the mat; the dog ate the bone; the cat "

// Promise: a chat is answered byte by byte as the model's own oracle says, plain
// and as a stream, and its usage is right.
func TestAChatIsAnsweredAsTheOracleSays(t *testing.T) {
	url, _ := unified(t, nil)
	prompt := model.EncodeTurns([]byte("you repeat"), []byte(story))
	want, _ := model.ExpectTokens(prompt, 40)
	body := fmt.Sprintf(`{"messages":[{"role":"system","content":"you repeat"},{"role":"user","content":[{"type":"text","text":%q}]}],"max_tokens":40`, story)
	status, _, raw := post(t, url+"/v1/chat/completions", "", body+"}")
	var got struct {
		Choices []struct {
			Message struct{ Role, Content string }
			Finish  string `json:"finish_reason"`
		}
		Usage map[string]int
	}
	if err := json.Unmarshal([]byte(raw), &got); err != nil || status != 200 || len(got.Choices) != 1 {
		t.Fatalf("%d %s: %v", status, raw, err)
	}
	if c := got.Choices[0]; c.Message.Content != string(model.Decode(want)) || c.Message.Role != "assistant" || c.Finish != "length" {
		t.Errorf("answer %+v, want %q", c, model.Decode(want))
	}
	if got.Usage["prompt_tokens"] != len(prompt) || got.Usage["completion_tokens"] != 40 {
		t.Errorf("usage %v", got.Usage)
	}
	_, _, raw = post(t, url+"/v1/chat/completions", "", body+`,"stream":true,"stream_options":{"include_usage":true}}`)
	text, finish := readStream(t, raw)
	if text != string(model.Decode(want)) || finish != "length" {
		t.Errorf("stream %q %q, want %q", text, finish, model.Decode(want))
	}
}

func readStream(t *testing.T, raw string) (text, finish string) {
	t.Helper()
	done := false
	for lines := bufio.NewScanner(strings.NewReader(raw)); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			done = true
			continue
		}
		var e struct {
			Choices []struct {
				Delta  struct{ Content string }
				Text   string
				Finish *string `json:"finish_reason"`
			}
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatal(err)
		}
		for _, c := range e.Choices {
			text += c.Delta.Content + c.Text
			if c.Finish != nil {
				finish = *c.Finish
			}
		}
	}
	if !done {
		t.Fatalf("the stream did not end with [DONE]: %q", raw)
	}
	return text, finish
}

// Promise: a stop string ends the answer and is not in it; nor does a stream show
// the beginning of one.
func TestAStopStringEndsTheAnswer(t *testing.T) {
	url, _ := unified(t, nil)
	full := string(model.Expect([]byte(story), 40))
	at := strings.Index(full, "ate the")
	if at < 0 {
		t.Fatalf("the oracle says %q", full)
	}
	for _, stream := range []bool{false, true} {
		_, _, raw := post(t, url+"/v1/completions", "", fmt.Sprintf(`{"prompt":%q,"max_tokens":40,"stop":["ate the"],"stream":%v}`, story, stream))
		if stream {
			if text, finish := readStream(t, raw); text != full[:at] || finish != "stop" {
				t.Errorf("stream %q %q, want %q", text, finish, full[:at])
			}
			continue
		}
		if want := fmt.Sprintf(`"text":%q`, full[:at]); !strings.Contains(raw, want) || !strings.Contains(raw, `"finish_reason":"stop"`) {
			t.Errorf("%s, want %s", raw, want)
		}
	}
}

// Promise: errors have OpenAI's form and the status that fits.
func TestErrorsHaveOpenAIsForm(t *testing.T) {
	keys, err := ParseKeys([]byte("# tenants\nalpha key-a\nbeta key-b\n"))
	if err != nil {
		t.Fatal(err)
	}
	url, _ := unified(t, func(_ *worker.Config, a *Config) { a.Keys = keys })
	for _, c := range []struct {
		key, body string
		status    int
		says      []string
	}{
		{"", `{}`, 401, []string{"authentication_error", "invalid_api_key"}},
		{"nope", `{}`, 401, []string{"not known"}},
		{"key-a", `{`, 400, []string{"invalid_request_error"}},
		{"key-a", `{"prompt":"x","n":2}`, 400, []string{`"param":"n"`}},
		{"key-a", `{"prompt":[300]}`, 400, []string{`"param":"prompt"`}},
		{"key-a", `{"prompt":"x","temperature":9}`, 400, []string{`"param":"temperature"`}},
		{"key-a", `{"prompt":"x","max_tokens":0}`, 400, []string{`"param":"max_tokens"`}},
		{"key-a", fmt.Sprintf(`{"prompt":%q}`, strings.Repeat("y", 600)), 400, []string{"600", "512", "context_length_exceeded"}},
		{"key-a", `{"prompt":"` + strings.Repeat("z", MaxBody) + `"}`, 413, []string{"body_too_large"}},
	} {
		status, _, raw := post(t, url+"/v1/completions", c.key, c.body)
		if status != c.status || !strings.HasPrefix(raw, `{"error":{"message":`) {
			t.Errorf("%.40s: %d %.200s, want %d", c.body, status, raw, c.status)
		}
		for _, says := range c.says {
			if !strings.Contains(raw, says) {
				t.Errorf("%.40s: %.300s does not say %s", c.body, raw, says)
			}
		}
	}
}

// Promise: a full queue is a 429 that says when to try again, and a stopping
// engine a 503.
func TestAFullQueueAndAStoppingEngineSayWhat(t *testing.T) {
	url, w := unified(t, func(c *worker.Config, _ *Config) { c.MaxQueued, c.MaxRunning, c.Pages = 1, 1, 33 })
	var busy []*worker.Answer
	for range 2 {
		a, err := w.Submit(worker.Request{Prompt: model.Encode(bytes.Repeat([]byte("ab"), 100)), MaxTokens: 300})
		if err != nil {
			t.Fatal(err)
		}
		busy = append(busy, a)
	}
	status, header, raw := post(t, url+"/v1/completions", "", `{"prompt":"x"}`)
	if status != 429 || header.Get("Retry-After") == "" || !strings.Contains(raw, "queue_full") {
		t.Errorf("%d %v %s", status, header, raw)
	}
	for _, a := range busy {
		w.Leave(a)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := w.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	if status, _, raw := post(t, url+"/v1/completions", "", `{"prompt":"x"}`); status != 503 || !strings.Contains(raw, "stopping") {
		t.Errorf("%d %s", status, raw)
	}
}

// Promise: what an operator's tools ask, they get under SGLang's names.
func TestServerInfoModelsAndMetrics(t *testing.T) {
	url, _ := unified(t, func(c *worker.Config, _ *Config) { c.Drill = scheduler.SaltDrop })
	post(t, url+"/v1/completions", "", `{"prompt":"hello hello","max_tokens":3}`)
	for path, says := range map[string][]string{
		"/server_info": {`"max_total_num_tokens":1024`, `"page_size":16`, `"context_length":512`, `"disaggregation_mode":"null"`, `"token_capacity":1024`, `"drill":"salt-drop"`, `"domain-in-key":{"on":false`},
		"/v1/models":   {`"max_model_len":512`, `"id":"induction"`},
		"/health":      {"ok"},
		"/metrics":     {`kvengine_drill{drill="salt-drop"} 1`, `kvengine_http_requests_total{endpoint="completions",status="200"} 1`, `kvengine_pages{pool="kv",state="null"} 1`, `kvengine_protection_on{protection="page-tags"} 1`},
	} {
		resp, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		for _, want := range says {
			if !strings.Contains(string(raw), want) {
				t.Errorf("%s does not say %s: %s", path, want, raw)
			}
		}
	}
}
