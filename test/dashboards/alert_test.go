package dashboards

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/test/live"
	"github.com/kvwitness/kvwitness/test/monitoring"
)

// notification is what Alertmanager tells a webhook, version 4.
type notification struct {
	Version, Status, Receiver, GroupKey string
	TruncatedAlerts                     int
	Alerts                              []told

	path string
}

type told struct {
	Status              string
	Labels, Annotations map[string]string
}

// hook is a receiver that keeps what it is told.
type hook struct {
	*httptest.Server
	mu  sync.Mutex
	all []notification
}

func newHook(t *testing.T) *hook {
	h := &hook{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		n := notification{path: r.URL.Path}
		if err != nil || json.Unmarshal(body, &n) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.all = append(h.all, n)
	}))
	t.Cleanup(h.Close)
	return h
}

// at lists what was told under a path.
func (h *hook) at(path string) (all []notification) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range h.all {
		if n.path == path {
			all = append(all, n)
		}
	}
	return all
}

// alertmanager starts one with the routes of this tree, in less time, whose
// receivers are the hook.
func alertmanager(t *testing.T, h *hook) *monitoring.Server {
	t.Helper()
	text := read(t, root+"/deploy/alertmanager/alertmanager.yml")
	for _, name := range []string{"pager", "tickets", "heartbeat"} {
		text = strings.ReplaceAll(text, "http://"+name+".example:8080", h.URL)
	}
	text = strings.NewReplacer("group_wait: 30s", "group_wait: 2s", "group_wait: 5s", "group_wait: 2s").Replace(text)
	if strings.Contains(text, ".example:") {
		t.Fatalf("a receiver is left:\n%s", text)
	}
	path := filepath.Join(t.TempDir(), "alertmanager.yml")
	write(t, path, text)
	run(t, "amtool", "check-config", path)
	return serve(t, "prometheus-alertmanager", "--config.file="+path, "--storage.path="+t.TempDir(), "--cluster.listen-address=")
}

// Promise: a fault of a running engine comes to whoever is on call as one
// notification with one alert, with the labels and the runbook of its kind; the
// dead man's switch is heard beside it.
func TestADrillPagesOnceWithItsRunbook(t *testing.T) {
	e, c, s := exercise(t, scheduler.SaltDrop)
	h := newHook(t)
	p := prometheus(t, s.Said["url"], alertmanager(t, h).URL)
	scraped(t, p, 3)
	begun := time.Now()
	play(t, e, c, s)
	if err := live.Await("the pager is told", func() bool { return len(h.at("/page")) > 0 }); err != nil {
		_, firing, asked := p.Count(`ALERTS{severity="page"}`)
		t.Fatalf("%v; %d alerts fire in Prometheus, %v", err, firing, asked)
	}
	t.Logf("told %s after the drill began", time.Since(begun).Round(time.Millisecond))
	if err := live.Await("the heartbeat is heard", func() bool { return len(h.at("/heartbeat")) > 0 }); err != nil {
		t.Fatal(err)
	}
	for round := range 3 { // more of the same tells nobody anew
		if _, err := e.Play(c, round+2); err != nil {
			t.Fatal(err)
		}
		scraped(t, p, 2)
	}
	pages := h.at("/page")
	if len(pages) != 1 || len(pages[0].Alerts) != 1 || pages[0].Version != "4" {
		t.Fatalf("%d notifications: %+v", len(pages), pages)
	}
	isOf(t, pages[0].Alerts[0], map[string]string{
		"alertname": "KVWitnessTenantCrossing", "severity": "page", "team": "serving", "kind": "tenant_crossing",
		"cluster": "test", "model": "induction", "node": "node-a",
	})
	if tickets := h.at("/ticket"); len(tickets) != 0 {
		t.Errorf("tickets: %+v", tickets)
	}
}

func isOf(t *testing.T, a told, labels map[string]string) {
	t.Helper()
	if a.Status != "firing" || len(a.Labels) != len(labels) {
		t.Errorf("%s with the labels %v, want %v", a.Status, a.Labels, labels)
	}
	for name, value := range labels {
		if a.Labels[name] != value {
			t.Errorf("label %s is %q, want %q", name, a.Labels[name], value)
		}
	}
	notes := a.Annotations
	book, found := strings.CutPrefix(notes["runbook_url"], "https://github.com/kvwitness/kvwitness/blob/main/dashboards/runbooks/")
	if _, err := os.Stat(runbooks + book); !found || err != nil || book != labels["alertname"]+".md" {
		t.Errorf("the runbook is %q: %v", notes["runbook_url"], err)
	}
	for _, name := range []string{"summary", "description", "counts", "not_observed", "dashboard", "next"} {
		if notes[name] == "" || strings.Contains(notes[name], "<no value>") || strings.Contains(notes[name], "error") {
			t.Errorf("annotation %s: %q", name, notes[name])
		}
	}
	for _, says := range []string{"var-cluster=test", "var-node=node-a", "/d/kvwitness-ownership"} {
		if !strings.Contains(notes["dashboard"], says) {
			t.Errorf("the dashboard is %q", notes["dashboard"])
		}
	}
}

// Promise: three kinds of one incident are one notification to whoever is on call,
// and those of its tickets that belong to it open none.
func TestAnIncidentOfSeveralKindsWakesOnePersonOnce(t *testing.T) {
	e, c, s := exercise(t, scheduler.RejectedHandoff)
	h := newHook(t)
	p := prometheus(t, s.Said["url"], alertmanager(t, h).URL)
	scraped(t, p, 3)
	play(t, e, c, s)
	if err := live.Await("the pager is told", func() bool { return len(h.at("/page")) > 0 }); err != nil {
		t.Fatal(err)
	}
	scraped(t, p, 4)
	pages := h.at("/page")
	if len(pages) != 1 {
		t.Fatalf("%d notifications", len(pages))
	}
	names := map[string]bool{}
	for _, a := range pages[0].Alerts {
		names[a.Labels["alertname"]] = true
	}
	if len(names) != 2 || !names["KVWitnessStaleRead"] || !names["KVWitnessShortHandoff"] {
		t.Errorf("told of %v", names)
	}
	for _, n := range h.at("/ticket") {
		for _, a := range n.Alerts {
			if a.Labels["alertname"] == "KVWitnessRejectedHandoff" {
				t.Errorf("a ticket beside the page: %v", a.Labels)
			}
		}
	}
}

// Promise: however many nodes of a deployment find something at once, one person is
// woken once, with a message that can be read.
func TestAStormOfAlertsWakesOnePersonOnce(t *testing.T) {
	const nodes = 1000
	h := newHook(t)
	am := alertmanager(t, h)
	var all []map[string]any
	for i := range nodes {
		for _, kind := range urgent["page"] {
			kind, name, _ := strings.Cut(kind, " ")
			all = append(all, map[string]any{"labels": map[string]string{
				"alertname": name, "severity": "page", "team": "serving", "kind": kind, "cluster": "c", "model": "m", "node": fmt.Sprint("n", i),
			}})
		}
	}
	for range 3 { // Prometheus says it again and again
		post(t, am.URL+"/api/v2/alerts", all)
	}
	if err := live.Await("the pager is told", func() bool { return len(h.at("/page")) > 0 }); err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * time.Second) // two and a half times what a group waits
	pages := h.at("/page")
	if len(pages) != 1 {
		t.Fatalf("%d notifications", len(pages))
	}
	if n := len(pages[0].Alerts); n > 50 || n+pages[0].TruncatedAlerts != len(all) {
		t.Errorf("told of %d alerts and %d more, there are %d", n, pages[0].TruncatedAlerts, len(all))
	}
}

// Promise: in shadow mode the same fault is found and shown, and tells nobody.
func TestInShadowModeADrillIsShownAndTellsNobody(t *testing.T) {
	e, c, s := exercise(t, scheduler.SaltDrop, "--shadow")
	h := newHook(t)
	p := prometheus(t, s.Said["url"], alertmanager(t, h).URL)
	scraped(t, p, 3)
	play(t, e, c, s)
	if err := live.Await("the finding is shown", func() bool {
		_, n, err := p.Count(`ALERTS{alertname="KVWitnessFoundInShadow",alertstate="firing",kind="tenant_crossing",severity="none"}`)
		return err == nil && n == 1
	}); err != nil {
		_, counted, asked := p.Count(`kvwitness_findings_total{kind="tenant_crossing"} > 0`)
		_, grown, again := p.Count(`increase(kvwitness_findings_total{kind="tenant_crossing"}[15m]) > 0`)
		t.Fatalf("%v; in Prometheus %d series count it, %v, %d grew, %v", err, counted, asked, grown, again)
	}
	scraped(t, p, 5) // longer than a group waits
	if pages, tickets := h.at("/page"), h.at("/ticket"); len(pages)+len(tickets) != 0 {
		t.Errorf("told: %+v %+v", pages, tickets)
	}
}
