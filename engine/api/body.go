package api

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"

	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/engine/scheduler"
)

// Bounds of a request.
const (
	MaxBody          = 4 << 20
	MaxMessages      = 4096
	MaxTemperature   = 2
	DefaultMaxTokens = 256
	MaxSaltBytes     = 256
)

// Body is what a completion or a chat asks for. What is not known is ignored, as
// clients send more than an engine supports.
type Body struct {
	Model               string          `json:"model"`
	Prompt              json.RawMessage `json:"prompt"`
	Messages            []Message       `json:"messages"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	Temperature         *float64        `json:"temperature"`
	Seed                *int64          `json:"seed"`
	Stop                json.RawMessage `json:"stop"`
	N                   *int            `json:"n"`
	Stream              bool            `json:"stream"`
	StreamOptions       *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	CacheSalt string `json:"cache_salt"`
	// RID names the request, for /abort_request; it is the id of the answer.
	RID string `json:"rid"`

	// Set by a router: SGLang's names, and decode's control address.
	BootstrapHost   string         `json:"bootstrap_host"`
	BootstrapPort   int            `json:"bootstrap_port"`
	BootstrapRoom   scheduler.Room `json:"bootstrap_room"`
	BootstrapDecode string         `json:"bootstrap_decode"`
}

// Message of a chat.
type Message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// ReadBody reads a bounded body: 413 beyond MaxBody, at once where its length is
// said.
func ReadBody(w http.ResponseWriter, r *http.Request) ([]byte, *Error) {
	if r.ContentLength > MaxBody {
		w.Header().Set("Connection", "close") // nothing of it is waited for
		return nil, Refuse(http.StatusRequestEntityTooLarge, "body_too_large", "the body is longer than %d bytes", MaxBody)
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		return nil, Refuse(http.StatusRequestEntityTooLarge, "body_too_large", "the body is longer than %d bytes", MaxBody)
	case err != nil:
		return nil, Refuse(http.StatusBadRequest, "", "reading the body: %v", err)
	}
	return raw, nil
}

// ParseBody reads a body. What is quoted of it in an error is names, never text.
func ParseBody(raw []byte) (*Body, *Error) {
	var b Body
	if err := json.Unmarshal(raw, &b); err != nil {
		return nil, Refuse(http.StatusBadRequest, "invalid_json", "the body is not a JSON object of the expected form")
	}
	switch {
	case b.N != nil && *b.N != 1:
		return nil, refuseParam("n", "only one answer at a time is supported")
	case b.Temperature != nil && !(*b.Temperature >= 0 && *b.Temperature <= MaxTemperature):
		return nil, refuseParam("temperature", "want 0 to 2")
	case len(b.CacheSalt) > MaxSaltBytes:
		return nil, refuseParam("cache_salt", "longer than 256 bytes")
	case len(b.RID) > MaxRIDBytes:
		return nil, refuseParam("rid", "longer than 256 bytes")
	case len(b.Messages) > MaxMessages:
		return nil, refuseParam("messages", "more than 4096")
	}
	return &b, nil
}

func refuseParam(param, why string) *Error {
	e := Refuse(http.StatusBadRequest, "invalid_value", "%s: %s", param, why)
	e.Param = param
	return e
}

// maxTokens to answer with.
func (b *Body) maxTokens() (int, *Error) {
	for _, n := range []*int{b.MaxCompletionTokens, b.MaxTokens} {
		if n == nil {
			continue
		}
		if *n < 1 || *n > math.MaxInt32 {
			return 0, refuseParam("max_tokens", "want at least 1")
		}
		return *n, nil
	}
	return DefaultMaxTokens, nil
}

// stops are the strings that end the answer.
func (b *Body) stops() ([][]byte, *Error) {
	if len(b.Stop) == 0 || string(b.Stop) == "null" {
		return nil, nil
	}
	var one string
	if json.Unmarshal(b.Stop, &one) == nil {
		return [][]byte{[]byte(one)}, nil
	}
	var many []string
	if json.Unmarshal(b.Stop, &many) != nil {
		return nil, refuseParam("stop", "want a string or a list of strings")
	}
	var out [][]byte
	for _, s := range many {
		out = append(out, []byte(s))
	}
	return out, nil
}

// completionPrompt reads prompt: a string, a list of one string, or a list of
// token ids.
func (b *Body) completionPrompt(words model.Vocabulary) ([]model.Token, *Error) {
	var text string
	if json.Unmarshal(b.Prompt, &text) == nil {
		return words.Encode([]byte(text)), nil
	}
	var texts []string
	if json.Unmarshal(b.Prompt, &texts) == nil && len(texts) == 1 {
		return words.Encode([]byte(texts[0])), nil
	}
	var tokens []model.Token
	if json.Unmarshal(b.Prompt, &tokens) != nil || len(tokens) == 0 {
		return nil, refuseParam("prompt", "want a string, a list of one string, or a list of token ids")
	}
	for _, t := range tokens {
		if t < 0 || int(t) >= words.Size() {
			return nil, refuseParam("prompt", "a token id is not in the vocabulary")
		}
	}
	return tokens, nil
}

// chatPrompt joins the messages.
func (b *Body) chatPrompt(words model.Vocabulary) ([]model.Token, *Error) {
	if len(b.Messages) == 0 {
		return nil, refuseParam("messages", "there is none")
	}
	var turns []model.Message
	for _, m := range b.Messages {
		text, ok := m.text()
		if !ok {
			return nil, refuseParam("messages", "content must be a string or a list of text parts")
		}
		turns = append(turns, model.Message{Role: m.Role, Content: string(text)})
	}
	tokens, err := words.EncodeChat(turns)
	if err != nil {
		return nil, refuseParam("messages", err.Error())
	}
	return tokens, nil
}

func (m Message) text() ([]byte, bool) {
	var text string
	if json.Unmarshal(m.Content, &text) == nil {
		return []byte(text), true
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(m.Content, &parts) != nil {
		return nil, false
	}
	var out []byte
	for _, p := range parts {
		if p.Type != "text" {
			return nil, false
		}
		out = append(out, p.Text...)
	}
	return out, true
}
