package web

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/kvwitness/kvwitness/sidecar/evidence"
	"github.com/kvwitness/kvwitness/sidecar/ledger"
)

//go:embed assets
var assets embed.FS

// policy lets a page load and reach what this server has, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// shownHandoffs is how many handoffs a page shows.
const shownHandoffs = 40

// Source is what is shown. Store and Flow may be nil: there is no evidence then, and
// there are no handoffs.
type Source struct {
	Node  string
	State func() jsontext.Value // as /api/v1/state
	Judge func(ctx context.Context, question func(*ledger.Ledger)) error
	Store *evidence.Store
	Flow  *Flow
	// Closed is called when somebody has closed a disclosure.
	Closed func()
}

type server struct {
	Source
	hub *hub
}

// Handler serves the pages, and the parts of the API that they stand for:
//
//	/                                now
//	/incident/ID                     one incident; POST /incident/ID/close closes it
//	/history                         all incidents
//	/login                           asks for the token (sidecar/serve takes it)
//	/api/v1/now                      what a live view is sent; /api/v1/live is one
//	/api/v1/incidents                their summaries; /api/v1/incidents/ID all of one
//	/api/v1/incidents/ID/export      as one file; POST …/close closes it
func Handler(src Source) http.Handler {
	s := &server{Source: src}
	s.hub = newHub(s.now)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.nowPage)
	mux.HandleFunc("GET /history", s.historyPage)
	mux.HandleFunc("GET /login", s.loginPage)
	mux.HandleFunc("GET /incident/{id}", s.incidentPage)
	mux.HandleFunc("POST /incident/{id}/close", s.closePage)
	mux.HandleFunc("GET /api/v1/now", s.nowJSON)
	mux.Handle("GET /api/v1/live", s.hub)
	mux.HandleFunc("GET /api/v1/incidents", s.list)
	mux.HandleFunc("GET /api/v1/incidents/{id}", s.one)
	mux.HandleFunc("GET /api/v1/incidents/{id}/export", s.export)
	mux.HandleFunc("POST /api/v1/incidents/{id}/close", s.closeJSON)
	static, err := fs.Sub(assets, "assets")
	if err != nil {
		panic(err) // the folder is embedded
	}
	mux.Handle("GET /assets/", http.StripPrefix("/assets/", http.FileServerFS(static)))
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fail(w, http.StatusNotFound, errNoPage) })
	return http.NewCrossOriginProtection().Handler(guarded(mux))
}

var errNoPage = errors.New("there is no such page")

// guarded sets what keeps a browser from being misled.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		r.Body = http.MaxBytesReader(w, r.Body, 8<<10)
		next.ServeHTTP(w, r)
	})
}

// now looks at everything.
func (s *server) now(ctx context.Context) (*Now, error) {
	pools, err := maps(ctx, s.Judge)
	if err != nil {
		return nil, err
	}
	n := &Now{At: time.Now().UTC().Format(time.RFC3339Nano), States: states(), Pools: pools, Handoffs: []Handoff{}, Open: []Row{}, State: s.State()}
	if pools == nil {
		n.Pools = []PoolMap{}
	}
	if s.Flow != nil {
		if all, _ := s.Flow.Recent(shownHandoffs); all != nil {
			n.Handoffs = all
		}
	}
	if s.Store != nil {
		for _, i := range s.Store.List() {
			if i.Open && len(n.Open) < shownHandoffs {
				n.Open = append(n.Open, row(&i))
			}
		}
	}
	return n, nil
}

func (s *server) nowJSON(w http.ResponseWriter, r *http.Request) {
	text, err := s.hub.now(r.Context())
	if err != nil {
		fail(w, http.StatusServiceUnavailable, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // who hangs up gets no answer
}

func fail(w http.ResponseWriter, status int, err error) {
	answer(w, status, map[string]string{"error": err.Error()})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.MarshalWrite(w, body, json.Deterministic(true), jsontext.AllowInvalidUTF8(true)) // who hangs up gets no answer
}
