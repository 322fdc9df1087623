package engineinfo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/kvwitness/kvwitness/sidecar/credentials"
)

// Bounds of a question.
const (
	// MaxAnswer is the longest answer in JSON, MaxMetrics the longest exposition.
	MaxAnswer  = 4 << 20
	MaxMetrics = 32 << 20
	// DefaultTimeout is how long an endpoint may take.
	DefaultTimeout = 2 * time.Second
	maxSecret      = 4 << 10
	maxHeader      = 64 << 10
)

var (
	errRedirect = errors.New("it redirects elsewhere")
	errTooLong  = errors.New("the answer is too long")
	// ErrURL is returned for what is no URL of an engine.
	ErrURL = errors.New("want http://HOST:PORT or https://HOST:PORT")
	// ErrMissing is wrapped where an engine says that it has no such endpoint.
	ErrMissing = errors.New("there is no such endpoint")
)

// Config says whom to ask, and how.
type Config struct {
	URL     string
	Key     string // to show as a bearer token; "": none
	CA      string // file of the authorities that may vouch for it; "": the system's
	Timeout time.Duration
}

// Client asks one engine. It may be used from any goroutine.
type Client struct {
	base   *url.URL
	key    string
	limit  time.Duration
	client *http.Client
}

// New makes a client; it asks nothing yet.
func New(cfg Config) (*Client, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, fmt.Errorf("read the engine's URL: %w", ErrURL)
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = DefaultTimeout
	}
	trust, err := credentials.Trust(cfg.CA)
	if err != nil {
		return nil, err
	}
	return &Client{u, cfg.Key, cfg.Timeout, &http.Client{
		Transport: &http.Transport{
			TLSClientConfig: trust, MaxIdleConnsPerHost: int(NumEndpoint), MaxResponseHeaderBytes: maxHeader, IdleConnTimeout: time.Minute,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect },
	}}, nil
}

// ReadKey reads a secret from a file of its own; "" where path is "".
func ReadKey(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	raw, err := readBounded(path, maxSecret)
	if err != nil {
		return "", fmt.Errorf("read the key: %w", err)
	}
	key := strings.TrimSpace(string(raw))
	if key == "" || strings.ContainsAny(key, "\r\n") {
		return "", fmt.Errorf("read the key: %s is not one line of text", path)
	}
	return key, nil
}

func readBounded(path string, most int64) ([]byte, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	raw, err := io.ReadAll(io.LimitReader(in, most+1))
	if err == nil && int64(len(raw)) > most {
		err = fmt.Errorf("%s is longer than %d bytes", path, most)
	}
	return raw, err
}

// Ask asks every endpoint, side by side, and brings last up to date. What went
// wrong stands in its Errors.
func (c *Client) Ask(ctx context.Context, last Poll) Poll {
	var wg sync.WaitGroup
	wg.Go(func() {
		last.Errors[ServerInfo] = c.get(ctx, ServerInfo, MaxAnswer, func(body io.Reader) error {
			return parse(body, readServerInfo, &last.server)
		})
	})
	wg.Go(func() {
		last.Errors[Models] = c.get(ctx, Models, MaxAnswer, func(body io.Reader) error {
			return parse(body, readModels, &last.models)
		})
	})
	wg.Go(func() {
		last.Errors[Metrics] = c.get(ctx, Metrics, MaxMetrics, func(body io.Reader) error {
			m, err := readMetrics(body)
			if err == nil {
				last.metrics = m
			}
			return err
		})
	})
	wg.Wait()
	last.sum()
	return last
}

// parse replaces what is known by what an answer says, if it is one.
func parse[T any](body io.Reader, read func([]byte) (T, error), into *T) error {
	var b bytes.Buffer
	if _, err := b.ReadFrom(body); err != nil {
		return err
	}
	v, err := read(b.Bytes())
	if err == nil {
		*into = v
	}
	return err
}

// get asks an endpoint, under its older names where it has no other.
func (c *Client) get(ctx context.Context, e Endpoint, most int64, take func(io.Reader) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	for _, path := range paths[e] {
		if err = c.getOne(ctx, path, most, take); !errors.Is(err, ErrMissing) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("ask for %s: %w", e, err)
	}
	return nil
}

func (c *Client) getOne(ctx context.Context, path string, most int64, take func(io.Reader) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base.JoinPath(path).String(), nil)
	if err != nil {
		return err
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return ErrMissing
	default:
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return take(&bounded{resp.Body, most})
}

// bounded is a reader that fails beyond its limit, rather than end there.
type bounded struct {
	in   io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.in.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
