package live

import (
	"bytes"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvwitness/kvwitness/engine/scheduler"
)

// Promise: what a running sidecar tells is as promtool wants it, and what it found is
// in the counters that alerts are made from.
func TestPromtoolIsContentWithWhatASidecarTells(t *testing.T) {
	for i := range Exercises {
		e := &Exercises[i]
		if e.Drill != scheduler.RejectedHandoff {
			continue
		}
		c, s := e.begin(t, true)
		if _, err := e.Play(c, 1); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Rest(0); err != nil {
			t.Fatal(err)
		}
		text, err := s.Body("/metrics")
		if err != nil {
			t.Fatal(err)
		}
		check := exec.CommandContext(t.Context(), filepath.Join(tools(t), "promtool"), "check", "metrics")
		check.Stdin = bytes.NewReader(text)
		if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("promtool: %v\n%s", err, out)
		}
		for _, says := range []string{
			`kvwitness_findings_total{kind="stale_read",severity="critical",wakes="yes"} `, `kvwitness_verdicts_total{traffic="real",verdict="violated"} `,
			"kvwitness_unwritten_pages_read_total ", `kvwitness_pages_written_claimed_total{by="transfer",engine="decode"} `, `kvwitness_handoff_pages_reserved_total{engine="decode"} `,
		} {
			_, value, known := strings.Cut(string(text), says)
			if !known || strings.HasPrefix(value, "0") {
				t.Errorf("%s is not counted", says)
			}
		}
	}
}

// tools is the folder of promtool.
func tools(t *testing.T) string {
	t.Helper()
	ready := exec.CommandContext(t.Context(), "../monitoring/ready.sh")
	out, err := ready.Output()
	if err != nil {
		t.Fatalf("%v: run test/monitoring/ready.sh by hand to see why", err)
	}
	return strings.TrimSpace(string(out))
}

// Promise: exemplars reach who asks for OpenMetrics.
func TestADelayIsToldWithItsFinding(t *testing.T) {
	e := &Exercises[0]
	c, s := e.begin(t, true)
	if _, err := e.Play(c, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Rest(0); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.Said["url"]+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), `# {finding="`) {
		t.Error("no bucket of the delay has an exemplar")
	}
}
