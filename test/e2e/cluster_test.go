package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/api"
	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/publish"
	"github.com/kvwitness/kvwitness/engine/process"
	"github.com/kvwitness/kvwitness/engine/router"
	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/engine/worker"
)

const (
	pageTokens = 16
	patience   = 60 * time.Second
)

// cluster is engines in this process, over loopback sockets.
type cluster struct {
	t                        testing.TB
	unified, prefill, decode *process.Process
	more                     []*process.Process
	url                      string // where clients ask

	keys   *api.Keys
	dir    string
	traces []string
	closed sync.Once
}

func newCluster(t testing.TB) *cluster { return &cluster{t: t, dir: traceDir(t)} }

// setup changes a role's settings before it starts.
type setup func(role scheduler.Role, c *process.Config)

func base(role scheduler.Role) process.Config {
	return process.Config{
		Host: "127.0.0.1", Model: "induction", Keys: api.NoKeys(),
		Worker: worker.Config{
			Role: role, Pages: 129, PageTokens: pageTokens, ContextTokens: 512, MaxQueued: 256, MaxRunning: 16,
			BatchTokens: 256, ChunkTokens: 64, BatchPages: 8, BootstrapTimeout: 20 * time.Second,
			QueueTimeout: 40 * time.Second, TransferTimeout: 20 * time.Second, DrainTimeout: 10 * time.Second,
		},
	}
}

func log() *slog.Logger {
	if os.Getenv("E2E_LOG") == "" {
		return nil
	}
	return slog.New(slog.NewTextHandler(os.Stderr, nil))
}

func (c *cluster) start(role scheduler.Role, change setup, prefills ...string) (*process.Process, error) {
	p := base(role)
	p.Prefills, p.Log = prefills, log()
	p.Witness = func(inst string) (process.Witness, error) { return c.record(role, inst) }
	if change != nil {
		change(role, &p)
	}
	return process.Start(c.t.Context(), p)
}

// record has an instance write what it does to a trace of its own.
func (c *cluster) record(role scheduler.Role, inst string) (process.Witness, error) {
	return c.recordAs(role.String(), inst)
}

func (c *cluster) recordAs(name, inst string) (process.Witness, error) {
	path := filepath.Join(c.dir, name+".jsonl")
	r, err := publish.NewRecorder(
		publish.Identity{Instance: inst, Epoch: 1, Now: worker.Now},
		publish.RecordConfig{Path: path, Header: lifecycle.Header{Node: "node-0"}},
	)
	if err != nil {
		return process.Witness{}, err
	}
	c.traces = append(c.traces, path)
	return process.Witness{Teller: r.Teller, Close: r.Close}, nil
}

// disaggregated starts a router, a prefill and a decode instance; an error is that
// of an engine that refuses to start.
func disaggregated(t testing.TB, change setup) (*cluster, error) {
	t.Helper()
	c := newCluster(t)
	t.Cleanup(c.close)
	var err error
	if c.prefill, err = c.start(scheduler.Prefill, change); err != nil {
		return nil, err
	}
	if c.decode, err = c.start(scheduler.Decode, change, c.prefill.Bootstrap); err != nil {
		return nil, err
	}
	r, err := router.New(router.Config{Prefills: []string{c.prefill.URL()}, Decodes: []string{c.decode.URL()}, Log: log()})
	if err != nil {
		return nil, err
	}
	web := httptest.NewServer(r.Handler())
	t.Cleanup(func() { web.Close(); r.Close() })
	c.url = web.URL
	c.await("the router sees both", r.Ready)
	c.await("decode and prefill know each other", func() bool { return c.decode.Peers() == 1 && c.prefill.Peers() == 1 })
	return c, nil
}

// alone starts one unified engine.
func alone(t testing.TB, change setup) *cluster {
	t.Helper()
	c := newCluster(t)
	t.Cleanup(c.close)
	var err error
	c.unified, err = c.start(scheduler.Unified, change)
	if err != nil {
		t.Fatal(err)
	}
	c.url = c.unified.URL()
	return c
}

// close ends the engines, once.
func (c *cluster) close() {
	c.closed.Do(func() {
		for _, p := range c.processes() {
			c.must(p.Close())
		}
	})
}

func (c *cluster) must(err error) {
	if err != nil {
		c.t.Error(err)
	}
}

func (c *cluster) await(what string, ok func() bool) {
	c.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	c.t.Fatalf("not within %v: %s", patience, what)
}

// look asks a question inside an engine.
func (c *cluster) look(p *process.Process, ask func(worker.View) bool) (yes bool) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := p.Worker.Inspect(ctx, func(v worker.View) { yes = ask(v) }); err != nil {
		c.t.Fatal(err)
	}
	return yes
}

func (c *cluster) processes() (all []*process.Process) {
	for _, p := range []*process.Process{c.unified, c.prefill, c.decode} {
		if p != nil {
			all = append(all, p)
		}
	}
	return append(all, c.more...)
}

// rest waits until nothing is under way, and then every page must be accounted
// for: free or cached, none held, none pending, none twice.
func (c *cluster) rest() {
	c.t.Helper()
	for _, p := range c.processes() {
		c.await(p.Control+" comes to rest", func() bool { return c.look(p, func(v worker.View) bool { return v.Scheduler.Idle() }) })
		var problem string
		c.look(p, func(v worker.View) bool {
			for _, pool := range []*kvcache.Pool{v.KV, v.Aux} {
				if pool == nil {
					continue
				}
				a := pool.Audit()
				if a.Held != 0 || a.PendingDrain != 0 || !a.Balanced() || pool.OpenTransfers() != 0 {
					problem += fmt.Sprintf("%s: %+v, %d transfers open; ", p.Control, a, pool.OpenTransfers())
				}
				if err := pool.Check(); err != nil {
					problem += err.Error()
				}
			}
			return true
		})
		if problem != "" {
			c.t.Fatal(problem)
		}
	}
}

// answer is what a client gets.
type answer struct {
	status int
	text   string
	finish string
	raw    string
}

// complete asks for a completion and waits for it.
func (c *cluster) complete(key, prompt string, maxTokens int, headers ...string) answer {
	c.t.Helper()
	body, _ := json.Marshal(map[string]any{"prompt": prompt, "max_tokens": maxTokens})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	a, err := ask(ctx, c.url+"/v1/completions", key, body, headers...)
	if err != nil {
		c.t.Fatal(err)
	}
	return a
}

func ask(ctx context.Context, url, key string, body []byte, headers ...string) (a answer, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	a.status, a.raw = resp.StatusCode, string(raw)
	if err != nil || resp.StatusCode != http.StatusOK {
		return a, err
	}
	if bytes.HasPrefix(raw, []byte("data: ")) {
		return a, a.readStream(raw)
	}
	var got struct {
		Choices []choice
	}
	if err := json.Unmarshal(raw, &got); err != nil || len(got.Choices) != 1 {
		return a, fmt.Errorf("reading %s: %v", raw, err)
	}
	a.add(got.Choices[0])
	return a, nil
}

type choice struct {
	Text           string
	Delta, Message struct{ Content string }
	Finish         *string `json:"finish_reason"`
}

func (a *answer) add(c choice) {
	a.text += c.Text + c.Delta.Content + c.Message.Content
	if c.Finish != nil {
		a.finish = *c.Finish
	}
}

// readStream reads server-sent events, which must end with [DONE].
func (a *answer) readStream(raw []byte) error {
	done := false
	for line := range bytes.Lines(raw) {
		data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: "))
		if !ok {
			continue
		}
		if done = string(data) == "[DONE]"; done {
			continue
		}
		var e struct {
			Choices []choice
			Error   *api.Error
		}
		if err := json.Unmarshal(data, &e); err != nil {
			return err
		}
		if e.Error != nil {
			return fmt.Errorf("the stream says: %w", e.Error)
		}
		for _, c := range e.Choices {
			a.add(c)
		}
	}
	if !done {
		return fmt.Errorf("the stream ended without [DONE]: %.100q", raw)
	}
	return nil
}

func portOf(t testing.TB, address string) int {
	t.Helper()
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return port
}
