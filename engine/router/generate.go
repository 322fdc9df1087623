package router

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/kvwitness/kvwitness/engine/api"
)

// grace is how long decode may take to hear of prefill's refusal by itself.
const grace = time.Second

// maxPrefillAnswer bounds what is read of prefill's own answer.
const maxPrefillAnswer = 64 << 10

// passed are the headers that go along.
var passed = []string{"Authorization", "Content-Type", api.DrillHeader}

// refusal is prefill's answer when it is an error.
type refusal struct {
	status int
	body   []byte
}

// generate sends a request to both halves and relays decode's answer. Where
// prefill refuses and decode does not hear of it, the refusal is the answer.
func (r *Router) generate(w http.ResponseWriter, req *http.Request) {
	raw, e := api.ReadBody(w, req)
	p, d := r.pick(r.prefills), r.pick(r.decodes)
	if e == nil && (p == nil || d == nil || r.stopping.Load()) {
		e = api.Refuse(http.StatusServiceUnavailable, "", "no pair of prefill and decode is ready")
	}
	if e != nil {
		api.WriteError(w, e)
		return
	}
	body, err := join(raw, p, d)
	if err != nil {
		api.WriteError(w, api.Refuse(http.StatusBadRequest, "invalid_json", "%v", err))
		return
	}
	ctx, cancel := context.WithCancel(req.Context())
	defer cancel()
	refused := make(chan refusal, 1)
	go func() {
		if f, bad := r.prefill(ctx, req, p, body); bad {
			refused <- f
			time.AfterFunc(grace, cancel)
		}
	}()
	resp, err := r.forward(ctx, req, d, body)
	if err == nil {
		relay(w, resp)
		return
	}
	select {
	case f := <-refused:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(f.status)
		_, _ = w.Write(f.body)
	default:
		api.WriteError(w, api.Refuse(http.StatusBadGateway, "", "decode at %s does not answer", d.address()))
	}
}

// prefill sends the request's first half; bad: it was refused, or did not arrive.
func (r *Router) prefill(ctx context.Context, req *http.Request, p *instance, body []byte) (f refusal, bad bool) {
	resp, err := r.forward(ctx, req, p, body)
	if err != nil {
		return refusal{http.StatusBadGateway, []byte(`{"error":{"message":"prefill does not answer","type":"server_error"}}`)}, true
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxPrefillAnswer))
	return refusal{resp.StatusCode, answer}, resp.StatusCode >= http.StatusMultipleChoices
}

func (r *Router) forward(ctx context.Context, req *http.Request, to *instance, body []byte) (*http.Response, error) {
	out, err := http.NewRequestWithContext(ctx, req.Method, to.url.JoinPath(req.URL.Path).String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for _, name := range passed {
		if v := req.Header.Get(name); v != "" {
			out.Header.Set(name, v)
		}
	}
	return r.client.Do(out)
}

// relay hands an answer on as it comes.
func relay(w http.ResponseWriter, resp *http.Response) {
	defer resp.Body.Close()
	for _, name := range []string{"Content-Type", "Retry-After", "Cache-Control", "WWW-Authenticate"} {
		if v := resp.Header.Get(name); v != "" {
			w.Header().Set(name, v)
		}
	}
	w.WriteHeader(resp.StatusCode)
	out, buf := http.NewResponseController(w), make([]byte, 32<<10)
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return
			}
			_ = out.Flush()
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			panic(http.ErrAbortHandler) // half an answer must not look like a whole one
		}
	}
}
