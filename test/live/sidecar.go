package live

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Build builds a command of this repository into dir; root is where its go.mod is.
func Build(ctx context.Context, root, dir, command string) (path string, err error) {
	path = filepath.Join(dir, command)
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "./cmd/"+command)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w: %s", command, err, out)
	}
	return path, nil
}

// Process is a command that runs.
type Process struct {
	*exec.Cmd
	Said map[string]string // fields of the line that says where it serves

	mu         sync.Mutex
	out, notes bytes.Buffer
	in         io.Writer
	ended      chan struct{}
	err        error
}

// Start runs a command until it logs msg=word.
func Start(path, word string, args ...string) (*Process, error) {
	p := &Process{Cmd: exec.Command(path, args...), ended: make(chan struct{})}
	p.Stdout = (*output)(p)
	var err error
	if p.in, err = p.StdinPipe(); err != nil {
		return nil, err
	}
	stderr, err := p.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := p.Cmd.Start(); err != nil {
		return nil, err
	}
	said := make(chan map[string]string, 1)
	go func() {
		for in := bufio.NewScanner(stderr); in.Scan(); {
			p.mu.Lock()
			p.notes.WriteString(in.Text() + "\n")
			p.mu.Unlock()
			if strings.Contains(in.Text(), "msg="+word+" ") {
				select {
				case said <- fields(in.Text()):
				default:
				}
			}
		}
		p.err = p.Wait()
		close(p.ended)
	}()
	select {
	case p.Said = <-said:
		return p, nil
	case <-p.ended:
		return nil, fmt.Errorf("%s %v ended: %s", path, args, p.Notes())
	case <-time.After(patience):
		_ = p.Process.Kill()
		return nil, fmt.Errorf("%s %v says nothing: %s", path, args, p.Notes())
	}
}

// output is the standard output of a process.
type output Process

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.out.Write(b)
}

func fields(line string) map[string]string {
	out := map[string]string{}
	for f := range strings.FieldsSeq(line) {
		if key, value, ok := strings.Cut(f, "="); ok {
			out[key] = strings.Trim(value, `"`)
		}
	}
	return out
}

// Tell writes a line to its standard input.
func (p *Process) Tell(line string) {
	_, _ = io.WriteString(p.in, line+"\n") // it may have ended
}

// Out is what it wrote to its standard output.
func (p *Process) Out() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// Notes is what it logged.
func (p *Process) Notes() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.notes.String()
}

// Kill ends it at once.
func (p *Process) Kill() {
	_ = p.Process.Kill()
	<-p.ended
}

// Stop ends it gracefully and says how long that took.
func (p *Process) Stop() (time.Duration, error) {
	begun := time.Now()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		return 0, fmt.Errorf("stop: %w: %s", err, p.Notes())
	}
	select {
	case <-p.ended:
		return time.Since(begun), p.err
	case <-time.After(patience):
		p.Kill()
		return time.Since(begun), fmt.Errorf("it does not end: %s", p.Notes())
	}
}

// Sidecar is a running sidecar.
type Sidecar struct{ *Process }

// Unhurried is for tests of what is said, and not when: on a machine that is short
// of processors facts come late, and a sidecar that does not wait for them is blind.
var Unhurried = []string{"--slack", "100ms"}

// StartSidecar runs the sidecar at path for these engines, until it sees all of
// them.
func StartSidecar(path, engines string, args ...string) (*Sidecar, error) {
	s, err := BeginSidecar(path, engines, args...)
	if err != nil {
		return nil, err
	}
	return s, s.AwaitSight()
}

// BeginSidecar runs the sidecar at path; it may see nobody yet.
func BeginSidecar(path, engines string, args ...string) (*Sidecar, error) {
	p, err := Start(path, "watching", append([]string{"sidecar", "--listen", "127.0.0.1:0", "--poll", "200ms", "--engines", engines}, args...)...)
	if err != nil {
		return nil, err
	}
	return &Sidecar{p}, nil
}

// AwaitSight waits until it sees all engines.
func (s *Sidecar) AwaitSight() error {
	var h struct {
		Status  string
		NotSeen []string `json:"not_seen"`
	}
	err := Await("the sidecar sees all engines", func() bool {
		h.NotSeen = nil
		return s.Get("/healthz", &h) == nil && h.Status == "ok" && len(h.NotSeen) == 0
	})
	if err != nil {
		return fmt.Errorf("%w: %v: %s", err, h.NotSeen, s.Notes())
	}
	return nil
}

// AwaitProbe waits until it watches from outside, by the probe that it started as that
// many.
func (s *Sidecar) AwaitProbe(starts uint64) error {
	var o struct {
		Outside struct {
			Watching bool
			Starts   uint64
		}
	}
	err := Await("a probe", func() bool {
		return s.Get("/api/v1/state", &o) == nil && o.Outside.Watching && o.Outside.Starts == starts
	})
	if err != nil {
		return fmt.Errorf("%w: %+v: %s", err, o, s.Notes())
	}
	return nil
}

// Body is the answer to a path.
func (s *Sidecar) Body(path string) ([]byte, error) {
	resp, err := http.Get(s.Said["url"] + path)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// Metric is the value of one series; 0: it is not told.
func (s *Sidecar) Metric(series string) (value float64, err error) {
	body, err := s.Body("/metrics")
	for line := range strings.Lines(string(body)) {
		if number, is := strings.CutPrefix(line, series+" "); is && err == nil {
			value, err = strconv.ParseFloat(strings.TrimSpace(number), 64)
		}
	}
	return value, err
}

// Get reads the JSON answer to a path.
func (s *Sidecar) Get(path string, into any) error {
	body, err := s.Body(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

// Found is a finding.
type Found struct {
	ID    uint64
	At    time.Time
	Delay float64 `json:"delay_seconds"`
	Said  struct {
		Kind, Inst, Req, Room, Observation, Claim string

		Pages [][2]uint32 // runs: the first of them, and how many
	}
}

// Judged is a verdict.
type Judged struct {
	ID   uint64
	At   time.Time
	Said struct{ Verdict, Inst, Req, Room, Why string }
}

// Findings are those after that ID.
func (s *Sidecar) Findings(since uint64) ([]Found, error) {
	var list struct{ Findings []Found }
	err := s.Get(fmt.Sprintf("/api/v1/findings?since=%d", since), &list)
	return list.Findings, err
}

// Verdicts are those after that ID.
func (s *Sidecar) Verdicts(since uint64) ([]Judged, error) {
	var list struct{ Verdicts []Judged }
	err := s.Get(fmt.Sprintf("/api/v1/verdicts?since=%d", since), &list)
	return list.Verdicts, err
}

// Rest waits until findings have ceased to come, and returns those after that ID.
func (s *Sidecar) Rest(since uint64) (all []Found, err error) {
	const still = 400 * time.Millisecond
	last, at := -1, time.Now()
	var asked error
	err = Await("findings cease to come", func() bool {
		if all, asked = s.Findings(since); asked != nil {
			return true
		}
		if len(all) != last {
			last, at = len(all), time.Now()
		}
		return time.Since(at) > still
	})
	if asked != nil {
		err = asked
	}
	return all, err
}

// Kinds are the kinds of findings, each once.
func Kinds(all []Found) []string {
	set := map[string]bool{}
	for _, f := range all {
		set[f.Said.Kind] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// ShortDir makes a folder whose sockets have names that are short enough.
func ShortDir() (string, error) { return os.MkdirTemp("", "kvl") }
