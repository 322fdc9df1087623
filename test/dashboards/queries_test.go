package dashboards

import (
	"bufio"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/test/boards"
	"github.com/kvwitness/kvwitness/test/monitoring"
)

// allowedEmpty are the panels that may be empty before this traffic, with reasons.
func allowedEmpty(t *testing.T) map[string]string {
	t.Helper()
	file, err := os.Open("testdata/empty.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	all := map[string]string{}
	for in := bufio.NewScanner(file); in.Scan(); {
		if strings.HasPrefix(in.Text(), "#") || in.Text() == "" {
			continue
		}
		name, why, said := strings.Cut(in.Text(), " | ")
		if !said || len(why) < 8 {
			t.Fatalf("testdata/empty.txt: no reason in %q", in.Text())
		}
		all[name] = why
	}
	return all
}

// Promise: every query of every panel, for all, one and several values of the
// variables, and every recording, gives numbers before a real sidecar that a real
// Prometheus scrapes while traffic and a drill run; those that do not are listed.
func TestNoPanelIsEmptyBeforeARunningSidecar(t *testing.T) {
	e, c, s := exercise(t, scheduler.RejectedHandoff)
	p := prometheus(t, s.Said["url"], "http://127.0.0.1:1")
	for round := range 3 { // some before the findings, and some between them
		scraped(t, p, 3)
		if _, err := e.Play(c, round+1); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := s.Rest(0); err != nil || len(all) == 0 {
		t.Fatalf("%d findings, %v", len(all), err)
	}
	scraped(t, p, 4)
	empty, used := allowedEmpty(t), map[string]bool{}
	for _, q := range panelQueries(t) {
		name := q.at[:strings.LastIndexByte(q.at, '/')]
		series, numbers, err := p.Count(q.expr)
		_, listed := empty[name]
		used[name] = true
		switch {
		case err != nil:
			t.Errorf("%s: %v: %s", q.at, err, q.expr)
		case numbers == 0 && !listed:
			t.Errorf("%s has %d series and no number: %s", q.at, series, q.expr)
		}
	}
	for name := range empty {
		if !used[name] {
			t.Errorf("testdata/empty.txt names %s, which is not there", name)
		}
	}
	rulesAreWell(t, p)
	exemplarsLeadToFindings(t, p)
	fieldsOfRunbooks(t, s.Said["url"])
}

// rulesAreWell holds that no rule erred, that recordings have series, and that the
// drill's alerts fire: those of its kinds, and the one that always does.
func rulesAreWell(t *testing.T, p *monitoring.Server) {
	t.Helper()
	var data struct {
		Groups []struct {
			Rules []struct {
				Name, Type, Health, LastError, State string
			}
		}
	}
	if err := p.Get("/api/v1/rules", url.Values{}, &data); err != nil {
		t.Fatal(err)
	}
	n, fire := 0, map[string]bool{}
	for _, g := range data.Groups {
		for _, r := range g.Rules {
			n++
			if r.Health != "ok" {
				t.Errorf("rule %s: %s %s", r.Name, r.Health, r.LastError)
			}
			if r.State == "firing" {
				fire[r.Name] = true
			}
			if r.Type != "recording" {
				continue
			}
			if _, numbers, err := p.Count(r.Name); err != nil || numbers == 0 {
				t.Errorf("the recording %s is empty: %v", r.Name, err)
			}
		}
	}
	for _, name := range []string{"KVWitnessStaleRead", "KVWitnessShortHandoff", "KVWitnessRejectedHandoff", "KVWitnessWatchdog"} {
		if !fire[name] {
			t.Errorf("%s does not fire", name)
		}
	}
	if n < 60 {
		t.Errorf("only %d rules", n)
	}
}

// exemplarsLeadToFindings holds that the points of the panel that shows exemplars
// are there, and name findings.
func exemplarsLeadToFindings(t *testing.T, p *monitoring.Server) {
	t.Helper()
	asked := 0
	for _, b := range committed(t) {
		b.Each(func(panel *boards.Panel) {
			for _, a := range panel.Targets {
				if !a.Exemplar {
					continue
				}
				asked++
				var all []struct {
					Exemplars []struct{ Labels map[string]string }
				}
				values := url.Values{"query": {b.With(a.Expr, settings["one"])}, "start": {"0"}, "end": {"9999999999"}}
				if err := p.Get("/api/v1/query_exemplars", values, &all); err != nil || len(all) == 0 {
					t.Errorf("%s: %d series with exemplars, %v", panel.Title, len(all), err)
				}
				for _, s := range all {
					for _, e := range s.Exemplars {
						if e.Labels["finding"] == "" {
							t.Errorf("%s: an exemplar with the labels %v", panel.Title, e.Labels)
						}
					}
				}
			}
		})
	}
	if asked == 0 {
		t.Error("no panel shows exemplars")
	}
}
