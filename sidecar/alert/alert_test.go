package alert

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// receiver is an Alertmanager that keeps what it is told, and fails first.
type receiver struct {
	mu    sync.Mutex
	fails int
	at    []time.Time
	all   [][]posted
	auth  string
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	var alerts []posted
	if err != nil || req.URL.Path != "/api/v2/alerts" || json.Unmarshal(body, &alerts) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at, r.auth = append(r.at, time.Now()), req.Header.Get("Authorization")
	if r.fails > 0 {
		r.fails--
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	r.all = append(r.all, alerts)
}

func (r *receiver) told() [][]posted {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not come about", what)
		}
	}
}

func pusher(t *testing.T, cfg Config) *Pusher {
	t.Helper()
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func leak(id string, kinds ...finding.Kind) Incident {
	return Incident{ID: id, Kinds: kinds, Name: "room " + id, Inst: "d", First: time.Now()}
}

func TestAnAlertHasTheLabelsOfTheRuleAndLeadsToTheEvidence(t *testing.T) {
	r := &receiver{}
	s := httptest.NewServer(r)
	defer s.Close()
	p := pusher(t, Config{URLs: []string{s.URL + "/"}, Token: "0123456789abcdef", Labels: map[string]string{"cluster": "c", "model": "m", "node": "n"}, Pages: "http://n:9464"})
	i := leak("a1", finding.StaleRead, finding.ClaimMismatch)
	p.Raise(i)
	i.Head = "abc"
	p.Raise(i)
	await(t, "a push", func() bool { return len(r.told()) > 0 })
	if all := r.told()[0]; len(all) != 1 || fmt.Sprint(all[0].Labels) != "map[alertname:KVWitnessStaleRead cluster:c kind:stale_read model:m node:n severity:page team:serving]" {
		t.Errorf("%+v", all)
	} else if a := all[0]; a.Annotations["evidence"] != "http://n:9464/incident/a1" || a.URL != a.Annotations["evidence"] || a.Annotations["evidence_head"] != "abc" ||
		a.Annotations["incidents"] != "a1" || !strings.HasSuffix(a.Annotations["runbook_url"], "/KVWitnessStaleRead.md") {
		t.Errorf("%+v", a)
	}
	if r.auth != "Bearer 0123456789abcdef" {
		t.Errorf("it shows %q", r.auth)
	}
}

// Promise: an Alertmanager that is away is told when it comes back, without being
// flooded, and one that is there is told at once meanwhile.
func TestEachAlertmanagerIsToldAgainUntilItIs(t *testing.T) {
	down, up := &receiver{fails: 3}, &receiver{}
	a, b := httptest.NewServer(down), httptest.NewServer(up)
	defer a.Close()
	defer b.Close()
	p := pusher(t, Config{URLs: []string{a.URL, b.URL, "http://127.0.0.1:1"}})
	p.Raise(leak("a1", finding.StaleRead))
	await(t, "both are told", func() bool { return len(down.told()) > 0 && len(up.told()) > 0 })
	await(t, "all is counted", func() bool {
		s := p.Stats()
		return s[2].Failed > 1 && s[0].Sent > 0 && s[1].Sent > 0
	})
	down.mu.Lock()
	defer down.mu.Unlock()
	for n := 1; n < len(down.at); n++ {
		if gap := down.at[n].Sub(down.at[n-1]); gap < firstPause<<(n-1) {
			t.Errorf("attempt %d after %s", n, gap)
		}
	}
	if s := p.Stats(); s[0].Failed != 3 || s[0].Problem != "" || s[1].Failed != 0 || s[1].LastOK.IsZero() || s[2].Problem == "" {
		t.Errorf("%+v", s)
	}
}

// Promise: a storm is as many alerts as there are critical kinds, told once and then
// only now and then.
func TestAStormIsAFewAlertsAndFewPushes(t *testing.T) {
	r := &receiver{}
	s := httptest.NewServer(r)
	defer s.Close()
	p := pusher(t, Config{URLs: []string{s.URL}})
	for n := range 10_000 {
		p.Raise(leak(fmt.Sprint(n), finding.Kind(n%int(finding.NumKind))))
	}
	await(t, "a push", func() bool { return len(r.told()) > 0 })
	time.Sleep(200 * time.Millisecond)
	all := r.told()
	if len(all) != 1 {
		t.Fatalf("%d pushes", len(all))
	}
	critical := 0
	for k := range finding.NumKind {
		if Pages(k) {
			critical++
		}
	}
	if len(all[0]) != critical {
		t.Errorf("%d alerts", len(all[0]))
	}
	for _, a := range all[0] {
		if n := len(strings.Fields(a.Annotations["incidents"])); n != MaxNamed {
			t.Errorf("%s names %d", a.Labels["alertname"], n)
		}
	}
}

// Promise: what is closed is told no more, and nothing is told to be over.
func TestWhatIsClosedIsToldNoMore(t *testing.T) {
	r := &receiver{}
	s := httptest.NewServer(r)
	defer s.Close()
	p := pusher(t, Config{URLs: []string{s.URL}})
	p.Raise(leak("a1", finding.StaleRead))
	p.Raise(leak("a2", finding.TenantCrossing))
	await(t, "a push", func() bool { return len(r.told()) > 0 })
	p.Reopen([]Incident{leak("a2", finding.TenantCrossing)})
	await(t, "another", func() bool { return len(r.told()) > 1 })
	all := r.told()
	if len(all[0]) != 2 || len(all[1]) != 1 || all[1][0].Labels["kind"] != "tenant_crossing" {
		t.Errorf("%+v", all)
	}
	for _, a := range append(all[0], all[1]...) {
		if ends, err := time.Parse(time.RFC3339Nano, a.EndsAt); err != nil || time.Until(ends) < Lasts-time.Minute {
			t.Errorf("it ends at %s, %v", a.EndsAt, err)
		}
	}
	if n := p.Open(); n[finding.StaleRead] != 0 || n[finding.TenantCrossing] != 1 {
		t.Errorf("%v", n)
	}
}

func TestAnAlertmanagerIsKnownByItsCertificate(t *testing.T) {
	r := &receiver{}
	s := httptest.NewTLSServer(r)
	defer s.Close()
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	strange := pusher(t, Config{URLs: []string{s.URL}})
	strange.Raise(leak("a1", finding.StaleRead))
	await(t, "a refusal", func() bool { return strings.Contains(strange.Stats()[0].Problem, "certificate") })
	if len(r.told()) > 0 {
		t.Error("a stranger is told")
	}
	known := pusher(t, Config{URLs: []string{s.URL}, TLS: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}})
	known.Raise(leak("a1", finding.StaleRead))
	await(t, "a push", func() bool { return len(r.told()) > 0 })
}

func TestOnlyHTTPAddressesAreTold(t *testing.T) {
	for _, at := range []string{"", "alertmanager:9093", "file:///etc/passwd", "http://"} {
		if _, err := New(Config{URLs: []string{at}}); err == nil {
			t.Errorf("%q is taken", at)
		}
	}
	if _, err := New(Config{URLs: make([]string, MaxManagers+1)}); err == nil {
		t.Error("more than MaxManagers are taken")
	}
}
