package witness

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// whole is a running sidecar, with its own probe.
type whole struct {
	t   testing.TB
	url string
	pid int

	mu       sync.Mutex
	verdicts map[string]finding.Outcome
	found    map[string][]string  // kinds by room
	first    map[string]time.Time // when the first came
}

// startWhole starts one that watches from outside, and waits until it does.
func startWhole(t testing.TB, match string, more ...string) *whole {
	t.Helper()
	command(t, "kvwitness-probe")
	s := &whole{t: t, verdicts: map[string]finding.Outcome{}, found: map[string][]string{}, first: map[string]time.Time{}}
	cmd := exec.Command(command(t, "kvwitness"), append([]string{"sidecar", "--watch", match, "--listen", "127.0.0.1:0"}, more...)...)
	cmd.Env = append(os.Environ(), "KVWITNESS_LOG_FORMAT=text")
	out, err := cmd.StdoutPipe()
	must(t, err)
	notes, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	s.pid = cmd.Process.Pid
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	urls := make(chan string, 1)
	go func() {
		at := regexp.MustCompile(`msg=watching url=(\S+)`)
		for in := bufio.NewScanner(notes); in.Scan(); {
			if m := at.FindStringSubmatch(in.Text()); m != nil {
				urls <- m[1]
			}
		}
	}()
	go func() {
		for in := bufio.NewScanner(out); in.Scan(); {
			s.line(in.Bytes())
		}
	}()
	select {
	case s.url = <-urls:
	case <-time.After(patience):
		t.Fatal("the sidecar says nothing")
	}
	s.await("that it watches", func(o *sight) bool { return o.Outside.Watching })
	return s
}

func (s *whole) line(b []byte) {
	var l struct {
		Verdict string
		Kind    string
		Room    string
	}
	if json.Unmarshal(b, &l) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.Kind != "" && l.Kind != finding.Blind.String() {
		s.found[l.Room] = append(s.found[l.Room], l.Kind)
		if s.first[l.Room].IsZero() {
			s.first[l.Room] = time.Now()
		}
	}
	for o := range finding.NumOutcome {
		if l.Verdict == o.String() {
			s.verdicts[l.Room] = o
		}
	}
}

// sight is what a sidecar says of its view from outside.
type sight struct {
	Outside struct {
		Watching bool
		Paths    []struct {
			Into, Over string
			Complete   bool
		}
		Memory []struct {
			Process int
			Held    map[string]uint64 `json:"held_bytes"`
			Unknown string
		}
	}
}

func (s *whole) await(what string, ok func(*sight) bool) {
	s.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		resp, err := http.Get(s.url + "/api/v1/state")
		if err != nil {
			continue
		}
		var o sight
		err = json.NewDecoder(resp.Body).Decode(&o)
		_ = resp.Body.Close()
		if err == nil && ok(&o) {
			return
		}
	}
	s.t.Fatalf("not within %v: %s", patience, what)
}

// verdict waits for the verdict of a room.
func (s *whole) verdict(room string) finding.Outcome {
	s.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		s.mu.Lock()
		o, ok := s.verdicts[room]
		s.mu.Unlock()
		if ok {
			return o
		}
	}
	s.t.Fatalf("room %s has no verdict", room)
	return 0
}

// proved connects a pair and plays handoffs until the sight of its RDMA is complete.
func (s *whole) proved(p *verbsPair) {
	s.t.Helper()
	// Each handoff over new queue pairs, until libibverbs is attached to.
	complete := func(o *sight) bool {
		for _, path := range o.Outside.Paths {
			if path.Into == p.name() && path.Over == "rdma" {
				return path.Complete
			}
		}
		return false
	}
	p.join("nic", "first", p.numbers[0], p.numbers[1])
	s.await("the sight of RDMA", func(o *sight) bool {
		if complete(o) {
			return true
		}
		for _, h := range []*half{p.prefill, p.decode} {
			h.do("destroy", map[string]any{"pair": "first"})
		}
		p.join("nic", "first", p.numbers[0], p.numbers[1])
		p.good()
		time.Sleep(judged)
		return false
	})
}

// Promise: a whole sidecar, which starts its probe itself, says of processes that
// tell it nothing and write over verbs which handoffs were clean and which was
// short, and by what way their bytes come.
func TestAWholeSidecarWitnessesHandoffsOverVerbs(t *testing.T) {
	s := startWhole(t, verbsPeers)
	p := newVerbsPair(t, 0)
	p.open()
	p.register()
	s.proved(p)
	clean := p.good()
	time.Sleep(judged)
	short := p.handoff(eight, p.post("first", p.whole(eight[0])))
	time.Sleep(judged)
	again := p.good()
	time.Sleep(judged)
	for room, want := range map[string]finding.Outcome{clean: finding.Clean, short: finding.Violated, again: finding.Clean} {
		if got := s.verdict(room); got != want {
			t.Errorf("room %s is %s, want %s", room, got, want)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.found) != 1 || len(s.found[short]) != 1 || s.found[short][0] != finding.ShortHandoff.String() {
		t.Errorf("found %v", s.found)
	}
}
