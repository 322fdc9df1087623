package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// What the prompts are made of. A digit is a token of its own in the built-in model
// and in those of SmolLM's family.
const (
	question = "my secret is "
	filler   = "7"
)

// tokens are those of a text in the engines' model.
func (w *set) tokens(ctx context.Context, text string) ([]int, error) {
	body, err := json.Marshal(map[string]string{"prompt": text})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.prefill+"/tokenize", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+w.tenants[0].key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask for the tokens of a prompt: %w", err)
	}
	defer resp.Body.Close()
	var got struct{ Tokens []int }
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&got); err != nil || len(got.Tokens) == 0 {
		return nil, fmt.Errorf("ask for the tokens of a prompt: HTTP %d: %w", resp.StatusCode, err)
	}
	return got.Tokens, nil
}

// filled is a prompt of exactly n tokens: a text again and again, and an end.
func (w *set) filled(ctx context.Context, text, end string, n int) ([]int, error) {
	all, err := w.tokens(ctx, strings.Repeat(text, n))
	if err != nil || end == "" {
		return all[:min(n, len(all))], err
	}
	last, err := w.tokens(ctx, end)
	if err != nil {
		return nil, err
	}
	if n < len(last) || n-len(last) > len(all) {
		return nil, fmt.Errorf("make a prompt of %d tokens: %d and %d are there", n, len(all), len(last))
	}
	return append(all[:n-len(last)], last...), nil
}
