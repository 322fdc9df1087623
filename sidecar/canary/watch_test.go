package canary

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// watched runs a watch until it has said so many results, and returns its metrics.
func watched(t *testing.T, s *service, perHour, runs int) (results []Result, metrics string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	registry := prometheus.NewRegistry()
	at, err := Serve(ctx, "127.0.0.1:0", registry)
	if err != nil {
		t.Fatal(err)
	}
	said := make(chan Result, 64)
	w := Watch{Runner: runner(t, s, 7, Completions), Plan: plan(), Interval: time.Millisecond, PerHour: perHour, Said: func(r Result) { said <- r }}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx, registry) }()
	for range runs {
		select {
		case r := <-said:
			results = append(results, r)
		case <-time.After(time.Minute):
			t.Fatal("no run")
		}
	}
	time.Sleep(20 * time.Millisecond) // for a run that must not come
	if len(said) > 0 && perHour < 1<<20 {
		t.Errorf("%d runs beyond the budget", len(said))
	}
	resp, err := http.Get("http://" + at + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return results, string(body)
}

func TestAWatchAsksAgainAndSaysSoInMetrics(t *testing.T) {
	results, m := watched(t, &service{}, 1<<20, 2)
	for _, line := range []string{
		`kvwitness_canary_runs_total{status="alarm"} 0`, `kvwitness_canary_answers_total{outcome="leaked",prompt_tokens="900"} 0`,
		"kvwitness_canary_alarm 0", "kvwitness_canary_last_run_timestamp_seconds ",
	} {
		if !strings.Contains(m, line) {
			t.Errorf("the metrics lack %s:\n%s", line, m)
		}
	}
	if results[1].Status != "clean" || results[1].Asked != results[0].Asked-2 {
		t.Errorf("the second run: %+v", results[1])
	}
}

func TestAWatchKeepsToItsBudgetAndKeepsItsAlarm(t *testing.T) {
	s := &service{wrong: func(_ int, _, prompt, text string) string {
		if len(prompt) > 3000 {
			return "nothing of it"
		}
		return text
	}}
	results, m := watched(t, s, 40_000, 2)
	if results[0].Status != "alarm" || results[0].Tokens+results[1].Tokens > 40_000 {
		t.Errorf("%+v", results)
	}
	if !strings.Contains(m, "kvwitness_canary_alarm 1") {
		t.Errorf("no alarm in\n%s", m)
	}
}

func TestMetricsAreNotServedToStrangers(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", "example.com:80", "192.0.2.1:9465", "9465", ":0"} {
		if _, err := Serve(t.Context(), address, prometheus.NewRegistry()); !errors.Is(err, ErrOpen) {
			t.Errorf("%s: %v", address, err)
		}
	}
}
