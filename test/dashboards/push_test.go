package dashboards

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/test/live"
	"github.com/kvwitness/kvwitness/test/monitoring"
)

// kept is an alert as Alertmanager lists it.
type kept struct {
	Labels, Annotations map[string]string
	StartsAt, EndsAt    time.Time
	UpdatedAt           time.Time
	GeneratorURL        string
	Status              struct{ State string }
}

func listed(t *testing.T, am *monitoring.Server, filter string) (all []kept) {
	t.Helper()
	resp, err := http.Get(am.URL + "/api/v2/alerts?filter=" + filter)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil {
		t.Fatal(err)
	}
	return all
}

const pushed = "--alert-labels=cluster=test,model=induction"

// Promise: what the sidecar pushes and what the rule fires are one alert and one
// notification. The push comes within a second of the finding, its link opens the
// incident, and its head proves the evidence. It goes on until a person closes it.
func TestAPushAndTheRuleAreOneAlert(t *testing.T) {
	h := newHook(t)
	am := alertmanager(t, h)
	store := t.TempDir()
	e, c, s := exercise(t, scheduler.SaltDrop, "--alertmanagers", am.URL, pushed, "--node", "node-a", "--evidence", store)
	p := prometheus(t, s.Said["url"], am.URL)
	scraped(t, p, 3)
	play(t, e, c, s)
	const crossing = `kind="tenant_crossing"`
	var all []kept
	if err := live.Await("the push is there", func() bool { all = listed(t, am, crossing); return len(all) > 0 }); err != nil {
		t.Fatal(err)
	}
	found, err := s.Findings(0)
	if err != nil || len(found) == 0 {
		t.Fatalf("%d findings, %v", len(found), err)
	}
	took := all[0].UpdatedAt.Sub(found[0].At)
	t.Logf("pushed %s after the finding", took.Round(time.Millisecond))
	// It does not wait for the disk: where the incident is not kept yet, its head follows.
	if err := live.Await("the head is told", func() bool {
		all = listed(t, am, crossing)
		return len(all) == 1 && all[0].Annotations["evidence_head"] != ""
	}); err != nil {
		t.Fatalf("%v: %+v", err, all)
	}
	notes := all[0].Annotations
	if !strings.HasPrefix(notes["evidence"], s.Said["url"]+"/incident/") || all[0].GeneratorURL != notes["evidence"] {
		t.Fatalf("annotations %v", notes)
	}
	page, err := s.Body(strings.TrimPrefix(notes["evidence"], s.Said["url"]))
	if err != nil || !strings.Contains(string(page), "tenant_crossing") || !strings.Contains(string(page), notes["evidence_head"]) {
		t.Errorf("the link opens %s, %v", page, err)
	}
	if err := live.Await("the rule fires", func() bool {
		_, n, err := p.Count(`ALERTS{alertname="KVWitnessTenantCrossing",alertstate="firing"}`)
		return err == nil && n == 1
	}); err != nil {
		t.Fatal(err)
	}
	scraped(t, p, 4)
	all = listed(t, am, crossing)
	if len(all) != 1 {
		t.Errorf("%d alerts of both ways: %+v", len(all), all)
	}
	if pages := h.at("/page"); len(pages) != 1 || len(pages[0].Alerts) != 1 {
		t.Errorf("%d notifications: %+v", len(pages), pages)
	}
	exported(t, s, notes["evidence"], notes["evidence_head"])
}

// exported holds that the evidence that an alert links to verifies against its head,
// and that closing it is said.
func exported(t *testing.T, s *live.Sidecar, link, head string) {
	t.Helper()
	id := link[strings.LastIndex(link, "/")+1:]
	file := filepath.Join(t.TempDir(), "evidence.jsonl")
	for _, args := range [][]string{
		{"export", id, "--out", file}, {"verify", file, "--head", head}, {"close", id, "--by", "me", "--why", "told the tenant"}, {"show", id},
	} {
		args = append(append([]string{"findings"}, args...), "--url", s.Said["url"])
		if out, err := exec.CommandContext(t.Context(), bin(t, "kvwitness"), args...).CombinedOutput(); err != nil {
			t.Errorf("kvwitness %v: %v: %s", args, err, out)
		}
	}
	if err := live.Await("no disclosure is open", func() bool {
		body, err := s.Body("/metrics")
		return err == nil && strings.Contains(string(body), `kvwitness_disclosures_open{kind="tenant_crossing"} 0`)
	}); err != nil {
		t.Error(err)
	}
}

// Promise: in shadow mode nothing is pushed, and the evidence is there all the same.
func TestInShadowModeNothingIsPushed(t *testing.T) {
	told := make(chan string, 16)
	am := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err == nil {
			told <- string(text)
		}
	}))
	t.Cleanup(am.Close)
	e, c, s := exercise(t, scheduler.SaltDrop, "--shadow", "--alertmanagers", am.URL, pushed, "--evidence", t.TempDir())
	play(t, e, c, s)
	if err := live.Await("evidence", func() bool {
		body, err := s.Body("/api/v1/incidents")
		return err == nil && strings.Contains(string(body), "tenant_crossing")
	}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second) // ten times as long as news wait
	select {
	case text := <-told:
		t.Errorf("told in shadow mode: %s", text)
	default:
	}
	if body, err := s.Body("/api/v1/incidents"); err != nil || strings.Contains(string(body), `"open":true`) {
		t.Errorf("a disclosure is open: %s, %v", body, err)
	}
}
