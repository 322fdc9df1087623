package api

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/kvwitness/kvwitness/engine/profile"
	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/engine/worker"
)

// DrillHeader names a drill for one request, where the operator allows it.
const DrillHeader = "Kvengine-Drill"

// inspectTimeout bounds a look into the engine.
const inspectTimeout = 2 * time.Second

// Config of a Server.
type Config struct {
	Worker *worker.Worker
	Keys   *Keys
	Model  string
	// Control is this instance's control address, and Bootstrap with its port where
	// prefill serves bootstrap; zero in a unified engine.
	Control, Bootstrap string
	BootstrapPort      int
	// Peers gives the writers of a request, by prefill's bootstrap address, and
	// Prefills the addresses for which it does (decode).
	Peers    func(bootstrap string) ([]scheduler.Peer, error)
	Prefills func() []string
	// Events is the endpoint at which lifecycle events are published; empty: none.
	Events string
	// Profiles are those whose uploads are counted; nil: none are taken.
	Profiles *profile.Profiler
	Log      *slog.Logger
}

// Server serves one engine.
type Server struct {
	cfg      Config
	worker   *worker.Worker
	stopping atomic.Bool
	requests *prometheus.CounterVec
	metrics  http.Handler
	running  running
}

// New makes a server; it listens nowhere itself.
func New(cfg Config) *Server {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{cfg: cfg, worker: cfg.Worker}
	registry := prometheus.NewRegistry()
	s.register(registry)
	s.metrics = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	return s
}

// Handler routes requests.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/completions", s.completions)
	mux.HandleFunc("POST /v1/chat/completions", s.chat)
	mux.HandleFunc("POST /tokenize", s.tokenize)
	mux.HandleFunc("POST /abort_request", s.abort)
	mux.HandleFunc("GET /v1/models", s.models)
	mux.HandleFunc("GET /server_info", s.serverInfo)
	mux.HandleFunc("GET /get_server_info", s.serverInfo)
	mux.HandleFunc("GET /health", s.health)
	mux.Handle("GET /metrics", s.metrics)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		WriteError(w, Refuse(http.StatusNotFound, "", "no such path or method"))
	})
	return mux
}

// Stop makes every further request a 503.
func (s *Server) Stop() { s.stopping.Store(true) }

// inspect looks into the engine.
func (s *Server) inspect(ctx context.Context, do func(worker.View)) error {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	return s.worker.Inspect(ctx, do)
}

func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	err := s.inspect(r.Context(), func(worker.View) {})
	if err != nil || s.stopping.Load() {
		WriteError(w, Refuse(http.StatusServiceUnavailable, "", "stopping, or not answering"))
		return
	}
	WriteJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

func (s *Server) models(w http.ResponseWriter, r *http.Request) {
	if _, e := s.cfg.Keys.Tenant(r); e != nil {
		WriteError(w, e)
		return
	}
	limit := 0
	if err := s.inspect(r.Context(), func(v worker.View) { limit = v.Scheduler.Limit() }); err != nil {
		WriteError(w, failure(http.StatusServiceUnavailable, err))
		return
	}
	WriteJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{map[string]any{
		"id": s.cfg.Model, "object": "model", "created": 0, "owned_by": "kvengine", "root": s.cfg.Model, "max_model_len": limit,
	}}})
}
