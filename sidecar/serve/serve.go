// Package serve is the HTTP end of a sidecar: metrics, health, and what was found
// of late.
//
//	/livez             it runs
//	/healthz           it sees: the stream of at least one engine is live
//	/metrics           for Prometheus, OpenMetrics with exemplars if asked for
//	/api/v1/findings   the last findings, ?since=ID&limit=N; /api/v1/verdicts alike
//	/api/v1/state      how each engine and the judge stand
//	/                  what sidecar/web shows, if it is given
//
// It imports sidecar/report and sidecar/credentials. It promises: nothing but the two
// health paths is answered without the token, if there is one, but for the page that
// asks for it; where certificates are asked for, nothing at all without one; an address
// that strangers may reach is refused without a token or such certificates; nothing but
// health and metrics is answered under a name that is not this sidecar's; connections,
// requests and answers are bounded in number, size and time.
package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/kvwitness/kvwitness/sidecar/credentials"
	"github.com/kvwitness/kvwitness/sidecar/report"
)

// Bounds of the server.
const (
	MaxConnections = 64
	maxScrapes     = 4
	maxHeader      = 16 << 10
	readTimeout    = 5 * time.Second
	writeTimeout   = 10 * time.Second
	idleTimeout    = time.Minute
	minToken       = 16
)

// ErrOpen is returned for an address that strangers may reach without a token.
var ErrOpen = errors.New("not a private address: name a token_file, or a listen_ca_file with certificates")

// ErrToken is returned for a token that is easily guessed.
var ErrToken = fmt.Errorf("the token is shorter than %d characters", minToken)

// Source is what is served.
type Source struct {
	Metrics prometheus.Gatherer
	// Sees reports whether anything is seen, and what is not.
	Sees     func() (ok bool, why []string)
	Findings func(since uint64, limit int) []report.Entry
	Verdicts func(since uint64, limit int) []report.Entry
	State    func() any
	Web      http.Handler // of pages; nil: there are none
	Hosts    []string     // names by which this sidecar is asked for, besides addresses
}

// Access says who may ask, and how.
type Access struct {
	Token        string                   // that is asked for; "": none
	Certificates *credentials.Credentials // nil: it is plain HTTP
}

// Protocols are what is spoken under TLS.
var Protocols = []string{"http/1.1"}

// Server serves until it is closed.
type Server struct {
	web    *http.Server
	addr   net.Addr
	scheme string
	done   chan struct{}
}

// Listen serves src at address.
func Listen(ctx context.Context, address string, access Access, src Source) (*Server, error) {
	if err := access.allowed(address); err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for scrapes: %w", err)
	}
	s := &Server{addr: l.Addr(), scheme: "http", done: make(chan struct{}), web: &http.Server{
		Handler: handler(access.Token, src), MaxHeaderBytes: maxHeader, ErrorLog: silent,
		ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
	}}
	l = limit(l, MaxConnections)
	if c := access.Certificates; c != nil {
		l, s.scheme = tls.NewListener(l, c.Server()), "https"
	}
	go func() {
		defer close(s.done)
		_ = s.web.Serve(l)
	}()
	return s, nil
}

// silent: who fails at a handshake must not fill the log.
var silent = log.New(io.Discard, "", 0)

// allowed refuses what strangers could reach.
func (a Access) allowed(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("listen at %s: %w", address, err)
	}
	if a.Token != "" && len(a.Token) < minToken {
		return ErrToken
	}
	if a.Token != "" || a.Certificates != nil && a.Certificates.Mutual() {
		return nil
	}
	ip, err := netip.ParseAddr(host)
	if err == nil && (ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast()) || host == "localhost" {
		return nil
	}
	return fmt.Errorf("listen at %s: %w", address, ErrOpen)
}

// URL of the server.
func (s *Server) URL() string { return s.scheme + "://" + s.addr.String() }

// Close ends it, at once for those who still wait when ctx ends.
func (s *Server) Close(ctx context.Context) error {
	err := s.web.Shutdown(ctx)
	if err != nil {
		err = s.web.Close()
	}
	<-s.done
	return err
}

func handler(token string, src Source) http.Handler {
	open, mux := http.NewServeMux(), http.NewServeMux()
	open.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	open.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { health(w, src) })
	mux.Handle("GET /metrics", promhttp.HandlerFor(src.Metrics, promhttp.HandlerOpts{
		EnableOpenMetrics: true, MaxRequestsInFlight: maxScrapes, Timeout: writeTimeout,
		DisableCompression: true, // it takes a third of a scrape's time, to save some eighty kilobytes
	}))
	rest := http.NewServeMux()
	rest.HandleFunc("GET /api/v1/findings", list("findings", src.Findings))
	rest.HandleFunc("GET /api/v1/verdicts", list("verdicts", src.Verdicts))
	rest.HandleFunc("GET /api/v1/state", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, src.State()) })
	if src.Web != nil {
		rest.Handle("/", src.Web)
	}
	mux.Handle("/", named(src.Hosts, rest))
	if token == "" {
		open.Handle("/", mux)
		return open
	}
	g := newGate(token)
	open.Handle("/", g.guarded(mux, src.Web != nil))
	if src.Web != nil {
		open.Handle("GET /login", named(src.Hosts, src.Web))
		open.Handle("GET /assets/", named(src.Hosts, src.Web))
		open.Handle("POST /login", http.NewCrossOriginProtection().Handler(named(src.Hosts, http.HandlerFunc(g.login))))
	}
	return open
}

func health(w http.ResponseWriter, src Source) {
	ok, why := src.Sees()
	status, word := http.StatusOK, "ok"
	if !ok {
		status, word = http.StatusServiceUnavailable, "blind"
	}
	answer(w, status, map[string]any{"status": word, "not_seen": why})
}

// list serves entries, the oldest first.
func list(name string, of func(since uint64, limit int) []report.Entry) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		since, limit := uint64(0), report.Kept
		if text := r.FormValue("since"); text != "" {
			n, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				answer(w, http.StatusBadRequest, map[string]string{"error": "since is not the id of an entry"})
				return
			}
			since = n
		}
		if text := r.FormValue("limit"); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				answer(w, http.StatusBadRequest, map[string]string{"error": "limit is not a number above 0"})
				return
			}
			limit = min(n, limit)
		}
		answer(w, http.StatusOK, map[string]any{name: of(since, limit)})
	}
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.MarshalWrite(w, body, json.Deterministic(true)) // who hangs up gets no answer
}
