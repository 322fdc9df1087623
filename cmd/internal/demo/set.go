package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The incident to scale: pages of 64 tokens, of which decode has 8 and prefill 4,
// and a context of 512 that both declare.
const (
	pageTokens    = 64
	decodePages   = 8
	contextTokens = decodePages * pageTokens
	promptTokens  = contextTokens - pageTokens/2
	answerTokens  = pageTokens / 2
	shortContext  = contextTokens / 2
	normalPrefill = 16
	normalDecode  = 32
	// How late the sidecar expects facts at least: as it does by itself, and where
	// nothing is to be found quickly, or this machine is too busy to be quick.
	quick     = 3 * time.Millisecond
	unhurried = 100 * time.Millisecond
	poll      = 500 * time.Millisecond
	// A real model on a busy machine takes its time.
	readyTimeout   = 2 * time.Minute
	requestTimeout = 10 * time.Minute
)

// set is a prefill, a decode, a router and a sidecar.
type set struct {
	processes []*process
	router    string // URL
	sidecar   string // URL
	prefill   string // URL
	decode    string // URL
	tenants   []tenant
	outside   bool   // the sidecar watches from outside
	blind     string // why it does not
}

// shape is how a set's engines are set up.
type shape struct {
	drill   string // "": all protections on
	keep    string // protections that stay on in spite of the drill
	prefill int    // pages that requests can have
	decode  int
	context int // tokens
	slack   time.Duration
}

// begin starts a set in a folder of its own, and waits until it answers and is seen.
func (d *demo) begin(ctx context.Context, s shape) (*set, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	dir, err := os.MkdirTemp(d.dir, "")
	if err != nil {
		return nil, fmt.Errorf("make a folder for a set of engines: %w", err)
	}
	w := &set{tenants: newTenants("a", "b", "c")}
	if err := w.start(ctx, d, s, dir); err != nil {
		return nil, errors.Join(err, w.end())
	}
	if err := w.ready(ctx); err != nil {
		return nil, errors.Join(err, w.end())
	}
	return w, nil
}

func (w *set) start(ctx context.Context, d *demo, s shape, dir string) error {
	keys := filepath.Join(dir, "keys")
	var lines []string
	for _, t := range w.tenants {
		lines = append(lines, t.name+" "+t.key)
	}
	if err := os.WriteFile(keys, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return fmt.Errorf("write the tenants' keys: %w", err)
	}
	keyFile := filepath.Join(dir, "key")
	if err := os.WriteFile(keyFile, []byte(w.tenants[len(w.tenants)-1].key), 0o600); err != nil {
		return fmt.Errorf("write the sidecar's key: %w", err)
	}
	ports, err := freePorts(2)
	if err != nil {
		return err
	}
	// The sidecar comes first: what engines register with each other is seen only
	// by who is there when they do.
	sidecar, err := w.run(ctx, "sidecar", d.self, "watching", "sidecar", "--listen", "127.0.0.1:0", "--engine-key-file", keyFile,
		"--evidence", filepath.Join(dir, "evidence"),
		"--slack", s.slack.String(), "--watch", d.watch, "--poll", poll.String(),
		"--engines", "prefill=http://127.0.0.1:"+ports[0]+",decode=http://127.0.0.1:"+ports[1])
	if err != nil {
		return err
	}
	if w.sidecar = sidecar["url"]; d.watch != "" {
		if err := w.watches(ctx); err != nil {
			return err
		}
	}
	common := []string{
		"serve", "--key-file", keys, "--events-dir", filepath.Join(dir, "ev"),
		"--page-tokens", strconv.Itoa(pageTokens), "--context-tokens", strconv.Itoa(s.context),
	}
	if d.Model != "" {
		wait := requestTimeout.String() // for each of its steps
		common = append(common, "--model", d.Model, "--bootstrap-timeout", wait, "--queue-timeout", wait, "--transfer-timeout", wait)
	}
	if s.drill != "" {
		common = append(common, "--drill", s.drill, "--drill-keep", s.keep)
	}
	prefill, err := w.run(ctx, "prefill", d.engine, "serving", append(slices.Clone(common), "--role", "prefill", "--port", ports[0], "--bootstrap-port", "0", "--pages", strconv.Itoa(s.prefill+1))...)
	if err != nil {
		return err
	}
	decode, err := w.run(ctx, "decode", d.engine, "serving", append(slices.Clone(common), "--role", "decode", "--port", ports[1], "--prefill", prefill["bootstrap"], "--pages", strconv.Itoa(s.decode+1))...)
	if err != nil {
		return err
	}
	router, err := w.run(ctx, "router", d.engine, "routing", "router", "--port", "0", "--prefill", prefill["url"], "--decode", decode["url"])
	if err != nil {
		return err
	}
	w.prefill, w.decode, w.router = prefill["url"], decode["url"], router["url"]
	return nil
}

// freePorts are ports of this machine that nobody listens on.
func freePorts(n int) (ports []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close() // only at the end, so that they differ
		_, port, _ := net.SplitHostPort(l.Addr().String())
		ports = append(ports, port)
	}
	return ports, nil
}

// watches waits until the sidecar watches from outside, or says why it does not.
func (w *set) watches(ctx context.Context) error {
	return await(ctx, func() error {
		var s struct {
			Outside struct {
				Watching bool
				Problem  string
			}
		}
		if err := w.get(ctx, "/api/v1/state", &s); err != nil {
			return err
		}
		if w.outside, w.blind = s.Outside.Watching, s.Outside.Problem; !w.outside && w.blind == "" {
			return errors.New("the probe has not started")
		}
		return nil
	})
}

func (w *set) run(ctx context.Context, name, path, word string, args ...string) (map[string]string, error) {
	p, err := start(name, path, word, args...)
	if err != nil {
		return nil, err
	}
	w.processes = append(w.processes, p)
	return p.serves(ctx)
}

// ready waits until the router answers, and the sidecar sees both engines.
func (w *set) ready(ctx context.Context) error {
	for {
		h, err := w.health(ctx)
		if err == nil && h.Status == "ok" && len(h.NotSeen) == 0 {
			if hello, err := w.tokens(ctx, "hello"); err == nil {
				if a, err := w.ask(ctx, w.tenants[2], hello, 1); err == nil && a.Status == 200 {
					return w.judged(ctx)
				}
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the engines are not ready within %s: %+v: %w", readyTimeout, h, w.logs())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// judged waits until the requests so far have their verdicts, so that the next one
// is about the next request.
func (w *set) judged(ctx context.Context) error {
	const still = 500 * time.Millisecond
	last, since := uint64(0), time.Now()
	return await(ctx, func() error {
		now, err := w.lastVerdict(ctx)
		if err != nil {
			return err
		}
		if now != last {
			last, since = now, time.Now()
		}
		if last == 0 || time.Since(since) < still {
			return fmt.Errorf("the %d verdicts so far are not yet all: %s", last, w.state(ctx))
		}
		return nil
	})
}

// state is how the sidecar says that it stands.
func (w *set) state(ctx context.Context) string {
	var s json.RawMessage
	if err := w.get(ctx, "/api/v1/state", &s); err != nil {
		return err.Error()
	}
	return string(s)
}

// logs is what the processes said.
func (w *set) logs() error {
	var all []error
	for _, p := range w.processes {
		all = append(all, fmt.Errorf("%s: %w", p.name, p.why()))
	}
	return errors.Join(all...)
}

// end stops the sidecar as it wants to be stopped, and then the engines, whose
// unfinished requests are of no more interest.
func (w *set) end() (err error) {
	for _, p := range slices.Backward(w.processes) {
		if p.name == "sidecar" {
			err = p.stop()
		} else {
			p.kill()
		}
	}
	w.processes = nil
	return err
}
