package dashboards

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/kvwitness/kvwitness/test/live"
	"github.com/kvwitness/kvwitness/test/monitoring"
)

// Promise: what PagerDuty and Slack are sent says what happened, where to read on
// and what to type, and holds no hole.
func TestPagerDutyAndSlackAreToldWhatToDo(t *testing.T) {
	var mu sync.Mutex
	sent := map[string]string{}
	services := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		sent[r.URL.Path] = string(body)
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, `{"status":"success"}`)
	}))
	t.Cleanup(services.Close)
	am := receivers(t, services.URL)
	post(t, am.URL+"/api/v2/alerts", []map[string]any{{
		"labels": map[string]string{
			"alertname": "KVWitnessStaleRead", "severity": "page", "team": "serving", "kind": "stale_read", "cluster": "c", "model": "m/8b", "node": "n",
		},
		"annotations": map[string]string{
			"summary": "stale_read on n", "description": "A request read a page.", "counts": "reserved 8, written 1", "not_observed": "1 path",
			"next": "curl findings", "runbook_url": "https://runbook.example/KVWitnessStaleRead.md", "dashboard": "/d/kvwitness-ownership?var-node=n",
		},
	}})
	got := func(path string) string {
		mu.Lock()
		defer mu.Unlock()
		return sent[path]
	}
	if err := live.Await("both are told", func() bool { return got("/pagerduty") != "" && got("/slack") != "" }); err != nil {
		t.Fatal(err)
	}
	facts := []string{"stale_read on n", "A request read a page.", "reserved 8, written 1", "next: curl findings", "https://runbook.example/KVWitnessStaleRead.md", "https://grafana.example/d/kvwitness-ownership?var-node=n"}
	for path, more := range map[string][]string{
		"/pagerduty": {`"severity":"critical"`, `"component":"m/8b"`, `"text":"Dashboard"`, `"event_action":"trigger"`},
		"/slack":     {`"color":"danger"`, `"text":"Silence"`, `/#/silences/new?filter=%7B`, `model%3D%22m%2F8b%22`},
	} {
		for _, says := range append(more, facts...) {
			if !strings.Contains(plain(got(path)), says) {
				t.Errorf("%s does not say %q:\n%s", path, says, got(path))
			}
		}
		if strings.Contains(got(path), "no value") {
			t.Errorf("%s has a hole:\n%s", path, got(path))
		}
	}
}

// plain undoes what JSON does to &, < and >.
func plain(text string) string {
	return strings.NewReplacer(`\u0026`, "&", `\u003c`, "<", `\u003e`, ">").Replace(text)
}

// receivers starts an Alertmanager with the receivers of the example at this URL.
func receivers(t *testing.T, at string) *monitoring.Server {
	t.Helper()
	dir := t.TempDir()
	text := read(t, deploy+"alertmanager/receivers.example.yml")
	for old, now := range map[string]string{
		"https://events.pagerduty.example/v2/enqueue": at + "/pagerduty",
		"/etc/alertmanager/pagerduty-key":             filepath.Join(dir, "pagerduty-key"),
		"/etc/alertmanager/slack-url":                 filepath.Join(dir, "slack-url"),
		"  group_by: [cluster, model]\n":              "  group_by: [cluster, model]\n  group_wait: 0s\n",
	} {
		if !strings.Contains(text, old) {
			t.Fatalf("receivers.example.yml has no %q", old)
		}
		text = strings.ReplaceAll(text, old, now)
	}
	write(t, filepath.Join(dir, "alertmanager.yml"), text)
	write(t, filepath.Join(dir, "kvwitness.tmpl"), read(t, deploy+"alertmanager/kvwitness.tmpl"))
	write(t, filepath.Join(dir, "pagerduty-key"), "key")
	write(t, filepath.Join(dir, "slack-url"), at+"/slack")
	return serve(t, "prometheus-alertmanager", "--config.file="+filepath.Join(dir, "alertmanager.yml"), "--storage.path="+t.TempDir(), "--cluster.listen-address=")
}

func post(t *testing.T, url string, body any) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(url, "application/json", bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(resp.Body)
		t.Fatalf("%s: %s", resp.Status, said)
	}
}
