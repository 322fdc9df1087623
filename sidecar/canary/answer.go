package canary

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxEvent bounds one event of a stream.
const maxEvent = 1 << 20

// reply is an answer, or a chunk of one, in either form.
type reply struct {
	Choices []struct {
		Text    string `json:"text"`
		Delta   piece  `json:"delta"`
		Message piece  `json:"message"`
		Finish  string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Prompt  int `json:"prompt_tokens"`
		Details *struct {
			Cached *int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Error   jsontext.Value `json:"error"`
	Message string         `json:"message"` // SGLang's errors lie at the top
}

type piece struct {
	Content   string `json:"content"`
	Reasoning string `json:"reasoning_content"`
}

// read reads an answer as it comes.
func (a *Answer) read(in io.Reader, begun time.Time, kind string) {
	if !strings.HasPrefix(kind, "text/event-stream") {
		a.readWhole(in, begun)
		return
	}
	events := bufio.NewReaderSize(in, 64<<10)
	done := false
	var line []byte
	for {
		part, err := events.ReadSlice('\n')
		if line = append(line, part...); errors.Is(err, bufio.ErrBufferFull) && len(line) < maxEvent {
			continue
		}
		if data, is := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data:")); is {
			if data = bytes.TrimSpace(data); string(data) == "[DONE]" {
				done = true
			} else {
				a.take(data, begun)
			}
		}
		line = line[:0]
		if err != nil {
			a.Broken = !done
			return
		}
	}
}

func (a *Answer) readWhole(in io.Reader, begun time.Time) {
	raw, err := io.ReadAll(in)
	a.Broken = err != nil
	a.take(raw, begun)
	if a.Status != http.StatusOK && a.Reason == "" {
		a.Reason = clip(string(raw))
	}
}

// take reads one chunk. What cannot be read is no text.
func (a *Answer) take(raw []byte, begun time.Time) {
	var r reply
	if json.Unmarshal(raw, &r, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)) != nil {
		return
	}
	for _, c := range r.Choices {
		text := c.Text + c.Delta.Reasoning + c.Delta.Content + c.Message.Reasoning + c.Message.Content
		if text != "" && a.First == 0 {
			a.First = time.Since(begun)
		}
		a.Text += text[:min(len(text), MaxText-len(a.Text))]
		if c.Finish != "" {
			a.Finish = c.Finish
		}
	}
	if u := r.Usage; u != nil {
		a.PromptTokens = max(a.PromptTokens, u.Prompt)
		if u.Details != nil && u.Details.Cached != nil {
			a.CachedTokens, a.CachedSaid = *u.Details.Cached, true
		}
	}
	if text := failure(r); text != "" {
		a.Reason = clip(text)
		a.Broken = a.Status == http.StatusOK
	}
}

// failure is the message of an error, in the forms in which it is said.
func failure(r reply) string {
	if len(r.Error) == 0 || r.Error.Kind() == 'n' {
		return r.Message
	}
	var e struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(r.Error, &e) == nil && e.Message != "" {
		return e.Message
	}
	var text string
	if json.Unmarshal(r.Error, &text) == nil {
		return text
	}
	return "an error"
}
