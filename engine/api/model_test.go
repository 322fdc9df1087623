package api

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/engine/model/llama"
	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/engine/worker"
	"github.com/kvwitness/kvwitness/test/model/ggufbuild"
)

// fromFile is a small model with random weights, from a file.
func fromFile(t *testing.T) *model.Model {
	t.Helper()
	var b ggufbuild.Builder
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, b.Vocabulary().Network(rand.New(rand.NewPCG(1, 2)), 0).File(), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := llama.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// Promise: a model from a file is asked in its own tokens, which can be asked for,
// and is answered with the text of those that it chose; usage counts tokens, not
// bytes; and no token of another vocabulary is let in.
func TestAModelFromAFileIsAskedInItsOwnTokens(t *testing.T) {
	m := fromFile(t)
	url, _ := unified(t, func(c *worker.Config, _ *Config) { c.Model = m })
	for path, body := range map[string]string{
		"/v1/completions":      `"prompt":"the abc the"`,
		"/v1/chat/completions": `"messages":[{"role":"user","content":"the abc"}]`,
	} {
		var cut struct {
			Tokens []model.Token
			Count  int
			Limit  int `json:"max_model_len"`
		}
		status, _, raw := post(t, url+"/tokenize", "", "{"+body+"}")
		if err := json.Unmarshal([]byte(raw), &cut); err != nil || status != 200 || cut.Count != len(cut.Tokens) || cut.Count == 0 || cut.Limit != 512 {
			t.Fatalf("%s: %d %s: %v", path, status, raw, err)
		}
		if path == "/v1/completions" && !slices.Equal(cut.Tokens, m.Encode([]byte("the abc the"))) {
			t.Errorf("tokens %v", cut.Tokens)
		}
		var got struct{ Usage map[string]int }
		status, _, raw = post(t, url+path, "", "{"+body+`,"max_tokens":20}`)
		if err := json.Unmarshal([]byte(raw), &got); err != nil || status != 200 || got.Usage["prompt_tokens"] != cut.Count {
			t.Errorf("%s: %d %s: %v", path, status, raw, err)
		}
	}
	if status, _, raw := post(t, url+"/v1/completions", "", `{"prompt":[100000]}`); status != 400 {
		t.Errorf("a token of no vocabulary: %d %s", status, raw)
	}
}

// Promise: who has no key learns nothing, of tokens either.
func TestTokenizeWantsAKey(t *testing.T) {
	keys, err := ParseKeys([]byte("alpha key-a"))
	if err != nil {
		t.Fatal(err)
	}
	url, _ := unified(t, func(_ *worker.Config, a *Config) { a.Keys = keys })
	for key, want := range map[string]int{"": 401, "key-b": 401, "key-a": 200} {
		status, _, raw := post(t, url+"/tokenize", key, `{"prompt":"abc"}`)
		if status != want || want == 200 && !strings.Contains(raw, "[97,98,99]") {
			t.Errorf("key %q: %d %s", key, status, raw)
		}
	}
	if status, _, raw := post(t, url+"/tokenize", "key-a", `{"prompt":1}`); status != 400 {
		t.Errorf("no text: %d %s", status, raw)
	}
}

// Promise: an engine does not declare a context that its model has no positions for.
func TestAContextBeyondTheModelsIsRefused(t *testing.T) {
	_, err := worker.New(worker.Config{
		Role: scheduler.Unified, Model: fromFile(t), Pages: 65, PageTokens: 16, ContextTokens: ggufbuild.Context + 1, MaxQueued: 1, MaxRunning: 1, BatchTokens: 64,
	})
	if !errors.Is(err, worker.ErrContext) {
		t.Errorf("%v", err)
	}
}
