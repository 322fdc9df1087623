package router

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/kvwitness/kvwitness/engine/api"
)

const (
	// maxAttempts is how many pairs are tried for one request.
	maxAttempts = 3
	// grace is how long decode may take to hear of prefill's refusal by itself.
	grace = time.Second
	// blameWait is how long prefill may take to say that it was the one that refused.
	blameWait = 200 * time.Millisecond
)

// passed are the headers that go along.
var passed = []string{"Authorization", "Content-Type", api.DrillHeader}

// generate sends a request to both halves and relays decode's answer. Another pair
// is tried only where an instance cannot be reached, or says 503: nothing comes of
// the request there. One that dies with the request in it is a 502, since nobody
// knows how far it came, and one that dies within its answer ends the connection.
func (r *Router) generate(w http.ResponseWriter, req *http.Request) {
	raw, e := api.ReadBody(w, req)
	if e != nil {
		api.WriteError(w, e)
		return
	}
	f, avoid := noPair(), map[*instance]bool{}
	turn := r.turn.Add(1)
	for range maxAttempts {
		p := r.choose(turn, avoid)
		if p == nil || r.stopping.Load() {
			break
		}
		body, err := join(raw, p)
		if err != nil {
			api.WriteError(w, api.Refuse(http.StatusBadRequest, "invalid_json", "%v", err))
			return
		}
		if f = r.attempt(w, req, p, body); f == nil {
			return
		}
		if !f.again || req.Context().Err() != nil {
			break
		}
		avoid[f.from] = true
	}
	f.write(w)
}

// attempt has one pair serve a request; nil: the client has its answer.
func (r *Router) attempt(w http.ResponseWriter, req *http.Request, p *pair, body []byte) *refusal {
	ctx, cancel := context.WithCancel(req.Context())
	defer cancel()
	var decided sync.Once // decode answers, or is not waited for any more
	giveUp := func() { decided.Do(cancel) }
	refused := make(chan *refusal, len(p.ranks))
	for _, rank := range p.ranks {
		go func() {
			f := r.half(ctx, req, rank, body)
			switch {
			case f == nil:
				return
			case f.again:
				defer giveUp()
			default:
				time.AfterFunc(grace, giveUp)
			}
			refused <- f
		}()
	}
	resp, err := r.forward(ctx, req, p.decode, body)
	answered := false
	decided.Do(func() { answered = err == nil })
	switch {
	case answered && resp.StatusCode != http.StatusServiceUnavailable:
		relay(w, resp)
		return nil
	case err == nil:
		return blame(readRefusal(resp, p.decode), refused, blameWait)
	case req.Context().Err() != nil: // the client has left
		return &refusal{status: http.StatusBadGateway}
	case ctx.Err() != nil: // prefill has refused
		return <-refused
	}
	return blame(r.failed(p.decode, err), refused, 0)
}

// blame takes prefill's refusal for the reason if there is one, or comes in time.
func blame(f *refusal, refused <-chan *refusal, wait time.Duration) *refusal {
	select {
	case g := <-refused:
		return g
	default:
	}
	select {
	case g := <-refused:
		return g
	case <-time.After(wait):
		return f
	}
}

// half sends a request to a rank of prefill; nil: it has done its part.
func (r *Router) half(ctx context.Context, req *http.Request, rank *instance, body []byte) *refusal {
	resp, err := r.forward(ctx, req, rank, body)
	if err != nil && ctx.Err() != nil {
		return nil // nobody waits for it any more
	}
	if err != nil {
		return r.failed(rank, err)
	}
	f := readRefusal(resp, rank)
	if f.status < http.StatusMultipleChoices {
		return nil
	}
	return f
}

// failed is what an error says of an instance: not reached, so that nothing was
// begun there, or lost with the request in it.
func (r *Router) failed(i *instance, err error) *refusal {
	f := r.down(i)
	var op *net.OpError
	f.again = errors.As(err, &op) && op.Op == "dial"
	return f
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

// join adds the room and who meets in it to a body.
func join(raw []byte, p *pair) ([]byte, error) {
	var body map[string]json.RawMessage
	if err := json.Unmarshal(raw, &body); err != nil || body == nil {
		return nil, errors.New("the body is not a JSON object")
	}
	host, port, err := net.SplitHostPort(p.bootstrap)
	if err != nil {
		return nil, errors.New("prefill's bootstrap address is none")
	}
	add := map[string]any{
		"bootstrap_host": host, "bootstrap_port": json.Number(port),
		"bootstrap_room": rand.Int64N(1<<62) + 1, "bootstrap_decode": p.control,
	}
	for k, v := range add {
		if body[k], err = json.Marshal(v); err != nil {
			return nil, errors.New("prefill's bootstrap address is none")
		}
	}
	return json.Marshal(body)
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
