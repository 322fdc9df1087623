package twohosts

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/test/live"
)

// pair are two engines on two nodes, and a router.
type pair struct {
	*wire
	url             string
	prefill, decode string // as a sidecar is told of them
	drill           string
	asked           int
}

func (n *node) engineArgs(role, drill string) []string {
	return []string{
		"serve", "--role", role, "--host", n.address, "--port", "0", "--events-dir", n.dir, "--drill", drill, "--drill-every", "2", "--drill-delay", "1ns",
		"--pages", "33", "--page-tokens", "16", "--context-tokens", "256", "--batch-tokens", "64", "--chunk-tokens", "4", "--batch-pages", "8",
		"--transfer-timeout", "20s", "--bootstrap-timeout", "20s", "--queue-timeout", "40s", "--drain-timeout", "5s",
	}
}

// newPair starts prefill, with a drill. Decode comes later, so that a probe can see it
// tell prefill where its memory is.
func newPair(t testing.TB, drill string) *pair {
	t.Helper()
	p := &pair{wire: twoNodes(t), drill: drill}
	pre := p.a.start("serving", "kvengine", append(p.a.engineArgs("prefill", drill), "--bootstrap-port", "8998")...)
	p.prefill = "prefill=" + pre.Said["url"]
	return p
}

// startDecode starts decode and a router.
func (p *pair) startDecode() {
	p.b.t.Helper()
	dec := p.b.start("serving", "kvengine", append(p.b.engineArgs("decode", p.drill), "--prefill", addressA+":8998")...)
	p.decode = "decode=" + dec.Said["url"]
	r := p.a.start("routing", "kvengine", "router", "--host", addressA, "--port", "0", "--prefill", strings.TrimPrefix(p.prefill, "prefill="), "--decode", dec.Said["url"])
	p.url = r.Said["url"]
	err := live.Await("the router is ready", func() bool {
		resp, err := http.Get(p.url + "/health")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	if err != nil {
		p.b.t.Fatal(err)
	}
}

// ask sends one request, whose beginning no other has, and waits for its end.
func (p *pair) ask() {
	p.asked++
	text := fmt.Sprintf("%06d %s", p.asked, strings.Repeat("what is written where, and by whom; ", 5))
	body, _ := json.Marshal(map[string]any{"prompt": text, "max_tokens": 8})
	client := http.Client{Timeout: 30 * time.Second}
	resp, err := client.Post(p.url+"/v1/completions", "application/json", strings.NewReader(string(body)))
	if err == nil { // drilled requests, and those over a wire that was cut, fail
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

// rest waits until prefill has nothing to do: pages are handed out again, which the
// wire tells, only when nothing writes them any more.
func (p *pair) rest(t testing.TB) {
	t.Helper()
	idle := regexp.MustCompile(`(?m)^kvengine_queue_requests\{.*\} [1-9]`)
	err := live.Await("prefill rests", func() bool {
		resp, err := http.Get(strings.TrimPrefix(p.prefill, "prefill=") + "/metrics")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return err == nil && strings.Contains(string(text), "kvengine_queue_requests") && !idle.Match(text)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// watchBoth is what the probe of prefill's node is told: see the package comment.
func watchBoth() []string { return []string{"--watch", "exe=" + filepath.Join(bin, "kvengine")} }

// watching waits until probes watch.
func watching(t testing.TB, all ...*live.Sidecar) {
	t.Helper()
	for _, s := range all {
		if err := s.AwaitProbe(1); err != nil {
			t.Fatal(err)
		}
	}
}

// connected waits until a sidecar takes in what its peer says.
func connected(t testing.TB, all ...*live.Sidecar) {
	t.Helper()
	for _, s := range all {
		var st state
		err := live.Await("the peer is connected", func() bool {
			return s.Get("/api/v1/state", &st) == nil && len(st.Peers.Links) == 1 && st.Peers.Links[0].Connected && st.Peers.Links[0].Instances == 1
		})
		if err != nil {
			t.Fatalf("%v: %+v\n%s", err, st, s.Notes())
		}
	}
}

// state is what a sidecar says of its peers.
type state struct {
	Peers struct {
		Links []struct {
			Connected bool
			Problem   string
			Instances int
			Offset    float64 `json:"clock_offset_seconds"`
			Ends      map[string]uint64
		}
		Turned map[string]uint64 `json:"turned_away"`
	}
}

func findings(t testing.TB, s *live.Sidecar) []live.Found {
	t.Helper()
	all, err := s.Findings(0)
	if err != nil {
		t.Fatalf("%v\n%s", err, s.Notes())
	}
	return all
}

// Promise: decode frees pages while prefill writes them, on two nodes whose clocks are
// hours apart. Decode's node, joined with prefill's, finds the release that came too
// early and the write that came afterwards; neither finds either alone, and joined,
// prefill's node says nothing of memory that is not its own.
func TestTwoNodesFindWhatNeitherFindsAlone(t *testing.T) {
	p := newPair(t, "early-release")
	certs := t.TempDir()
	certify(t, certs, p.a, p.b)
	aloneA := p.a.sidecar(p.prefill, watchBoth()...)
	a := p.a.sidecar(p.prefill, append(watchBoth(), p.a.peerArgs(certs, p.b)...)...)
	watching(t, aloneA, a)
	p.startDecode()
	aloneB := p.b.sidecar(p.decode)
	b := p.b.sidecar(p.decode, p.b.peerArgs(certs, p.a)...)
	connected(t, a, b)
	err := live.Await("decode's node finds both", func() bool {
		p.ask()
		p.rest(t)
		found := kinds(findings(t, b))
		return strings.Contains(found, "early_release") && strings.Contains(found, "write_after_release")
	})
	if err != nil {
		t.Fatalf("%v: %q\n%s", err, kinds(findings(t, b)), b.Notes())
	}
	for name, s := range map[string]*live.Sidecar{"decode's node alone": aloneB, "prefill's node joined": a} {
		if found := accusations(findings(t, s)); found != "" {
			t.Errorf("%s found %s", name, found)
		}
	}
	if found := kinds(findings(t, aloneA)); strings.Contains(found, "release") {
		t.Errorf("prefill's node alone found %s", found)
	}
	var verdicts []live.Judged
	err = live.Await("decode's node alone judges", func() bool {
		p.ask()
		verdicts, err = aloneB.Verdicts(0)
		return err != nil || len(verdicts) > 0
	})
	if err != nil || len(verdicts) == 0 || slices.ContainsFunc(verdicts, func(v live.Judged) bool { return v.Said.Verdict != "unwitnessed" }) {
		t.Errorf("decode's node alone judges %+v, %v", verdicts, err)
	}
	var st state
	if err := b.Get("/api/v1/state", &st); err != nil || st.Peers.Links[0].Offset > -7199 || st.Peers.Links[0].Offset < -7201 {
		t.Errorf("the offset of prefill's clock is %+v, %v", st.Peers.Links, err)
	}
}

// accusations are the findings that accuse somebody.
func accusations(all []live.Found) string {
	return kinds(slices.DeleteFunc(all, func(f live.Found) bool { return f.Said.Kind == "blind" }))
}

// Promise: normal traffic between two nodes is clean where the sender's node sees the
// writes and the receiver's what was reserved, and accused by neither. With the wire
// cut while requests are under way, and after it, what is not seen is unwitnessed and
// nobody is accused; when it is mended, traffic is clean again.
func TestNormalTrafficIsCleanAndACutWireAccusesNobody(t *testing.T) {
	p := newPair(t, "none")
	certs := t.TempDir()
	certify(t, certs, p.a, p.b)
	a := p.a.sidecar(p.prefill, append(watchBoth(), p.a.peerArgs(certs, p.b)...)...)
	watching(t, a)
	p.startDecode()
	b := p.b.sidecar(p.decode, p.b.peerArgs(certs, p.a)...)
	connected(t, a, b)
	clean := func() (n int) {
		verdicts, err := b.Verdicts(0)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range verdicts {
			if v.Said.Verdict == "clean" {
				n++
			}
		}
		return n
	}
	await := func(what string, done func() bool) {
		t.Helper()
		if err := live.Await(what, done); err != nil {
			verdicts, _ := b.Verdicts(0)
			t.Fatalf("%v\n%+v\n%s", err, verdicts[max(0, len(verdicts)-5):], b.Notes())
		}
	}
	await("clean handoffs", func() bool { p.ask(); return clean() > 2 })
	var st state
	go p.ask()
	p.cut()
	await("decode's node notices", func() bool {
		return b.Get("/api/v1/state", &st) == nil && !st.Peers.Links[0].Connected
	})
	p.mend()
	connected(t, a, b)
	before := clean()
	await("clean handoffs again", func() bool { p.ask(); return clean() > before })
	for name, s := range map[string]*live.Sidecar{"decode's node": b, "prefill's node": a} {
		all, err := s.Rest(0)
		if err != nil {
			t.Fatal(err)
		}
		if found := accusations(all); found != "" {
			t.Errorf("%s accuses: %s", name, found)
		}
	}
}
