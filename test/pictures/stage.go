package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/test/live"
	"github.com/kvwitness/kvwitness/test/monitoring"
)

// The incident to scale: pages of 64 tokens, of which prefill has half as many as
// the context has, and decode enough for others beside it. The null page is one of them.
const (
	pageTokens    = "64"
	contextTokens = "512"
	prefillPages  = "5"
	decodePages   = "33"
)

const (
	clients     = 3
	pause       = 300 * time.Millisecond // of a client, on average
	betweenPlay = 20 * time.Second
)

// stage is engines with their router, a sidecar, and who scrapes and is alerted.
type stage struct {
	dir        string
	processes  []*live.Process
	servers    []*monitoring.Server
	sidecar    *live.Sidecar
	router     string // URL
	prometheus *monitoring.Server
}

// play has traffic for so long, and asks for all panels at its end.
func play(ctx context.Context, root string, long time.Duration) (all map[string]answered, err error) {
	dir, err := live.ShortDir()
	if err != nil {
		return nil, err
	}
	s := &stage{dir: dir}
	defer func() { err = errors.Join(err, s.end()) }()
	if err := s.begin(ctx, root); err != nil {
		return nil, err
	}
	begun := time.Now()
	if err := s.traffic(ctx, long); err != nil {
		return nil, err
	}
	if err := s.prometheus.Scraped(3); err != nil {
		return nil, err
	}
	if err := s.onlyWhatWasPlayed(); err != nil {
		return nil, err
	}
	return ask(s.prometheus, root, begun, time.Now())
}

// end ends all of it, last things first.
func (s *stage) end() error {
	for _, p := range s.servers {
		p.Stop()
	}
	for _, p := range s.processes {
		p.Kill()
	}
	return os.RemoveAll(s.dir)
}

// begin starts the sidecar first: what engines register with each other is seen only
// by who is there when they do.
func (s *stage) begin(ctx context.Context, root string) error {
	for _, name := range []string{"kvwitness", "kvwitness-probe", "kvengine"} {
		if _, err := live.Build(ctx, root, s.dir, name); err != nil {
			return err
		}
	}
	alertmanager, err := s.alertmanager(root)
	if err != nil {
		return err
	}
	var ports [2]string
	for i := range ports {
		if ports[i], err = live.FreePort(); err != nil {
			return err
		}
	}
	args := []string{"--alertmanagers", alertmanager, "--alert-labels", "cluster=test,model=induction", "--node", "node-a", "--evidence", s.in("evidence"), "--engine-key-file", s.in("key")}
	if os.Geteuid() == 0 {
		args = append(args, "--watch", "exe="+s.in("kvengine"))
	}
	if err := errors.Join(s.write("keys", "alpha key-a\nbeta key-b\n"), s.write("key", "key-a")); err != nil {
		return err
	}
	s.sidecar, err = live.BeginSidecar(s.in("kvwitness"), "prefill=http://127.0.0.1:"+ports[0]+",decode=http://127.0.0.1:"+ports[1], args...)
	if err != nil {
		return err
	}
	s.processes = append(s.processes, s.sidecar.Process)
	if err := watches(s.sidecar); err != nil {
		return err
	}
	if err := s.engines(ports); err != nil {
		return err
	}
	if err := s.sidecar.AwaitSight(); err != nil {
		return err
	}
	s.prometheus, err = monitoring.Prometheus(root, s.in("prometheus"), s.sidecar.Said["url"], alertmanager)
	if err != nil {
		return err
	}
	s.servers = append(s.servers, s.prometheus)
	return s.prometheus.Scraped(5)
}

// watches waits until a sidecar that is to watch from outside does so, and says so
// where it cannot.
func watches(s *live.Sidecar) error {
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "pictures: not root: the sidecar knows what engines claim and nothing else, and no handoff will be clean")
		return nil
	}
	var state struct {
		Outside struct {
			Watching bool
			Problem  string
		}
	}
	err := live.Await("the sidecar watches from outside", func() bool {
		return s.Get("/api/v1/state", &state) == nil && (state.Outside.Watching || state.Outside.Problem != "")
	})
	if err == nil && !state.Outside.Watching {
		fmt.Fprintln(os.Stderr, "pictures: the sidecar does not see from outside, and no handoff will be clean:", state.Outside.Problem)
	}
	return err
}

func (s *stage) engines(ports [2]string) error {
	serve := func(role, port, pages string, more ...string) (map[string]string, error) {
		args := append([]string{
			"serve", "--role", role, "--port", port, "--pages", pages, "--key-file", s.in("keys"), "--events-dir", s.in("events"),
			"--page-tokens", pageTokens, "--context-tokens", contextTokens, "--drill", scheduler.RejectedHandoff.String(),
		}, more...)
		return s.run("serving", args...)
	}
	prefill, err := serve("prefill", ports[0], prefillPages, "--bootstrap-port", "0")
	if err != nil {
		return err
	}
	decode, err := serve("decode", ports[1], decodePages, "--prefill", prefill["bootstrap"])
	if err != nil {
		return err
	}
	router, err := s.run("routing", "router", "--port", "0", "--prefill", prefill["url"], "--decode", decode["url"])
	s.router = router["url"]
	return err
}

func (s *stage) run(word string, args ...string) (map[string]string, error) {
	p, err := live.Start(s.in("kvengine"), word, args...)
	if err != nil {
		return nil, err
	}
	s.processes = append(s.processes, p)
	return p.Said, nil
}

// alertmanager starts one that takes alerts and tells nobody.
func (s *stage) alertmanager(root string) (url string, err error) {
	path, err := monitoring.Tool(root, "prometheus-alertmanager")
	if err != nil {
		return "", err
	}
	if err := s.write("alertmanager.yml", "route: {receiver: nobody}\nreceivers: [{name: nobody}]\n"); err != nil {
		return "", err
	}
	a, err := monitoring.Serve(path, s.dir, "--config.file="+s.in("alertmanager.yml"), "--storage.path="+s.in("alerts"), "--cluster.listen-address=")
	if err != nil {
		return "", err
	}
	s.servers = append(s.servers, a)
	return a.URL, os.Mkdir(s.in("prometheus"), 0o700)
}

func (s *stage) in(name string) string { return filepath.Join(s.dir, name) }

func (s *stage) write(name, text string) error { return os.WriteFile(s.in(name), []byte(text), 0o600) }

// traffic is a few clients of two tenants who ask for something short all the time,
// and the incident amid it, again and again.
func (s *stage) traffic(ctx context.Context, long time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	c := &live.Cluster{URL: s.router}
	errs := make([]error, clients)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			for n := 0; errs[i] == nil && slept(ctx, rand.N(2*pause)); n++ {
				key := []string{"key-a", "key-b"}[i%2]
				prompt := strings.Repeat("a common beginning of some length; ", rng.IntN(4)) + fmt.Sprintf("client %d asks for the %d-th time", i, n)
				_, errs[i] = c.Complete(key, prompt, 1+rng.IntN(40))
			}
		})
	}
	var played error
	for round := 1; played == nil && slept(ctx, betweenPlay); round++ {
		_, played = live.Exercises[0].Play(c, round)
	}
	cancel()
	all.Wait()
	return errors.Join(append(errs, played)...)
}

// onlyWhatWasPlayed says what was found that the incident is not, which makes a picture
// that tells another story.
func (s *stage) onlyWhatWasPlayed() error {
	found, err := s.sidecar.Rest(0)
	for _, f := range found {
		if f.Said.Kind != "blind" && !slices.Contains(live.Exercises[0].Expected(), f.Said.Kind) {
			fmt.Fprintf(os.Stderr, "pictures: found and not played: %+v\n", f)
		}
	}
	return err
}

// slept says whether the time passed before the context ended.
func slept(ctx context.Context, long time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(long):
		return true
	}
}
