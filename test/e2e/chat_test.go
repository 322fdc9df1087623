package e2e

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/kvwitness/kvwitness/engine/model"
)

const story = "the cat sat on the mat; the dog ate the bone; the bird sang in the tree; the cat "

// Promise: a chat through router, prefill and decode is answered as the oracle
// says, plain and streaming, and leaves nothing behind.
func TestAChatThroughRouterPrefillAndDecode(t *testing.T) {
	c, err := disaggregated(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	prompt := model.EncodeTurns([]byte(story), []byte("the dog"), []byte(story))
	want, _ := model.ExpectTokens(prompt, 50)
	for _, stream := range []bool{false, true} {
		body, _ := json.Marshal(map[string]any{
			"messages":   []map[string]string{{"role": "user", "content": story}, {"role": "assistant", "content": "the dog"}, {"role": "user", "content": story}},
			"max_tokens": 50, "stream": stream,
		})
		a, err := ask(t.Context(), c.url+"/v1/chat/completions", "", body)
		if err != nil {
			t.Fatal(err)
		}
		if a.status != 200 || a.text != string(model.Decode(want)) || a.finish != "length" {
			t.Fatalf("stream %v: %d %q %q %s, want %q", stream, a.status, a.text, a.finish, a.raw, model.Decode(want))
		}
	}
	c.rest()
}

// Promise: an answer ends by itself where the text does, and at a stop string.
func TestAnAnswerStopsAfterAHandoff(t *testing.T) {
	c, err := disaggregated(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	prompt := model.EncodeTurns([]byte("ping"), []byte("pong!"), []byte("ping"))
	want, ended := model.ExpectTokens(prompt, 50)
	if !ended {
		t.Fatalf("the oracle does not end: %q", model.Decode(want))
	}
	for stop, text := range map[string]string{"": string(model.Decode(want)), "!": "pong"} {
		body := map[string]any{"messages": []map[string]string{{"role": "user", "content": "ping"}, {"role": "assistant", "content": "pong!"}, {"role": "user", "content": "ping"}}, "max_tokens": 50}
		if stop != "" {
			body["stop"] = stop
		}
		raw, _ := json.Marshal(body)
		a, err := ask(context.Background(), c.url+"/v1/chat/completions", "", raw)
		if err != nil {
			t.Fatal(err)
		}
		if stop != "" {
			text = before(string(model.Decode(want)), stop)
		}
		if a.text != text || a.finish != "stop" {
			t.Errorf("stop %q: %q %q, want %q", stop, a.text, a.finish, text)
		}
	}
	c.rest()
}

func before(s, stop string) string {
	for i := range s {
		if len(s)-i >= len(stop) && s[i:i+len(stop)] == stop {
			return s[:i]
		}
	}
	return s
}
