package canary

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Watch is a canary that asks again and again.
type Watch struct {
	Runner   *Runner
	Plan     Plan          // its Budget is that of one run
	Interval time.Duration // between the beginnings of runs
	PerHour  int           // tokens that may be spent in an hour
	Said     func(Result)  // is told of each run
}

// meter counts what a watch comes to. Its labels are closed: outcomes, ends, and the
// lengths of the plan.
type meter struct {
	answers            *prometheus.CounterVec
	runs               *prometheus.CounterVec
	tokens             prometheus.Counter
	alarm, last, spent prometheus.Gauge
}

func newMeter(r prometheus.Registerer, p *Plan) *meter {
	m := &meter{
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kvwitness_canary_answers_total", Help: "Answers to the canary's questions, by the length of the prompt and what they show.",
		}, []string{"prompt_tokens", "outcome"}),
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kvwitness_canary_runs_total", Help: "Runs of the canary, by what they came to.",
		}, []string{"status"}),
		tokens: prometheus.NewCounter(prometheus.CounterOpts{Name: "kvwitness_canary_tokens_total", Help: "Tokens that the canary's questions and answers cost."}),
		alarm: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "kvwitness_canary_alarm", Help: "1 from the first run that raised an alarm on, until the canary is started anew.",
		}),
		last:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "kvwitness_canary_last_run_timestamp_seconds", Help: "When the last run ended."}),
		spent: prometheus.NewGauge(prometheus.GaugeOpts{Name: "kvwitness_canary_budget_used_ratio", Help: "How much of the hour's tokens is spent."}),
	}
	r.MustRegister(m.answers, m.runs, m.tokens, m.alarm, m.last, m.spent)
	for _, n := range p.Lengths {
		for o := range NumOutcome {
			m.answers.WithLabelValues(strconv.Itoa(n), o.String())
		}
	}
	for _, status := range []string{"clean", "alarm", "unchecked"} {
		m.runs.WithLabelValues(status)
	}
	return m
}

func (m *meter) take(r *Result, spent float64) {
	for i := range r.Lengths {
		for o := range NumOutcome {
			m.answers.WithLabelValues(strconv.Itoa(r.Lengths[i].Tokens), o.String()).Add(float64(r.Lengths[i].counts[o]))
		}
	}
	m.runs.WithLabelValues(r.Status).Inc()
	m.tokens.Add(float64(r.Tokens))
	m.last.SetToCurrentTime()
	m.spent.Set(spent)
	if r.Judgement.Status == Alarm {
		m.alarm.Set(1)
	}
}

// Run asks until ctx ends, within the hour's budget, and counts in r. A service that
// cannot be reached ends nothing.
func (w *Watch) Run(ctx context.Context, r prometheus.Registerer) error {
	if err := w.Plan.Check(); err != nil {
		return err
	}
	m := newMeter(r, &w.Plan)
	hour, spent := time.Now(), 0
	for {
		if time.Since(hour) >= time.Hour {
			hour, spent = time.Now(), 0
		}
		begun := time.Now()
		if plan := w.Plan; spent < w.PerHour {
			plan.Budget = min(plan.Budget, w.PerHour-spent)
			res, err := w.Runner.Run(ctx, plan)
			if ctx.Err() != nil {
				return nil
			}
			if err != nil && !errors.Is(err, ErrBudget) {
				return err
			}
			if spent += res.Tokens; err != nil && plan.Budget < w.Plan.Budget {
				spent = w.PerHour // what is left is too little for a question
			}
			m.take(&res, float64(spent)/float64(w.PerHour))
			w.Said(res)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(w.Interval - time.Since(begun)):
		}
	}
}

// ErrOpen is returned for an address that strangers may reach.
var ErrOpen = errors.New("want a loopback or private address")

// Serve serves metrics at an address that strangers do not reach, until ctx ends, and
// returns where.
func Serve(ctx context.Context, address string, from prometheus.Gatherer) (at string, err error) {
	host, _, err := net.SplitHostPort(address)
	ip, parsed := netip.ParseAddr(host)
	if err != nil || parsed != nil || !ip.IsLoopback() && !ip.IsPrivate() {
		return "", fmt.Errorf("serve metrics at %s: %w", address, ErrOpen)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return "", fmt.Errorf("serve metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(from, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	web := &http.Server{
		Handler: mux, ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
	go func() { _ = web.Serve(l) }()
	context.AfterFunc(ctx, func() { _ = web.Close() })
	return l.Addr().String(), nil
}
