package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/engine/worker"
)

// writeTimeout is how long a client may take for the next piece of a stream.
const writeTimeout = 30 * time.Second

// form is what differs between completions and chat.
type form interface {
	name() string
	prefix() string
	object(stream bool) string
	// choice holds text; first and finish are about a stream.
	choice(text string, stream, first bool, finish *string) map[string]any
}

type completionForm struct{}

func (completionForm) name() string       { return "completions" }
func (completionForm) prefix() string     { return "cmpl-" }
func (completionForm) object(bool) string { return "text_completion" }

func (completionForm) choice(text string, _, _ bool, finish *string) map[string]any {
	return map[string]any{"index": 0, "text": text, "logprobs": nil, "finish_reason": finish}
}

type chatForm struct{}

func (chatForm) name() string   { return "chat" }
func (chatForm) prefix() string { return "chatcmpl-" }

func (chatForm) object(stream bool) string {
	if stream {
		return "chat.completion.chunk"
	}
	return "chat.completion"
}

func (chatForm) choice(text string, stream, first bool, finish *string) map[string]any {
	message := map[string]any{"content": text}
	if first || !stream {
		message["role"] = "assistant"
	}
	key := "message"
	if stream {
		key = "delta"
	}
	return map[string]any{"index": 0, key: message, "finish_reason": finish}
}

// reply writes one answer.
type reply struct {
	form    form
	id      string
	model   string
	created int64
	prompt  int
	usage   bool
}

func (p *reply) object(stream bool, choices ...map[string]any) map[string]any {
	if choices == nil {
		choices = []map[string]any{}
	}
	return map[string]any{"id": p.id, "object": p.form.object(stream), "created": p.created, "model": p.model, "choices": choices}
}

func (p *reply) tokens(e *worker.End) map[string]int {
	return map[string]int{"prompt_tokens": p.prompt, "completion_tokens": e.AnswerTokens, "total_tokens": p.prompt + e.AnswerTokens}
}

func finishReason(e *worker.End) *string {
	reason := "stop"
	if e.Finish == scheduler.FinishLength {
		reason = "length"
	}
	return &reason
}

// plain answers at once, when all is there. It returns the status.
func (p *reply) plain(ctx context.Context, w http.ResponseWriter, a *worker.Answer) int {
	var all []byte
	for {
		text, end, left := read(ctx, a)
		if left {
			return statusLeft
		}
		all = append(all, text...)
		if end == nil {
			continue
		}
		if end.Err != nil {
			WriteError(w, failure(end.Status, end.Err))
			return end.Status
		}
		o := p.object(false, p.form.choice(string(all), false, false, finishReason(end)))
		o["usage"] = p.tokens(end)
		WriteJSON(w, end.Status, o)
		return end.Status
	}
}

// stream sends server-sent events. A failure before the first of them is an
// ordinary error; after it, an event that holds one.
func (p *reply) stream(ctx context.Context, w http.ResponseWriter, a *worker.Answer) int {
	out := http.NewResponseController(w)
	begun := false
	var runes runes
	for {
		text, end, left := read(ctx, a)
		if left {
			return statusLeft
		}
		if end != nil && end.Err != nil {
			if !begun {
				WriteError(w, failure(end.Status, end.Err))
			} else {
				event(w, map[string]*Error{"error": failure(end.Status, end.Err)})
			}
			return end.Status
		}
		// A client that takes nothing is one that has left.
		_ = out.SetWriteDeadline(time.Now().Add(writeTimeout))
		if !begun {
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Cache-Control", "no-cache")
			w.WriteHeader(http.StatusOK)
		}
		if ready := runes.take(text, end != nil); ready != "" || !begun {
			event(w, p.object(true, p.form.choice(ready, true, !begun, nil)))
		}
		begun = true
		if end != nil {
			p.endStream(w, end)
		}
		if out.Flush() != nil {
			return statusLeft
		}
		if end != nil {
			return end.Status
		}
	}
}

func (p *reply) endStream(w http.ResponseWriter, end *worker.End) {
	event(w, p.object(true, p.form.choice("", true, false, finishReason(end))))
	if p.usage {
		o := p.object(true)
		o["usage"] = p.tokens(end)
		event(w, o)
	}
	_, _ = w.Write([]byte("data: [DONE]\n\n"))
}

func event(w http.ResponseWriter, v any) {
	b, _ := json.Marshal(v) // of maps and strings alone
	_, _ = w.Write(append(append([]byte("data: "), b...), "\n\n"...))
}

// runes keeps back the beginning of a character whose rest is still to come.
type runes struct{ held []byte }

func (r *runes) take(text []byte, last bool) string {
	all := append(r.held, text...)
	keep := 0
	for n := 1; !last && n < utf8.UTFMax && n <= len(all); n++ {
		if tail := all[len(all)-n:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				keep = n
			}
			break
		}
	}
	r.held = append([]byte(nil), all[len(all)-keep:]...)
	return string(all[:len(all)-keep])
}
