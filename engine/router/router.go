package router

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvwitness/kvwitness/engine/api"
)

const (
	// watchInterval is how often instances are asked how they are.
	watchInterval = time.Second
	watchTimeout  = 3 * time.Second
	maxInfo       = 1 << 20
	// connectTimeout is how long an instance may take to be reached.
	connectTimeout = 3 * time.Second
)

// Config of a router: the URLs of the APIs.
type Config struct {
	Prefills, Decodes []string
	Log               *slog.Logger
}

// Router is safe for use by any goroutines.
type Router struct {
	cfg      Config
	client   *http.Client
	prefills []*instance
	decodes  []*instance
	turn     atomic.Uint64
	stopping atomic.Bool
	cancel   context.CancelFunc
	wg       sync.WaitGroup
}

// New makes a router and begins to watch the instances.
func New(cfg Config) (*Router, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	r := &Router{cfg: cfg, client: &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 256, DialContext: (&net.Dialer{Timeout: connectTimeout}).DialContext,
	}}}
	for _, side := range []struct {
		urls []string
		to   *[]*instance
	}{{cfg.Prefills, &r.prefills}, {cfg.Decodes, &r.decodes}} {
		for _, text := range side.urls {
			u, err := url.Parse(text)
			if err != nil || u.Scheme != "http" || u.Host == "" {
				return nil, fmt.Errorf("router: %q is not the URL of an instance: want http://HOST:PORT", text)
			}
			*side.to = append(*side.to, &instance{url: u})
		}
	}
	if len(r.prefills) == 0 || len(r.decodes) == 0 {
		return nil, errors.New("router: name at least one prefill and one decode instance")
	}
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.Background())
	for _, i := range r.all() {
		r.wg.Go(func() { r.watch(ctx, i) })
	}
	return r, nil
}

// watch keeps what is known of an instance fresh.
func (r *Router) watch(ctx context.Context, i *instance) {
	for {
		info, err := r.ask(ctx, i)
		if (err == nil) != (i.info.Load() != nil) {
			r.cfg.Log.Info("instance", "url", i.url.String(), "up", err == nil)
		}
		i.info.Store(info)
		wait := watchInterval
		if err != nil || info.Prefills != nil && len(info.Prefills) == 0 { // soon, one hopes
			wait /= 5
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func (r *Router) ask(ctx context.Context, i *instance) (*api.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, i.url.JoinPath("server_info").String(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var info api.Info
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("server_info: %s", resp.Status)
	}
	return &info, json.NewDecoder(io.LimitReader(resp.Body, maxInfo)).Decode(&info)
}

// Stop makes every further request a 503.
func (r *Router) Stop() { r.stopping.Store(true) }

// Close ends the watching.
func (r *Router) Close() {
	r.cancel()
	r.wg.Wait()
	r.client.CloseIdleConnections()
}

// Handler routes requests.
func (r *Router) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/completions", r.generate)
	mux.HandleFunc("POST /v1/chat/completions", r.generate)
	mux.HandleFunc("POST /abort_request", r.abort)
	mux.HandleFunc("GET /v1/models", r.models)
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		if !r.Ready() || r.stopping.Load() {
			api.WriteError(w, api.Refuse(http.StatusServiceUnavailable, "", "no pair of instances is ready"))
			return
		}
		api.WriteJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		api.WriteError(w, api.Refuse(http.StatusNotFound, "", "no such path or method"))
	})
	return mux
}

// models asks a decode instance: the effective context is the lower one of both.
func (r *Router) models(w http.ResponseWriter, req *http.Request) {
	p := r.choose(r.turn.Load(), nil)
	if p == nil {
		noPair().write(w)
		return
	}
	resp, err := r.forward(req.Context(), req, p.decode, nil)
	switch {
	case err == nil:
		relay(w, resp)
	case req.Context().Err() == nil:
		r.down(p.decode).write(w)
	}
}
