package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/subscribe"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/source/engineinfo"
	"github.com/kvwitness/kvwitness/sidecar/source/follow"
	"github.com/kvwitness/kvwitness/sidecar/source/kvevents"
	"github.com/kvwitness/kvwitness/sidecar/source/logs"
)

// buckets of the delay, in seconds: the goal is 10 ms.
var buckets = []float64{.001, .0025, .005, .0075, .01, .015, .025, .05, .1, .25, 1}

// Metrics shows readings. Its methods may be called from any goroutine.
type Metrics struct {
	*prometheus.Registry
	delay prometheus.Histogram
}

// New shows what read returns when it is asked.
func New(read func() Reading) *Metrics {
	m := &Metrics{
		prometheus.NewRegistry(),
		prometheus.NewHistogram(prometheus.HistogramOpts{Name: delay.Name, Help: delay.Help, Buckets: buckets}),
	}
	m.MustRegister(m.delay, collector(read), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Found tells the time from a fact to its finding, which is kept under id.
func (m *Metrics) Found(after time.Duration, id uint64) {
	m.delay.(prometheus.ExemplarObserver).ObserveWithExemplar(after.Seconds(), prometheus.Labels{"finding": strconv.FormatUint(id, 10)})
}

// collector reads when it is asked.
type collector func() Reading

func (collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range All {
		if d != delay {
			out <- d.desc
		}
	}
}

func (c collector) Collect(out chan<- prometheus.Metric) {
	r := c()
	e := emitter{&r, func(d *Def, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d.desc, d.Type, v, labels...)
	}}
	e.judgement()
	e.process()
	e.others()
	e.gpus()
	if r.Copies != nil {
		e.put(copiesUncounted, float64(r.Copies.Uncounted))
	}
	for i := range r.Engines {
		s := &r.Engines[i]
		e.pages(s)
		e.beside(s.Name)
		e.copies(s.Name, s.Instance)
		e.facts(s)
		e.sight(s)
		e.protections(s)
	}
}

// emitter says the values of a reading.
type emitter struct {
	*Reading
	put func(d *Def, v float64, labels ...string)
}

func (e emitter) judgement() {
	j := &e.Judged
	for k := range finding.NumKind {
		for i, wakes := range ofWakes.Values {
			e.put(findings, float64(j.Findings[k][i]), k.String(), k.Severity().String(), wakes)
		}
	}
	for o := range finding.NumOutcome {
		for i, traffic := range ofTraffic.Values {
			e.put(verdicts, float64(j.Verdicts[o][i]), o.String(), traffic)
		}
	}
	e.put(unwritten, float64(j.Unwritten))
	e.put(undated, float64(j.Undated))
	e.put(observed, float64(j.Stats.PagesWrittenSeen))
	for _, f := range fates {
		e.put(judged, float64(f.n(&j.Stats)), f.name)
	}
	e.put(missing, float64(j.Stats.Missing))
	e.put(unusable, float64(j.Stats.NoPool+j.Stats.Impossible+j.Stats.Elsewhere+j.Stats.Void))
	for _, b := range boundedThings {
		if b.used != nil {
			e.put(fullness, ratio(b.used(e.Reading), b.limit(e.Reading)), b.name)
		}
		if b.forgotten != nil {
			e.put(forgotten, float64(b.forgotten(e.Reading)), b.name)
		}
	}
}

func (e emitter) process() {
	e.put(dropped, float64(e.Dropped), "lines")
	e.put(dropped, float64(e.Record.Lost), "record")
	for k := range finding.NumKind {
		if k.Severity() == finding.Critical {
			e.put(open, float64(e.Open[k]), k.String())
		}
	}
	for i, n := range e.Pushed {
		e.put(pushes, float64(n), ofResult.Values[i])
	}
	for i, n := range [...]uint64{e.Evidence.Unkept, e.Evidence.Skipped, e.Evidence.Lost} {
		e.put(evidenceLost, float64(n), ofWhat.Values[i])
	}
	for i, n := range [...]uint64{e.Profiles.Sent, e.Profiles.Failed, e.Profiles.Dropped} {
		e.put(profiles, float64(n), ofUpload.Values[i])
	}
	e.put(setAside, number(e.SetAside))
	e.put(shadow, number(e.Shadow))
	e.put(reloadOK, number(e.ReloadOK))
	e.put(reloadAt, float64(e.ReloadAt.UnixMilli())/1e3)
	live := 0
	for i := range e.Engines {
		if e.Engines[i].State == subscribe.Live {
			live++
		}
	}
	e.put(watching, float64(live))
	e.put(told, float64(len(e.Engines)))
}

func (e emitter) pages(s *follow.Status) {
	p := &s.Said.Pages
	e.put(reserved, float64(p.ReservedLive), s.Name, "live")
	e.put(reserved, float64(p.ReservedCached), s.Name, "cached")
	e.put(targeted, float64(p.Targeted), s.Name)
	for by := lifecycle.ByForward; by <= lifecycle.ByCopy; by++ {
		e.put(claimed, float64(p.Written[by]), s.Name, by.String())
	}
	e.put(pagesRead, float64(p.Read), s.Name)
	e.put(cacheRefs, float64(p.Cached), s.Name)
	e.put(shared, float64(p.Shared), s.Name)
	e.put(released, float64(p.Released), s.Name, "live")
	e.put(released, float64(p.Evicted), s.Name, "cached")
	for k := range follow.NumKind {
		pool := &s.Said.Pools[k]
		if !pool.Open {
			continue
		}
		e.put(poolSize, float64(pool.Pages), s.Name, k.String())
		if a := pool.Audit; a.Has {
			for i, n := range [...]int64{a.V.Free, a.V.Cached, a.V.Held, a.V.PendingDrain} {
				e.put(poolPages, float64(n), s.Name, k.String(), ofState.Values[i])
			}
		}
	}
	e.maybe(poolTokens, s.Poll.Pool, s.Name)
	e.maybe(contexts, s.Poll.Context, s.Name, "declared")
	e.maybe(contexts, s.Poll.Effective, s.Name, "effective")
}

// maybe says a value that is known.
func (e emitter) maybe(d *Def, v lifecycle.Opt[int64], labels ...string) {
	if v.Has {
		e.put(d, float64(v.V), labels...)
	}
}

func (e emitter) facts(s *follow.Status) {
	e.put(seen, float64(s.Seen), s.Name)
	e.put(handled, float64(s.Handled), s.Name)
	for l := range follow.NumLoss {
		e.put(lost, float64(s.Lost[l]), s.Name, l.Stage(), l.Reason())
	}
	e.put(queues, ratio(s.Socket.Bytes, s.Socket.Limit), s.Name, "socket")
	e.put(queues, ratio(s.Queue.Bytes, e.queueLimit()), s.Name, "intake")
	for i, n := range [...]uint64{s.Snapshots, s.Replays, s.Retries, s.Gaps, s.Restarts, s.Silences} {
		e.put(events, float64(n), s.Name, ofEvent.Values[i])
	}
	e.put(heldBack, time.Duration(s.Queue.HeldBack).Seconds(), s.Name)
}

// sight says what is seen of an engine; what nobody watches is not covered.
func (e emitter) sight(s *follow.Status) {
	if s.Queue.LastPut != 0 {
		e.put(age, e.since(s.Queue.LastPut), s.Name)
	}
	e.put(expected, time.Duration(s.Queue.Delay).Seconds(), s.Name)
	for i, name := range ofStanding.Values {
		e.put(standing, number(int(s.State) == i), s.Name, name)
	}
	for _, source := range ofSource.Values {
		seen := source == "lifecycle" && s.State == subscribe.Live || source == "http" && s.Poll.Fresh
		for _, of := range [...]lifecycle.Src{lifecycle.RDMA, lifecycle.TCP, lifecycle.CUDA, lifecycle.NVML} {
			seen = seen || source == of.String() && e.Covered[of][s.Instance]
		}
		e.put(coverage, number(seen), s.Name, source)
	}
	if e.GPUs != nil {
		if tokens, known := e.GPUs.Capacity[s.Instance]; known {
			e.put(gpuCapacity, tokens, s.Name)
		}
	}
	for p := range engineinfo.NumEndpoint {
		e.put(polls, float64(s.Poll.OK[p]), s.Name, p.String(), "ok")
		e.put(polls, float64(s.Poll.Failed[p]), s.Name, p.String(), "failed")
	}
}

// beside says what came of an engine's KV events and log: zero where they are not
// followed.
func (e emitter) beside(name string) {
	var s kvevents.Stats
	var lines [logs.NumLine]uint64
	for i := range e.Beside {
		if b := &e.Beside[i]; b.Name == name {
			s, lines = b.KV, b.Log
		}
	}
	for k := range kvevents.NumKind {
		e.put(kvEvents, float64(s.Events[k]), name, k.String())
	}
	e.put(kvEvents, float64(s.Bad), name, "bad")
	for i, n := range [...]uint64{s.Batches, s.Twice, s.BadBatch, s.Missed} {
		e.put(kvBatches, float64(n), name, ofKVFate.Values[i])
	}
	e.put(crossings, float64(s.Crossings), name)
	for l := range logs.NumLine {
		e.put(logLines, float64(lines[l]), name, l.String())
	}
}

// protections says their states: what the stream said, else what the endpoints do.
func (e emitter) protections(s *follow.Status) {
	for i, name := range engineinfo.Protections {
		state := s.Said.Protections[i]
		if !state.Has {
			state.V = s.Poll.Protections[i].State()
		}
		for v := lifecycle.StateUnknown; v <= lifecycle.StateUnsupported; v++ {
			e.put(protection, number(state.V == v), s.Name, name, v.String())
		}
	}
}

func ratio(used, limit int) float64 {
	if limit <= 0 {
		return 0
	}
	return float64(used) / float64(limit)
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
