//go:build linux && amd64

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/test/live"
)

// Where the engines are, and how their pools stand to the context: decode's holds it,
// prefill's holds half of it where that is the drill.
const (
	host       = "10.77.0.1"
	pageTokens = 64
	patience   = 5 * time.Minute // an emulated machine on a busy one takes long
	answer     = 3               // tokens
	// processDrill needs a prefill whose pool does not hold its context.
	processDrill = "rejected-handoff"
)

// handoffs is a check of kvengines, a prefill and a decode behind a router, and of a
// sidecar on their node.
type handoffs struct {
	transfer string
	stream   bool   // engines tell of themselves
	drill    string // of the last request
	normal   int    // requests before that
	want     []string
}

// errLate: facts came to the judge later than it waits for them. It says so, and
// what hangs on them is unwitnessed, as it should be; here it means that the machine
// was too busy.
var errLate = errors.New("facts came late")

// attempts is how often a check is tried on a machine that is too busy.
const attempts = 4

func (h handoffs) run(r *Result) error {
	for i := 1; ; i++ {
		again := Result{Check: r.Check, Kernel: r.Kernel}
		err := h.once(&again)
		if err == nil || !errors.Is(err, errLate) || i == attempts {
			*r = again
			return err
		}
		progress("%s: %d: %v", r.Check, i, errLate)
	}
}

func (h handoffs) once(r *Result) (err error) {
	c := cluster{Result: r}
	defer c.end()
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, c.notes())
		}
	}()
	if c.witness, err = outsider(); err != nil {
		return err
	}
	// It must know them before they are there: what they register is said once.
	if err := errors.Join(c.before(), follow(c.witness, h.followed())); err != nil {
		return err
	}
	if err := c.start(h); err != nil {
		return err
	}
	if h.stream {
		if err := c.witness.AwaitSight(); err != nil {
			return err
		}
	}
	for i := range h.normal {
		if err := c.ask(i, 4*pageTokens-10, ""); err != nil {
			return err
		}
	}
	if err := c.ask(h.normal, 8*pageTokens-30, h.drill); err != nil {
		return err
	}
	return c.judged(h.want)
}

// cluster is what runs.
type cluster struct {
	*Result
	all     []*live.Process
	witness *live.Sidecar
	since   uint64   // of its verdicts
	found   uint64   // and findings, from before
	late    uint64   // facts, until then
	names   []string // of the instances
	url     string
}

func (c *cluster) end() {
	for _, p := range slices.Backward(c.all) {
		p.Kill()
	}
}

// notes are what the processes say, for a check that failed.
func (c *cluster) notes() string {
	const most = 3000 // bytes of each
	var b strings.Builder
	for _, p := range c.all {
		notes := p.Notes()
		fmt.Fprintf(&b, "%v:\n%s\n", p.Args, notes[max(0, len(notes)-most):])
	}
	if c.witness != nil {
		state, err := c.witness.Body("/api/v1/state")
		verdicts, _ := c.witness.Body("/api/v1/verdicts") // only to say more
		fmt.Fprintf(&b, "the sidecar's state: %s %v\nits verdicts: %s\n", state, err, verdicts)
	}
	return b.String()
}

func (c *cluster) run(command, word string, args ...string) (*live.Process, error) {
	p, err := live.Start(filepath.Join(programs, command), word, args...)
	if err == nil {
		c.all = append(c.all, p)
	}
	return p, err
}

// ports at which the engines' APIs are: the sidecar may be told of them before they
// run. Each cluster has its own.
var ports = 30000

func (c *cluster) start(h handoffs) error {
	args := []string{
		"serve", "--host", host, "--page-tokens", fmt.Sprint(pageTokens), "--context-tokens", fmt.Sprint(8 * pageTokens),
		"--transfer", h.transfer, "--bootstrap-timeout", "2m", "--transfer-timeout", "2m", "--drain-timeout", "2m",
	}
	// Only a process that is drilled starts with such a pool; any other drill is one
	// request's.
	prefillPages := "33"
	if h.drill == processDrill {
		args, prefillPages = append(args, "--drill", h.drill), "5"
	} else {
		args = append(args, "--allow-request-drill")
	}
	role := func(name string, port int, more ...string) (*live.Process, error) {
		events := []string{"--events", "off"}
		if h.stream {
			events = []string{"--events-dir", eventsDir}
		}
		return c.run("kvengine", "serving", slices.Concat(args, []string{"--role", name, "--port", fmt.Sprint(port)}, events, more)...)
	}
	prefill, err := role("prefill", ports, "--pages", prefillPages, "--bootstrap-port", "0")
	if err != nil {
		return err
	}
	decode, err := role("decode", ports+1, "--pages", "129", "--prefill", prefill.Said["bootstrap"])
	if err != nil {
		return err
	}
	router, err := c.run("kvengine", "routing", "router", "--port", "0", "--prefill", prefill.Said["url"], "--decode", decode.Said["url"])
	if err != nil {
		return err
	}
	c.url, c.names = router.Said["url"], []string{prefill.Said["instance"], decode.Said["instance"]}
	progress("%s: the engines run", c.Check)
	return live.AwaitFor(patience, "the router is ready", func() bool {
		resp, err := http.Get(c.url + "/health")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// followed are the engines as a sidecar is told of them. Who tells nothing is not
// followed.
func (h handoffs) followed() string {
	if !h.stream {
		return ""
	}
	all := make([]string, 2)
	for i, name := range []string{"prefill", "decode"} {
		all[i] = fmt.Sprintf("%s=http://%s:%d", name, host, ports+i)
	}
	return strings.Join(all, ",")
}

// before takes note of what the sidecar has said of others.
func (c *cluster) before() error {
	all, err := c.witness.Verdicts(0)
	if err != nil {
		return err
	}
	for _, v := range all {
		c.since = max(c.since, v.ID)
	}
	found, err := c.witness.Rest(0)
	if err != nil {
		return err
	}
	for _, f := range found {
		c.found = max(c.found, f.ID)
	}
	c.late, err = late(c.witness)
	return err
}

// late is how many facts came later than the judge waits for them.
func late(s *live.Sidecar) (uint64, error) {
	var state struct{ Judge struct{ Late uint64 } }
	err := s.Get("/api/v1/state", &state)
	return state.Judge.Late, err
}

// ask asks for the answer to a prompt of n tokens and compares it with what the model
// says, unless a drill spoils it.
func (c *cluster) ask(i, n int, drill string) error {
	prompt := fmt.Sprintf("%03d ", i) + strings.Repeat("the cat sat on the mat; the dog ate the bone; ", 16)
	prompt = prompt[:n]
	body, err := json.Marshal(map[string]any{"prompt": prompt, "max_tokens": answer})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/v1/completions", bytes.NewReader(body))
	if err != nil {
		return err
	}
	if drill != "" && drill != processDrill {
		req.Header.Set("Kvengine-Drill", drill)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	var a struct{ Choices []struct{ Text string } }
	if err := json.Unmarshal(text, &a); err != nil || resp.StatusCode != http.StatusOK || len(a.Choices) != 1 {
		return fmt.Errorf("request %d is answered %d %s", i, resp.StatusCode, text)
	}
	if want := string(model.Expect([]byte(prompt), answer)); drill == "" && a.Choices[0].Text != want {
		return fmt.Errorf("request %d is answered %q, want %q", i, a.Choices[0].Text, want)
	}
	c.Answered++
	progress("%s: request %d is answered", c.Check, i)
	return nil
}

// verdicts are those of this cluster's instances: of one before that was given up
// some may still come.
func (c *cluster) verdicts() ([]live.Judged, error) {
	all, err := c.witness.Verdicts(c.since)
	return slices.DeleteFunc(all, func(v live.Judged) bool { return !slices.Contains(c.names, v.Said.Inst) }), err
}

// judged takes over what the sidecar says, once it has judged each request. It does so
// long after the last: decode has so many pages that none is used again meanwhile.
func (c *cluster) judged(want []string) error {
	all, tooLate, err := c.allVerdicts()
	if err != nil {
		return err
	}
	found, err := c.witness.Rest(c.found)
	if err != nil {
		return err
	}
	for _, v := range all {
		c.Verdicts = append(c.Verdicts, v.Said.Verdict)
		c.Whys = append(c.Whys, v.Said.Why)
	}
	if tooLate && !slices.Equal(c.Verdicts, want) {
		return errLate
	}
	last := all[len(all)-1].Said.Room
	for _, f := range found {
		switch {
		case f.Said.Room == last:
			c.Found = append(c.Found, f.Said.Kind)
		case slices.Contains(c.names, f.Said.Inst):
			c.Elsewhere = append(c.Elsewhere, f.Said.Kind)
		}
	}
	slices.Sort(c.Found)
	c.Found = slices.Compact(c.Found)
	return nil
}

// allVerdicts waits for one of each request; tooLate: some facts came late, and a room
// of which one did may get none.
func (c *cluster) allVerdicts() (all []live.Judged, tooLate bool, err error) {
	asked := time.Now()
	err = live.AwaitFor(patience, "a verdict of each request", func() bool {
		n, err := late(c.witness)
		if err != nil {
			return false
		}
		tooLate = n > c.late
		all, err = c.verdicts()
		return err == nil && (len(all) >= c.Answered || tooLate && time.Since(asked) > 10*settle())
	})
	return all, tooLate, err
}
