package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// maxAnswer bounds what is read of any answer.
const maxAnswer = 4 << 20

// answer is what a client gets.
type answer struct {
	Status  int
	Text    string
	Tokens  int
	Begun   time.Time     // when it was asked for
	First   time.Time     // when the first piece of text came; zero: none
	Latency time.Duration // until the last piece
}

// ask has a completion streamed.
func (w *set) ask(ctx context.Context, as tenant, prompt []int, tokens int) (a answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body, err := json.Marshal(map[string]any{
		"prompt": prompt, "max_tokens": tokens, "stream": true,
		"stream_options": map[string]bool{"include_usage": true},
	})
	if err != nil {
		return a, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.router+"/v1/completions", bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	req.Header.Set("Authorization", "Bearer "+as.key)
	a.Begun = time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return a, fmt.Errorf("ask as tenant %s: %w", as.name, err)
	}
	defer resp.Body.Close()
	a.Status = resp.StatusCode
	err = a.read(io.LimitReader(resp.Body, maxAnswer))
	a.Latency = time.Since(a.Begun)
	return a, err
}

// read takes server-sent events, or a body that is none as it is.
func (a *answer) read(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var e struct {
			Choices []struct{ Text string }
			Error   *struct{}
			Usage   struct {
				Tokens int `json:"completion_tokens"`
			}
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return fmt.Errorf("read an answer: %w", err)
		}
		if e.Error != nil {
			a.Status = http.StatusInternalServerError // of a stream that had begun
			return nil
		}
		a.Tokens += e.Usage.Tokens // said once, at the end
		for _, c := range e.Choices {
			if c.Text == "" {
				continue
			}
			if a.First.IsZero() {
				a.First = time.Now()
			}
			a.Text += c.Text
		}
	}
	return lines.Err()
}

// get reads JSON from the sidecar.
func (w *set) get(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.sidecar+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("ask the sidecar for %s: %w", path, err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(into); err != nil {
		return fmt.Errorf("read %s of the sidecar: %w", path, err)
	}
	return nil
}

type health struct {
	Status  string
	NotSeen []string `json:"not_seen"`
}

func (w *set) health(ctx context.Context) (h health, err error) {
	err = w.get(ctx, "/healthz", &h)
	return h, err
}

// found is a finding as the sidecar tells it.
type found struct {
	ID    uint64
	At    time.Time
	Delay float64 `json:"delay_seconds"`
	Said  struct {
		Kind, Severity, Inst, Req, Room, Observation string
		Exposed                                      []party
	}
}

type party struct{ Inst, Req, Domain string }

// judged is a verdict as the sidecar tells it.
type judged struct {
	ID   uint64
	Said struct{ Verdict, Req, Room, Inst, Why string }
}

func (w *set) findings(ctx context.Context, since uint64) ([]found, error) {
	var list struct{ Findings []found }
	err := w.get(ctx, fmt.Sprintf("/api/v1/findings?since=%d", since), &list)
	return list.Findings, err
}

func (w *set) verdicts(ctx context.Context, since uint64) ([]judged, error) {
	var list struct{ Verdicts []judged }
	err := w.get(ctx, fmt.Sprintf("/api/v1/verdicts?since=%d", since), &list)
	return list.Verdicts, err
}

// await asks until done says so, or the error that it gives last.
func await(ctx context.Context, done func() error) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		err := done()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
