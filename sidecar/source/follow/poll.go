package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// Bounds of what is taken from an engine's HTTP endpoints.
const (
	MaxAnswer   = 1 << 20
	PollTimeout = 2 * time.Second
	maxModels   = 64
)

// Endpoint is one that is polled.
type Endpoint uint8

// The endpoints that are polled.
const (
	ServerInfo Endpoint = iota
	Models
	NumEndpoint
)

var endpoints = [NumEndpoint]string{"server_info", "v1/models"}

func (e Endpoint) String() string { return endpoints[e] }

// Poll is what an engine's HTTP endpoints said last.
type Poll struct {
	PoolTokens    lifecycle.Opt[int64] // that the pool can hold
	ContextTokens lifecycle.Opt[int64] // as the engine was told
	Effective     lifecycle.Opt[int64] // the longest prompt and answer that it takes
	Protections   [len(Protections)]lifecycle.Opt[lifecycle.State]
	At            time.Time // of the last good answer of server_info
	Fresh         bool      // that was the last answer
	OK, Failed    [NumEndpoint]uint64

	instance, events string
}

// serverInfo is what is read of SGLang's answer, and of kvengine's.
type serverInfo struct {
	PoolTokens    *int64  `json:"max_total_num_tokens"`
	ContextLength *int64  `json:"context_length"`
	Instance      string  `json:"instance"`
	Events        *string `json:"kv_events"`
	Protections   map[string]struct {
		On  bool   `json:"on"`
		Ran uint64 `json:"ran"`
	} `json:"protections"`
}

type models struct {
	Data []struct {
		MaxModelLen *int64 `json:"max_model_len"`
	} `json:"data"`
}

// poller asks an engine's HTTP endpoints.
type poller struct {
	base   *url.URL
	key    string
	client *http.Client
}

var errRedirect = errors.New("it redirects elsewhere")

func newPoller(base, key string) (*poller, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("read the engine's URL: %w", err)
	}
	return &poller{u, key, &http.Client{
		Timeout:       PollTimeout,
		Transport:     &http.Transport{MaxIdleConns: 1, MaxResponseHeaderBytes: 64 << 10, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect },
	}}, nil
}

func (p *poller) get(ctx context.Context, e Endpoint, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base.JoinPath(e.String()).String(), nil)
	if err != nil {
		return fmt.Errorf("ask for %s: %w", e, err)
	}
	if p.key != "" {
		req.Header.Set("Authorization", "Bearer "+p.key)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return fmt.Errorf("ask for %s: %w", e, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("ask for %s: status %d", e, resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("read %s: %w", e, err)
	case len(body) > MaxAnswer:
		return fmt.Errorf("read %s: longer than %d bytes", e, MaxAnswer)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("read %s: %w", e, err)
	}
	return nil
}

// ask brings p up to date and returns what went wrong.
func (p *poller) ask(ctx context.Context, last Poll) (Poll, error) {
	var info serverInfo
	infoErr := p.get(ctx, ServerInfo, &info)
	last.count(ServerInfo, infoErr)
	if last.Fresh = infoErr == nil; last.Fresh {
		last.take(&info)
	}
	var list models
	modelsErr := p.get(ctx, Models, &list)
	last.count(Models, modelsErr)
	if modelsErr == nil {
		last.Effective = list.longest()
	}
	return last, errors.Join(infoErr, modelsErr)
}

func (p *Poll) count(e Endpoint, err error) {
	if err != nil {
		p.Failed[e]++
	} else {
		p.OK[e]++
	}
}

func (p *Poll) take(info *serverInfo) {
	p.At = time.Now()
	p.PoolTokens, p.ContextTokens = tokens(info.PoolTokens), tokens(info.ContextLength)
	p.instance, p.events = "", ""
	if len(info.Instance) <= lifecycle.MaxID {
		p.instance = info.Instance
	}
	if info.Events != nil {
		p.events = *info.Events
	}
	for i, name := range Protections {
		p.Protections[i] = lifecycle.Opt[lifecycle.State]{}
		s, said := info.Protections[name]
		switch {
		case !said:
		case !s.On:
			p.Protections[i] = lifecycle.Some(lifecycle.StateOff)
		case s.Ran > 0:
			p.Protections[i] = lifecycle.Some(lifecycle.StateRan)
		default: // on, and not shown to have run
			p.Protections[i] = lifecycle.Some(lifecycle.StateUnknown)
		}
	}
}

// tokens is a number of tokens that can be.
func tokens(n *int64) lifecycle.Opt[int64] {
	if n == nil || *n < 0 || *n > lifecycle.MaxTokens {
		return lifecycle.Opt[int64]{}
	}
	return lifecycle.Some(*n)
}

// longest is the longest context of the models that are served.
func (m *models) longest() (most lifecycle.Opt[int64]) {
	for i, model := range m.Data {
		n := tokens(model.MaxModelLen)
		if i < maxModels && n.Has && (!most.Has || n.V > most.V) {
			most = n
		}
	}
	return most
}
