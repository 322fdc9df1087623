package live

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

var (
	killRounds = flag.Int("kill.rounds", 6, "how often something is killed")
	killSeed   = flag.Uint64("kill.seed", 0, "seed of what is killed and when; 0: another each time")
)

// pair is a prefill, a decode and a router as processes that can be killed and come
// back where they were.
type pair struct {
	t    *testing.T
	args map[string][]string // by name: the word that says that it serves, then its arguments
	proc map[string]*Process
	url  string
}

func port(t *testing.T) string {
	t.Helper()
	p, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func newPair(t *testing.T) *pair {
	p, d, r, boot, pc, dc := port(t), port(t), port(t), port(t), port(t), port(t)
	dir := filepath.Join(shortDir(t), "ev")
	k := &pair{t: t, proc: map[string]*Process{}, url: "http://127.0.0.1:" + r, args: map[string][]string{
		"prefill": {"serving", "serve", "--role", "prefill", "--port", p, "--bootstrap-port", boot, "--control-port", pc, "--events-dir", dir, "--pages", "65"},
		"decode":  {"serving", "serve", "--role", "decode", "--port", d, "--prefill", "127.0.0.1:" + boot, "--control-port", dc, "--events-dir", dir, "--pages", "65"},
		"router":  {"routing", "router", "--port", r, "--prefill", "http://127.0.0.1:" + p, "--decode", "http://127.0.0.1:" + d},
	}}
	for _, name := range []string{"prefill", "decode"} {
		k.args[name] = append(k.args[name], "--context-tokens", "512", "--transfer-timeout", "2s", "--bootstrap-timeout", "2s", "--queue-timeout", "4s", "--drain-timeout", "2s")
	}
	for _, name := range []string{"prefill", "decode", "router"} {
		k.start(name)
	}
	t.Cleanup(func() {
		for _, p := range k.proc {
			p.Kill()
		}
	})
	return k
}

func (k *pair) start(name string) {
	k.t.Helper()
	a := k.args[name]
	p, err := Start(engine, a[0], a[1:]...)
	if err != nil {
		k.t.Fatal(err)
	}
	k.proc[name] = p
}

func (k *pair) engines() string {
	return "prefill=" + k.proc["prefill"].Said["url"] + ",decode=" + k.proc["decode"].Said["url"]
}

// ask reports whether one request was answered.
func (k *pair) ask(prompt string) bool {
	body, _ := json.Marshal(map[string]any{"prompt": prompt, "max_tokens": 20})
	client := http.Client{Timeout: 10 * time.Second}
	resp, err := client.Post(k.url+"/v1/completions", "application/json", strings.NewReader(string(body)))
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err == nil && resp.StatusCode == 200
}

// traffic asks until stop is called, and counts the answers.
func (k *pair) traffic(rng *rand.Rand) (answered *atomic.Int64, stop func()) {
	answered = &atomic.Int64{}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-quit:
				return
			default:
			}
			if k.ask(fmt.Sprintf("%d %x %s", i, rng.Uint64(), strings.Repeat("some text ", rng.IntN(20)))) {
				answered.Add(1)
			} else {
				time.Sleep(20 * time.Millisecond)
			}
		}
	}()
	return answered, func() { close(quit); <-done }
}

// Promise: whoever is killed, the engines go on serving, the sidecar comes back and
// sees, and what it could not see it calls unwitnessed: it never accuses, and calls
// nothing clean.
func TestWhoeverIsKilledNobodyIsAccused(t *testing.T) {
	seed := *killSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-kill.seed %d -kill.rounds %d", seed, *killRounds)
	rng := rand.New(rand.NewPCG(seed, 0))
	k := newPair(t)
	s := sidecar(t, k.engines(), Unhurried...)
	answered, stop := k.traffic(rand.New(rand.NewPCG(seed, 1)))
	defer stop()
	names := []string{"sidecar", "prefill", "decode", "router"}
	var seen tally
	for round := range *killRounds {
		time.Sleep(time.Duration(rng.IntN(400)) * time.Millisecond)
		victim := names[(round+rng.IntN(2))%len(names)]
		if victim == "sidecar" {
			seen.take(t, s)
			s.Kill()
			before := answered.Load()
			if err := Await("an answer without a sidecar", func() bool { return answered.Load() > before }); err != nil {
				t.Fatal(err)
			}
			s = sidecar(t, k.engines(), Unhurried...)
		} else {
			k.proc[victim].Kill()
			k.start(victim)
		}
		before := answered.Load()
		if err := Await("answers after "+victim+" was killed", func() bool { return answered.Load() > before+2 }); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if err := s.AwaitSight(); err != nil {
			t.Fatalf("round %d, %s killed: %v", round, victim, err)
		}
	}
	time.Sleep(time.Second)
	seen.take(t, s)
	t.Logf("%d answers, verdicts %v", answered.Load(), seen.verdicts)
	if seen.verdicts["unwitnessed"] == 0 {
		t.Error("there is no verdict at all")
	}
}

// tally adds up what sidecars said, one life after the other.
type tally struct{ verdicts map[string]int }

// take checks what a sidecar has written.
func (y *tally) take(t *testing.T, s *Sidecar) {
	t.Helper()
	if y.verdicts == nil {
		y.verdicts = map[string]int{}
	}
	for line := range strings.Lines(s.Out()) {
		var said struct{ Kind, Verdict, Why, Observation, Claim, Inst, Req, Room string }
		if err := json.Unmarshal([]byte(line), &said); err != nil {
			t.Errorf("the line %q: %v", line, err)
		}
		switch {
		case said.Kind != "" && said.Kind != "blind":
			t.Errorf("accused: %s", line)
		case said.Verdict == "clean" || said.Verdict == "violated":
			t.Errorf("judged: %s", line)
		}
		if said.Verdict != "" {
			y.verdicts[said.Verdict]++
		}
	}
}
