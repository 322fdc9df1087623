package control

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/kvwitness/kvwitness/engine/pdwire"
)

// bootstrapTimeout bounds a request to a bootstrap server, on either side of it.
const bootstrapTimeout = 5 * time.Second

// bootstrap tells decode where the ranks of a prefill are (SGLang's /route), and
// which data-parallel rank took a room.
type bootstrap struct {
	rooms dpRanks

	mu    sync.Mutex
	first *pdwire.RouteRegistration
	ranks map[int]pdwire.RankInfo
}

// add takes a rank in.
func (b *bootstrap) add(r *pdwire.RouteRegistration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ranks == nil {
		b.ranks, b.first = map[int]pdwire.RankInfo{}, r
	}
	b.ranks[r.PPRank] = pdwire.RankInfo{RankIP: r.RankIP, RankPort: r.RankPort}
}

func (b *bootstrap) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /route", b.put)
	mux.HandleFunc("GET /route", b.get)
	mux.HandleFunc("POST /register_dp_rank", b.rooms.register)
	mux.HandleFunc("POST /query_dp_ranks", b.rooms.query)
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	return mux
}

func (b *bootstrap) put(w http.ResponseWriter, r *http.Request) {
	if reg, ok := read(w, r, pdwire.ParseRouteRegistration); ok {
		b.add(reg)
		_, _ = io.WriteString(w, "OK")
	}
}

// read takes a bounded body and parses it; what cannot be read is a 400,
// what says that it is too long a 413.
func read[T any](w http.ResponseWriter, r *http.Request, parse func([]byte) (*T, error)) (v *T, ok bool) {
	if r.ContentLength > pdwire.MaxBootstrapBytes {
		w.Header().Set("Connection", "close") // nothing of it is waited for
		http.Error(w, "the body is too long", http.StatusRequestEntityTooLarge)
		return nil, false
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, pdwire.MaxBootstrapBytes))
	if err == nil {
		v, err = parse(body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
	return v, err == nil
}

func (b *bootstrap) get(w http.ResponseWriter, r *http.Request) {
	q, err := pdwire.ParseRouteQuery(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.first == nil || len(b.ranks) < b.first.PPSize {
		http.Error(w, "not every rank has registered yet", http.StatusNotFound)
		return
	}
	if q.Server() {
		answer(w, pdwire.ServerInfo{
			AttnTPSize: b.first.AttnTPSize, AttnCPSize: 1, DPSize: 1, PPSize: b.first.PPSize, PageSize: b.first.PageSize,
			KVCacheDtype: b.first.KVCacheDtype, HTTPPort: b.first.HTTPPort,
		})
		return
	}
	rank, ok := b.ranks[q.PPRank]
	if !ok {
		http.Error(w, "no such rank", http.StatusNotFound)
		return
	}
	answer(w, rank)
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the peer has left, if anything
}

// prefillInfo is what decode learns of a prefill before it connects.
type prefillInfo struct {
	server   *pdwire.ServerInfo
	ranks    []string // control addresses
	capacity int
}

// discover asks a prefill's bootstrap server, and its API for the size of its pool.
func discover(ctx context.Context, address string) (p prefillInfo, err error) {
	ctx, cancel := context.WithTimeout(ctx, bootstrapTimeout)
	defer cancel()
	body, err := route(ctx, address, pdwire.RouteQuery{DPRank: -1, CPRank: -1, TPRank: -1, PPRank: -1})
	if err != nil {
		return p, err
	}
	if p.server, err = pdwire.ParseServerInfo(body); err != nil {
		return p, err
	}
	for rank := range p.server.PPSize {
		if body, err = route(ctx, address, pdwire.RouteQuery{PPRank: rank}); err != nil {
			return p, err
		}
		r, err := pdwire.ParseRankInfo(body)
		if err != nil {
			return p, err
		}
		p.ranks = append(p.ranks, net.JoinHostPort(r.RankIP, strconv.Itoa(r.RankPort)))
	}
	p.capacity, err = capacity(ctx, address, p.server.HTTPPort)
	return p, err
}

func route(ctx context.Context, address string, q pdwire.RouteQuery) ([]byte, error) {
	return get(ctx, (&url.URL{Scheme: "http", Host: address, Path: "/route", RawQuery: q.Values().Encode()}).String())
}

// capacity is how many tokens prefill's pool can hold; 0 where it does not say.
func capacity(ctx context.Context, address string, port int) (int, error) {
	if port == 0 {
		return 0, nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return 0, err
	}
	body, err := get(ctx, "http://"+net.JoinHostPort(host, strconv.Itoa(port))+"/server_info")
	if err != nil {
		return 0, err
	}
	var info struct {
		Tokens int `json:"max_total_num_tokens"`
	}
	if err := json.Unmarshal(body, &info); err != nil {
		return 0, fmt.Errorf("read prefill's server_info: %w", err)
	}
	return info.Tokens, nil
}

// putRoute registers a rank with the bootstrap server of another.
func putRoute(ctx context.Context, address string, r *pdwire.RouteRegistration) error {
	ctx, cancel := context.WithTimeout(ctx, bootstrapTimeout)
	defer cancel()
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+address+"/route", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("register with bootstrap: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("register with bootstrap: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("register with bootstrap: %s", resp.Status)
	}
	return nil
}

func get(ctx context.Context, address string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("ask prefill: %w", err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, fmt.Errorf("ask prefill: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, pdwire.MaxBootstrapBytes))
	if err != nil {
		return nil, fmt.Errorf("ask prefill: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask prefill: %s", resp.Status)
	}
	return body, nil
}
