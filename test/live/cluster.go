package live

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/kvwitness/kvwitness/engine/api"
	"github.com/kvwitness/kvwitness/engine/lifecycle/publish"
	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/engine/process"
	"github.com/kvwitness/kvwitness/engine/router"
	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/engine/worker"
)

// patience is how long anything may take.
const patience = 60 * time.Second

// Cluster is engines of this process, whose streams others may follow.
type Cluster struct {
	Unified, Prefill, Decode *process.Process
	URL                      string // where clients ask
	Keys                     *api.Keys

	dir    string
	router *router.Router
	web    *httptest.Server
}

// Setup changes a role's settings before it starts.
type Setup func(role scheduler.Role, c *process.Config)

func base(role scheduler.Role, keys *api.Keys) process.Config {
	return process.Config{
		Host: "127.0.0.1", Model: "induction", Keys: keys,
		Worker: worker.Config{
			Role: role, Pages: 129, PageTokens: 16, ContextTokens: 512, MaxQueued: 256, MaxRunning: 16,
			BatchTokens: 256, ChunkTokens: 64, BatchPages: 8, BootstrapTimeout: 20 * time.Second,
			QueueTimeout: 40 * time.Second, TransferTimeout: 20 * time.Second, DrainTimeout: 10 * time.Second,
		},
	}
}

func newCluster(dir string) (*Cluster, error) {
	keys, err := api.ParseKeys([]byte("alpha key-a\nbeta key-b\n"))
	return &Cluster{Keys: keys, dir: dir}, err
}

func (c *Cluster) start(ctx context.Context, role scheduler.Role, change Setup, prefills ...string) (*process.Process, error) {
	p := base(role, c.Keys)
	p.Prefills = prefills
	p.Witness = func(inst string) (process.Witness, error) {
		pub, err := publish.New(ctx, publish.Config{
			Identity: publish.Identity{Instance: inst, Epoch: uint64(time.Now().UnixNano()), Now: worker.Now}, Dir: c.dir,
		})
		if err != nil {
			return process.Witness{}, err
		}
		endpoint, _ := pub.Endpoints()
		return process.Witness{Teller: pub.Teller, Endpoint: endpoint, Close: pub.Close}, nil
	}
	if change != nil {
		change(role, &p)
	}
	return process.Start(ctx, p)
}

// Disaggregated starts a router, a prefill and a decode instance, whose sockets
// lie in dir.
func Disaggregated(ctx context.Context, dir string, change Setup) (*Cluster, error) {
	c, err := newCluster(dir)
	if err != nil {
		return nil, err
	}
	if c.Prefill, err = c.start(ctx, scheduler.Prefill, change); err != nil {
		return nil, err
	}
	if c.Decode, err = c.start(ctx, scheduler.Decode, change, c.Prefill.Bootstrap); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if c.router, err = router.New(router.Config{Prefills: []string{c.Prefill.URL()}, Decodes: []string{c.Decode.URL()}}); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.web = httptest.NewServer(c.router.Handler())
	c.URL = c.web.URL
	err = Await("the engines know each other", func() bool {
		return c.router.Ready() && c.Decode.Peers() == 1 && c.Prefill.Peers() == 1
	})
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Alone starts one unified engine.
func Alone(ctx context.Context, dir string, change Setup) (*Cluster, error) {
	c, err := newCluster(dir)
	if err != nil {
		return nil, err
	}
	if c.Unified, err = c.start(ctx, scheduler.Unified, change); err != nil {
		return nil, err
	}
	c.URL = c.Unified.URL()
	return c, nil
}

// Engines are what a sidecar is told of the cluster.
func (c *Cluster) Engines() string {
	if c.Unified != nil {
		return "unified=" + c.Unified.URL()
	}
	return "prefill=" + c.Prefill.URL() + ",decode=" + c.Decode.URL()
}

// Close ends the engines.
func (c *Cluster) Close() error {
	if c.web != nil {
		c.web.Close()
		c.router.Close()
	}
	var all []error
	for _, p := range []*process.Process{c.Unified, c.Prefill, c.Decode} {
		if p != nil {
			all = append(all, p.Close())
		}
	}
	return errors.Join(all...)
}

// Await asks until done is so.
func Await(what string, done func() bool) error { return AwaitFor(patience, what, done) }

// AwaitFor asks until done is so, for at most that long.
func AwaitFor(long time.Duration, what string, done func() bool) error {
	for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if done() {
			return nil
		}
	}
	return fmt.Errorf("not within %s: %s", long, what)
}

// Look asks a question inside an engine.
func Look(p *process.Process, ask func(worker.View) bool) (yes bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err = p.Worker.Inspect(ctx, func(v worker.View) { yes = ask(v) })
	return yes, err
}

// Answer is what a client gets.
type Answer struct {
	Status int
	Text   string
	First  time.Time // when the first byte of the answer came
}

// Complete asks for a completion and waits for it.
func (c *Cluster) Complete(key, prompt string, tokens int) (a Answer, err error) {
	body, err := json.Marshal(map[string]any{"prompt": prompt, "max_tokens": tokens, "stream": true})
	if err != nil {
		return a, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+"/v1/completions", bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	a.Status = resp.StatusCode
	first := make([]byte, 1)
	n, err := io.ReadFull(resp.Body, first)
	a.First = time.Now()
	if err != nil {
		return a, err
	}
	rest, err := io.ReadAll(resp.Body)
	a.Text = string(append(first[:n], rest...))
	return a, err
}

// Together hands requests of one tenant to a unified engine side by side, and waits
// for their ends.
func (c *Cluster) Together(prompts ...string) error {
	var answers []*worker.Answer
	for _, prompt := range prompts {
		a, err := c.Unified.Worker.Submit(worker.Request{
			Domain: c.Keys.Domain("beta", ""), Prompt: model.Encode([]byte(prompt)), MaxTokens: 2,
		})
		if err != nil {
			return err
		}
		answers = append(answers, a)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, a := range answers {
		for end := (*worker.End)(nil); end == nil; {
			var err error
			if _, end, err = a.Read(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// FreePort is a port of loopback that nobody listens at.
func FreePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}
