package attach

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/sidecar/canary"
	"github.com/kvwitness/kvwitness/sidecar/gate"
	"github.com/kvwitness/kvwitness/sidecar/gate/gather"
	"github.com/kvwitness/kvwitness/test/live"
)

// The commands as they are shipped, built once.
var witness, engine string

func TestMain(m *testing.M) { os.Exit(withCommands(m)) }

func withCommands(m *testing.M) int {
	dir, err := os.MkdirTemp("", "kva")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	var probe string // found beside the sidecar
	for command, at := range map[string]*string{"kvwitness": &witness, "kvengine": &engine, "kvwitness-probe": &probe} {
		if *at, err = live.Build(context.Background(), "../..", dir, command); err != nil {
			panic(err)
		}
	}
	return m.Run()
}

// deployment is engines as processes, and a sidecar that watches them from outside.
type deployment struct {
	gather.Deployment
	side     *live.Sidecar
	patience time.Duration // 0: as usual
}

// shape is how engines are set up.
type shape struct {
	drill           string
	prefill, decode string // pages
	page, context   string // tokens
	unified, seen   bool   // one engine alone; a sidecar follows and watches
	more            []string
}

func port(t *testing.T) string {
	t.Helper()
	p, err := live.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func run(t *testing.T, word string, args ...string) *live.Process {
	t.Helper()
	p, err := live.Start(engine, word, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

// begin starts a deployment; the sidecar first, since what engines register with each
// other is seen only by who is there.
func begin(t *testing.T, s shape) *deployment {
	t.Helper()
	dir, err := live.ShortDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	d := &deployment{}
	keys := write("keys", "alpha key-a\nbeta key-b\n")
	d.KeyFiles = []string{write("a", "key-a"), write("b", "key-b")}
	args := append([]string{
		"serve", "--key-file", keys, "--events-dir", filepath.Join(dir, "ev"), "--page-tokens", s.page, "--context-tokens", s.context,
		"--transfer-timeout", "3s", "--bootstrap-timeout", "3s", "--queue-timeout", "20s", "--drain-timeout", "2s",
	}, s.more...)
	if s.drill != "" {
		args = append(args, "--drill", s.drill)
	}
	p, q, boot := port(t), port(t), port(t)
	engines := "prefill=http://127.0.0.1:" + p + ",decode=http://127.0.0.1:" + q
	if s.unified {
		engines = "engine=http://127.0.0.1:" + p
	}
	if s.seen {
		d.side, err = live.BeginSidecar(witness, engines, "--slack", "100ms", "--live-settle", "20ms", "--engine-key-file", d.KeyFiles[0], "--watch", "exe="+engine)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(d.side.Kill)
		d.Sidecar = d.side.Said["url"]
		if err := d.side.AwaitProbe(1); err != nil {
			t.Fatal(err)
		}
	}
	if s.unified {
		u := run(t, "serving", append(slices.Clone(args), "--port", p, "--pages", s.prefill)...)
		d.Engines = []gather.Engine{{Name: "engine", URL: u.Said["url"], Role: "unified"}}
		d.Router = u.Said["url"]
	} else {
		pre := run(t, "serving", append(slices.Clone(args), "--role", "prefill", "--port", p, "--bootstrap-port", boot, "--pages", s.prefill)...)
		dec := run(t, "serving", append(slices.Clone(args), "--role", "decode", "--port", q, "--prefill", "127.0.0.1:"+boot, "--pages", s.decode)...)
		r := run(t, "routing", "router", "--port", port(t), "--prefill", pre.Said["url"], "--decode", dec.Said["url"])
		d.Engines = []gather.Engine{{Name: "prefill", URL: pre.Said["url"]}, {Name: "decode", URL: dec.Said["url"]}}
		d.Router = r.Said["url"]
	}
	if s.seen {
		if err := d.side.AwaitSight(); err != nil {
			t.Fatal(err)
		}
	}
	d.await(t, "an answer", func() bool {
		c, err := canary.NewClient(canary.Endpoint{URL: d.Router, Timeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		a, err := c.Ask(t.Context(), canary.Tenant{Key: "key-a"}, "hello", 1)
		return err == nil && a.Status != 0 && a.Status != 503
	})
	return d
}

func (d *deployment) await(t *testing.T, what string, done func() bool) {
	t.Helper()
	if err := live.Await(what, done); err != nil {
		if d.side != nil {
			t.Log(d.side.Notes())
		}
		t.Fatal(err)
	}
}

// decide lets a gate decide.
func (d *deployment) decide(t *testing.T, section string) gate.Report {
	t.Helper()
	sections, err := gate.Select(section)
	if err != nil {
		t.Fatal(err)
	}
	p, err := gather.Look(t.Context(), gather.Config{
		Deployment: d.Deployment, Traffic: section != "pool", Budget: 1 << 20, Timeout: 30 * time.Second, Patience: d.patience, Rand: rand.New(rand.NewPCG(1, 2)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return gate.Decide(sections, p)
}

// names are those of checks with that status, and what they found.
func names(r gate.Report, s gate.Status) (all []string, text string) {
	for _, c := range r.Checks {
		if c.Status == s {
			all = append(all, c.Name)
			text += c.Name + " " + c.On + ": " + c.Found + "\n"
		}
	}
	return all, text
}

// Promise: the gate passes where all protections are on, with every handoff seen
// from outside.
func TestTheGatePassesWithProtections(t *testing.T) {
	d := begin(t, shape{prefill: "129", decode: "129", page: "16", context: "512", seen: true})
	r := d.decide(t, "all")
	if r.Exit() != 0 {
		_, failed := names(r, gate.Fail)
		_, unchecked := names(r, gate.Unchecked)
		t.Errorf("failed:\n%sunchecked:\n%s%s", failed, unchecked, d.side.Notes())
	}
}

// Promise: each drill fails the gate by the check of its own name.
func TestTheGateFailsOnEachDrillByName(t *testing.T) {
	wide := shape{prefill: "65", decode: "65", page: "16", context: "512", seen: true}
	for _, c := range []struct {
		drill  string
		change func(*shape)
		want   []string
	}{
		{"rejected-handoff", func(s *shape) { s.prefill, s.decode, s.page = "5", "9", "64" }, []string{"pool.context", "admission.over_pool", "transfer.rejected_handoff", "transfer.short_handoff", "transfer.stale_read"}},
		{"early-release", func(s *shape) {
			s.more = []string{"--drill-delay", "1ns", "--chunk-tokens", "4", "--batch-tokens", "64"}
		}, []string{"lifetime.early_release", "lifetime.deferred_release"}},
		{"late-chunk", func(s *shape) {
			s.more = []string{"--drill-delay", "50ms", "--drill-every", "2", "--chunk-tokens", "16"}
		}, []string{"transfer.rejected_handoff"}},
		{"double-release", func(s *shape) { s.unified, s.more = true, []string{"--drill-every", "3", "--queue-timeout", "2s"} }, []string{"lifetime.double_release"}},
		{"unwritten-cache", func(s *shape) { s.unified, s.more = true, []string{"--chunk-tokens", "8", "--batch-tokens", "64"} }, []string{"transfer.stale_read"}},
		{"salt-drop", nil, []string{"lifetime.tenant_crossing"}},
		{"layout-mismatch", nil, []string{"transfer.layout_mismatch", "transfer.checksum"}},
		{"stale-pull", func(s *shape) { s.more = []string{"--chunk-tokens", "16", "--batch-tokens", "64"} }, []string{"transfer.stale_read"}},
		{"lying-engine", func(s *shape) { s.more = []string{"--drill-every", "2", "--chunk-tokens", "16"} }, []string{"transfer.claim_mismatch", "transfer.short_handoff"}},
	} {
		t.Run(c.drill, func(t *testing.T) {
			t.Parallel()
			s := wide
			s.drill = c.drill
			if c.change != nil {
				c.change(&s)
			}
			d := begin(t, s)
			if c.drill == "double-release" { // pages and findings never come to rest
				d.patience = 5 * time.Second
			}
			r := d.decide(t, "all")
			failed, text := names(r, gate.Fail)
			if r.Exit() != 3 {
				t.Errorf("exit status %d", r.Exit())
			}
			for _, name := range c.want {
				if !slices.Contains(failed, name) {
					_, unchecked := names(r, gate.Unchecked)
					t.Errorf("%s did not fail; failed:\n%sunchecked:\n%s", name, text, unchecked)
				}
			}
		})
	}
}

// Promise: without a sidecar nothing is witnessed, and that is no pass; traffic goes
// nowhere but to loopback unless it is allowed.
func TestWithoutASidecarNothingIsWitnessed(t *testing.T) {
	d := begin(t, shape{prefill: "129", decode: "129", page: "16", context: "512"})
	for section, exit := range map[string]int{"pool": 0, "admission": 0, "transfer": 4, "lifetime": 4} {
		if r := d.decide(t, section); r.Exit() != exit {
			_, text := names(r, r.Status)
			t.Errorf("%s: exit status %d, want %d:\n%s", section, r.Exit(), exit, text)
		}
	}
	d.Router = "http://192.0.2.1:8000"
	if _, err := gather.Look(t.Context(), gather.Config{Deployment: d.Deployment, Traffic: true, Budget: 1}); err != gather.ErrLive {
		t.Errorf("traffic beyond loopback: %v", err)
	}
}

func (d *deployment) canary(t *testing.T, lengths []int, sharing int) canary.Result {
	t.Helper()
	c, err := canary.NewClient(canary.Endpoint{URL: d.Router, Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	tenants := []canary.Tenant{{Name: "a", Key: "key-a", Salt: "a"}, {Name: "b", Key: "key-b", Salt: "b"}}
	res, err := canary.NewRunner(c, rand.New(rand.NewPCG(3, 4))).Run(t.Context(), canary.Plan{
		Tenants: tenants, Lengths: lengths, PerLength: 3, Sharing: sharing, Budget: 1 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// Promise: through HTTP alone the canary finds the leak of the incident, and where
// the pool is scrubbed that answers have lost their prompts; without a drill nothing.
func TestTheCanaryFindsTheIncidentThroughHTTPAlone(t *testing.T) {
	s := shape{prefill: "5", decode: "9", page: "64", context: "512", drill: "rejected-handoff"}
	lengths := []int{160, 288, 400}
	leak := begin(t, s).canary(t, lengths, 0)
	if leak.Status != "alarm" || leak.Lengths[1].Outcomes["leaked"]+leak.Lengths[2].Outcomes["leaked"] == 0 {
		t.Errorf("drilled: %+v", leak)
	}
	s.more = []string{"--drill-scrub"}
	scrubbed := begin(t, s).canary(t, lengths, 0)
	if scrubbed.Status != "alarm" || scrubbed.Lengths[2].Outcomes["lost"] != 6 || scrubbed.Lengths[2].Outcomes["leaked"] != 0 {
		t.Errorf("scrubbed: %+v", scrubbed)
	}
	s.drill, s.more, s.prefill, s.decode = "", nil, "17", "17"
	if clean := begin(t, s).canary(t, lengths, 0); clean.Status != "clean" || !strings.HasPrefix(clean.Verdict, "clean: ") {
		t.Errorf("not drilled: %+v", clean)
	}
}

// Promise: through HTTP alone the canary finds that salts are dropped. On a machine
// that is short of processors the times may say nothing, and it asks again.
func TestTheCanaryFindsASharedCacheThroughHTTPAlone(t *testing.T) {
	s := shape{prefill: "65", page: "16", context: "512", unified: true, drill: "salt-drop"}
	d := begin(t, s)
	d.await(t, "the shared cache is found", func() bool {
		res := d.canary(t, []int{160}, 400)
		return res.Status == "alarm" && strings.Contains(res.Verdict, "share the prefix cache")
	})
	s.drill = ""
	if res := begin(t, s).canary(t, []int{160}, 400); res.Status != "clean" {
		t.Errorf("not drilled: %+v", res)
	}
}
