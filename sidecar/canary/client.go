package canary

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/kvwitness/kvwitness/sidecar/credentials"
)

// Bounds of an answer.
const (
	// MaxBody is how much of an answer is read, MaxText how much of its text.
	MaxBody = 8 << 20
	MaxText = 64 << 10
	// DefaultTimeout is how long an answer may take in all.
	DefaultTimeout = 2 * time.Minute
	maxReason      = 200
)

// API is how a prompt is put.
type API uint8

// The two forms of OpenAI's API.
const (
	Completions API = iota
	Chat
)

// ErrURL is returned for what is no URL of a service.
var ErrURL = errors.New("want http://HOST:PORT or https://HOST:PORT")

// Endpoint says where and how to ask.
type Endpoint struct {
	URL     string
	CA      string // file of the authorities that may vouch for it; "": the system's
	API     API
	Model   string // "": the service's only one
	Timeout time.Duration
}

// Client asks one service. It may be used from any goroutine.
type Client struct {
	cfg  Endpoint
	base *url.URL
	web  *http.Client
}

// NewClient makes a client; it asks nothing yet.
func NewClient(cfg Endpoint) (*Client, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, fmt.Errorf("read the service's URL: %w", ErrURL)
	}
	trust, err := credentials.Trust(cfg.CA)
	if err != nil {
		return nil, err
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = DefaultTimeout
	}
	return &Client{cfg, u, &http.Client{
		Transport:     &http.Transport{TLSClientConfig: trust, MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Tenant is who asks.
type Tenant struct {
	Name string
	Key  string // bearer token; "": none
	Salt string // cache_salt; "": none is sent
}

// Answer is what came of a question.
type Answer struct {
	Status       int    // 0: no answer
	Text         string // bounded; never shown
	Finish       string
	PromptTokens int  // as the service counts them, 0: not said
	CachedTokens int  // of them, from a prefix cache
	CachedSaid   bool // it says how many
	Reason       string
	First, Whole time.Duration // until the first byte of text, and the end
	Broken       bool          // the answer ended before its end
}

// request is the body of a question.
type request struct {
	Model         string          `json:"model,omitzero"`
	Prompt        string          `json:"prompt,omitzero"`
	Messages      []message       `json:"messages,omitzero"`
	MaxTokens     int             `json:"max_tokens"`
	Temperature   float64         `json:"temperature"`
	Stream        bool            `json:"stream"`
	StreamOptions map[string]bool `json:"stream_options"`
	Salt          string          `json:"cache_salt,omitzero"`
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Ask puts a prompt and reads the answer as it comes. Only what keeps the question
// from being put is an error; all else is an Answer.
func (c *Client) Ask(ctx context.Context, as Tenant, prompt string, maxTokens int) (a Answer, err error) {
	body := request{
		Model: c.cfg.Model, MaxTokens: maxTokens, Stream: true, StreamOptions: map[string]bool{"include_usage": true}, Salt: as.Salt,
	}
	path := "v1/completions"
	if c.cfg.API == Chat {
		path = "v1/chat/completions"
		body.Messages = []message{{"user", prompt}}
	} else {
		body.Prompt = prompt
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return a, fmt.Errorf("put a question: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base.JoinPath(path).String(), bytes.NewReader(raw))
	if err != nil {
		return a, fmt.Errorf("put a question: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if as.Key != "" {
		req.Header.Set("Authorization", "Bearer "+as.Key)
	}
	begun := time.Now()
	resp, err := c.web.Do(req)
	if err != nil {
		a.Reason = reason(err)
		return a, nil
	}
	defer resp.Body.Close()
	a.Status = resp.StatusCode
	a.read(io.LimitReader(resp.Body, MaxBody), begun, resp.Header.Get("Content-Type"))
	a.Whole = time.Since(begun)
	return a, nil
}

// reason is an error without the URL that Go puts before it.
func reason(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return clip(err.Error())
}

// clip makes a text fit to be shown in one line.
func clip(text string) string {
	text = strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text), "")
	return text[:min(len(text), maxReason)]
}
