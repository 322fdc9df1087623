// Package profile sends continuous profiles of this process to a Pyroscope server:
// where its CPU time and its memory go, by role and phase. It is off unless an address
// is configured.
//
// It imports github.com/grafana/pyroscope-go, and is for engines and sidecars alike. It promises: no variable of the
// environment sends profiles elsewhere; what is sent, fails or is dropped is counted;
// Close does not wait longer than it is told; a profile holds names of functions,
// roles and phases, and nothing of what is processed.
package profile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"time"

	"github.com/grafana/pyroscope-go"
)

// adhoc is the variable by which pyroscope-go lets the environment have the address.
const adhoc = "PYROSCOPE_ADHOC_SERVER_ADDRESS"

// timeout bounds one upload, maxToken the file of the token.
const (
	timeout  = 10 * time.Second
	maxToken = 4096
)

// Every is how often profiles are sent.
const Every = 15 * time.Second

// Config says where profiles go, and whose they are.
type Config struct {
	URL       string // of the server; empty: none are taken
	TokenFile string // with the token to show to it; empty: none
	Role      string // sidecar, or the role of an engine
	Node      string
	Every     time.Duration // 0: Every
}

// Stats counts uploads.
type Stats struct {
	Sent, Failed, Dropped uint64
}

// Profiler takes profiles until it is closed. A nil one takes none.
type Profiler struct {
	inner                 *pyroscope.Profiler
	client                http.Client
	sent, failed, dropped atomic.Uint64
}

// Start takes profiles; it returns nil where no address is configured.
func Start(cfg Config) (*Profiler, error) {
	if cfg.URL == "" {
		return nil, nil
	}
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("send profiles: %.200q is not an http address", cfg.URL)
	}
	if err := os.Unsetenv(adhoc); err != nil {
		return nil, fmt.Errorf("send profiles: %w", err)
	}
	p := &Profiler{client: http.Client{Timeout: timeout, CheckRedirect: func(*http.Request, []*http.Request) error {
		return errors.New("it sends on to elsewhere")
	}}}
	header, err := authorization(cfg.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("send profiles: %w", err)
	}
	if cfg.Every == 0 {
		cfg.Every = Every
	}
	p.inner, err = pyroscope.Start(pyroscope.Config{
		ApplicationName: "kvwitness", Tags: map[string]string{"role": cfg.Role, "node": cfg.Node}, ServerAddress: cfg.URL,
		UploadRate: cfg.Every, Logger: (*log)(p), HTTPHeaders: header, HTTPClient: (*client)(p), DisableGCRuns: true,
		ProfileTypes: []pyroscope.ProfileType{pyroscope.ProfileCPU, pyroscope.ProfileAllocSpace, pyroscope.ProfileInuseSpace, pyroscope.ProfileGoroutines},
	})
	if err != nil {
		return nil, fmt.Errorf("send profiles: %w", err)
	}
	return p, nil
}

// authorization is the header that shows the token of a file.
func authorization(path string) (map[string]string, error) {
	if path == "" {
		return nil, nil
	}
	in, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the token: %w", err)
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, maxToken))
	if err != nil {
		return nil, fmt.Errorf("read the token: %w", err)
	}
	if text = bytes.TrimSpace(text); len(text) == 0 {
		return nil, fmt.Errorf("read the token: %s is empty", path)
	}
	return map[string]string{"Authorization": "Bearer " + string(text)}, nil
}

// Phase names what the goroutine does from now on, in the profiles of its CPU time.
func Phase(name string) {
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("phase", name)))
}

// Stats returns the counts so far.
func (p *Profiler) Stats() Stats {
	if p == nil {
		return Stats{}
	}
	return Stats{p.sent.Load(), p.failed.Load(), p.dropped.Load()}
}

// Close sends what was taken last, for at most that long.
func (p *Profiler) Close(wait time.Duration) {
	if p == nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = p.inner.Stop() // it never fails
	}()
	select {
	case <-done:
	case <-time.After(wait):
	}
}

// client counts what becomes of uploads.
type client Profiler

func (c *client) Do(req *http.Request) (*http.Response, error) {
	resp, err := c.client.Do(req)
	if err != nil || resp.StatusCode/100 != 2 {
		c.failed.Add(1)
	} else {
		c.sent.Add(1)
	}
	return resp, err
}

// log counts what is dropped before it is sent: pyroscope-go says it in its log alone.
type log Profiler

func (*log) Infof(string, ...any)  {}
func (*log) Debugf(string, ...any) {}

func (l *log) Errorf(format string, _ ...any) {
	if strings.Contains(format, "queue is full") {
		l.dropped.Add(1)
	}
}
