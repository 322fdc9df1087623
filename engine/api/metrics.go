package api

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/engine/worker"
)

// Labels are closed sets: an endpoint, a status, a queue, a state of pages, a
// protection, a drill.
var (
	pagesDesc   = describe("pages", "Pages of a pool by state.", "pool", "state")
	queueDesc   = describe("queue_requests", "Requests in each queue.", "queue")
	ranDesc     = describe("protection_ran_total", "How often a protection ran.", "protection")
	stoppedDesc = describe("protection_stopped_total", "How often a protection stopped something.", "protection")
	onDesc      = describe("protection_on", "1 where a protection is on for ordinary requests.", "protection")
	drillDesc   = describe("drill", "1 for the drill that is switched on.", "drill")
	limitDesc   = describe("context_tokens", "The effective context.")
	poolDesc    = describe("max_total_num_tokens", "Tokens that the pool can hold.")
	faultDesc   = describe("page_tag_faults_total", "Pages that a forward pass found not to be what a block table took them for.")
	uploadDesc  = describe("profile_uploads_total", "Profiles of this process that were sent to Pyroscope, or were not.", "outcome")
	countDescs  = map[string]*prometheus.Desc{
		"submitted": describe("requests_submitted_total", "Requests that came to the scheduler."),
		"rejected":  describe("requests_rejected_total", "Requests that were rejected at the door."),
		"answered":  describe("requests_answered_total", "Requests that ended after they were let in."),
		"preempted": describe("requests_preempted_total", "Requests that gave their pages up and re-entered."),
		"fenced":    describe("transfers_fenced_total", "Transfers that did not drain in time."),
		"late":      describe("late_events_total", "Events about what had already ended."),
	}
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("kvengine_"+name, help, labels, nil)
}

func (s *Server) register(r *prometheus.Registry) {
	s.requests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kvengine_http_requests_total", Help: "Answered requests by endpoint and status.",
	}, []string{"endpoint", "status"})
	r.MustRegister(s.requests, (*collector)(s))
}

// collector reads the engine when it is asked.
type collector Server

func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{pagesDesc, queueDesc, ranDesc, stoppedDesc, onDesc, drillDesc, limitDesc, poolDesc, faultDesc, uploadDesc} {
		out <- d
	}
	for _, d := range countDescs {
		out <- d
	}
}

func (c *collector) Collect(out chan<- prometheus.Metric) {
	s := (*Server)(c)
	var all []prometheus.Metric
	err := s.inspect(context.Background(), func(v worker.View) { all = measure(v, s.worker.Config().Drill) })
	if err != nil {
		out <- prometheus.NewInvalidMetric(limitDesc, err)
		return
	}
	uploads := s.cfg.Profiles.Stats()
	for outcome, n := range map[string]uint64{"sent": uploads.Sent, "failed": uploads.Failed, "dropped": uploads.Dropped} {
		out <- prometheus.MustNewConstMetric(uploadDesc, prometheus.CounterValue, float64(n), outcome)
	}
	out <- prometheus.MustNewConstMetric(faultDesc, prometheus.CounterValue, float64(s.worker.TagFaults()))
	for _, m := range all {
		out <- m
	}
}

func measure(v worker.View, drill scheduler.Drill) (all []prometheus.Metric) {
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		all = append(all, prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...))
	}
	count := func(d *prometheus.Desc, n uint64, labels ...string) {
		all = append(all, prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...))
	}
	for name, pool := range map[string]*kvcache.Pool{"kv": v.KV, "aux": v.Aux} {
		if pool == nil {
			continue
		}
		a := pool.Audit()
		for state, n := range map[string]int{"null": a.Null, "free": a.Free, "cached": a.Cached, "held": a.Held, "pending_drain": a.PendingDrain} {
			gauge(pagesDesc, n, name, state)
		}
	}
	for queue, n := range v.Scheduler.Queues() {
		gauge(queueDesc, n, queue)
	}
	stats, on := v.Scheduler.Stats(), v.Scheduler.Protections()
	for p := range scheduler.NumProtections {
		count(ranDesc, stats.Ran[p], p.String())
		count(stoppedDesc, stats.Stopped[p], p.String())
		gauge(onDesc, number(on[p]), p.String())
	}
	gauge(drillDesc, 1, drill.String())
	gauge(limitDesc, v.Scheduler.Limit())
	gauge(poolDesc, v.KV.Capacity())
	for name, n := range map[string]uint64{
		"submitted": stats.Submitted, "rejected": stats.Rejected, "answered": stats.Answered,
		"preempted": stats.Preempted, "fenced": stats.Fenced, "late": stats.Late,
	} {
		count(countDescs[name], n)
	}
	return all
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}
