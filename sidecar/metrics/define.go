package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/subscribe"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/source/engineinfo"
	"github.com/kvwitness/kvwitness/sidecar/source/follow"
	"github.com/kvwitness/kvwitness/sidecar/source/kvevents"
	"github.com/kvwitness/kvwitness/sidecar/source/logs"
)

// Prefix begins the name of every metric.
const Prefix = "kvwitness_"

// Label is a label with all its values; none: the names of configured engines.
type Label struct {
	Name   string
	Values []string
}

// Def is one metric.
type Def struct {
	Name   string
	Type   prometheus.ValueType // Untyped: a histogram
	Help   string
	Labels []Label

	desc *prometheus.Desc
}

// All are the metrics that are defined, in the order of the reference.
var All []*Def

func define(name string, kind prometheus.ValueType, help string, labels ...Label) *Def {
	d := &Def{Name: Prefix + name, Type: kind, Help: help, Labels: labels}
	names := make([]string, len(labels))
	for i, l := range labels {
		names[i] = l.Name
	}
	d.desc = prometheus.NewDesc(d.Name, help, names, nil)
	All = append(All, d)
	return d
}

func counter(name, help string, labels ...Label) *Def {
	return define(name, prometheus.CounterValue, help, labels...)
}

func gauge(name, help string, labels ...Label) *Def {
	return define(name, prometheus.GaugeValue, help, labels...)
}

// named lists the names of the values 0 to n-1 of an enumeration.
func named[E interface {
	~uint8
	String() string
}](n E) (names []string) {
	for e := range n {
		names = append(names, e.String())
	}
	return names
}

// The closed sets.
var (
	ofEngine    = Label{Name: "engine"}
	ofHolder    = Label{"holder", []string{"live", "cached"}}
	ofBy        = Label{"by", []string{lifecycle.ByForward.String(), lifecycle.ByTransfer.String(), lifecycle.ByReload.String(), lifecycle.ByCopy.String()}}
	ofPool      = Label{"pool", named(follow.NumKind)}
	ofState     = Label{"state", []string{"free", "cached", "held", "pending_drain"}}
	ofVerdict   = Label{"verdict", named(finding.NumOutcome)}
	ofTraffic   = Label{"traffic", []string{"real", "synthetic"}}
	ofKind      = Label{"kind", named(finding.NumKind)}
	ofSeverity  = Label{"severity", named(finding.NumSeverity)}
	ofWakes     = Label{"wakes", []string{"yes", "no"}}
	ofContext   = Label{"which", []string{"declared", "effective"}}
	ofStage     = Label{"stage", []string{"engine", "stream", "decode", "guard", "intake"}}
	ofReason    = Label{"reason", reasons()}
	ofOutcome   = Label{"outcome", outcomes()}
	ofThing     = Label{"thing", things()}
	ofQueue     = Label{"queue", []string{"socket", "intake"}}
	ofSource    = Label{"source", []string{"lifecycle", "http", "rdma", "tcp", "cuda", "nvml"}}
	ofStanding  = Label{"standing", []string{subscribe.Waiting.String(), subscribe.CatchingUp.String(), subscribe.Live.String()}}
	ofEvent     = Label{"event", []string{"snapshot", "replay", "retry", "gap", "restart", "silence"}}
	ofProtects  = Label{"protection", engineinfo.Protections[:]}
	ofProtState = Label{"state", []string{lifecycle.StateUnknown.String(), lifecycle.StateRan.String(), lifecycle.StateOff.String(), lifecycle.StateUnsupported.String()}}
	ofEndpoint  = Label{"endpoint", named(engineinfo.NumEndpoint)}
	ofResult    = Label{"result", []string{"ok", "failed"}}
	ofCritical  = Label{"kind", critical()}
	ofUpload    = Label{"result", []string{"ok", "failed", "dropped"}}
	ofWhat      = Label{"what", []string{"facts", "incidents", "entries"}}
	ofKVEvent   = Label{"event", append(named(kvevents.NumKind), "bad")}
	ofKVFate    = Label{"fate", []string{"came", "twice", "bad", "missed"}}
	ofLine      = Label{"line", named(logs.NumLine)}
	ofSink      = Label{"sink", []string{"lines", "record"}}
)

// critical are the kinds that are evidence of wrong data.
func critical() (all []string) {
	for k := range finding.NumKind {
		if k.Severity() == finding.Critical {
			all = append(all, k.String())
		}
	}
	return all
}

func reasons() (all []string) {
	for l := range follow.NumLoss {
		all = append(all, l.Reason())
	}
	return all
}

// The metrics.
var (
	findings   = counter("findings_total", "Broken rules that were found. wakes is no for warm-up traffic, and for all while --shadow is on.", ofKind, ofSeverity, ofWakes)
	verdicts   = counter("verdicts_total", "Verdicts on requests, once for each receiver of a handoff; a later violation counts again.", ofVerdict, ofTraffic)
	unwritten  = counter("unwritten_pages_read_total", "Pages that findings say were read without having been written.")
	delay      = define("finding_delay_seconds", prometheus.UntypedValue, "Time from the arrival of the fact that broke a rule to its finding; the exemplar is the finding's id in /api/v1/findings.")
	undated    = counter("findings_without_delay_total", "Findings whose fact is not known to have arrived: those that time brings about, or of facts long ago.")
	reserved   = counter("pages_reserved_total", "Pages handed out, by who holds them: requests (live) or the prefix cache alone (cached).", ofEngine, ofHolder)
	targeted   = counter("handoff_pages_reserved_total", "Pages that a receiver named as the targets of transfers.", ofEngine)
	claimed    = counter("pages_written_claimed_total", "Pages that the engine says were written, and by what.", ofEngine, ofBy)
	observed   = counter("pages_written_observed_total", "Pages that were seen to be written from outside the engines.")
	pagesRead  = counter("pages_read_total", "Pages that the engine says its attention read.", ofEngine)
	cacheRefs  = counter("pages_cached_total", "Pages that entered the prefix cache.", ofEngine)
	shared     = counter("pages_shared_total", "References of requests on pages of the prefix cache.", ofEngine)
	released   = counter("pages_released_total", "References on pages that ended, of requests (live) and of the prefix cache (cached).", ofEngine, ofHolder)
	poolSize   = gauge("pool_size_pages", "Pages of the engine's pools of a kind.", ofEngine, ofPool)
	poolPages  = gauge("pool_pages", "The engine's own count of its pages, when it told it last.", ofEngine, ofPool, ofState)
	poolTokens = gauge("pool_capacity_tokens", "Tokens that requests can have of the pool, as the engine's endpoints say.", ofEngine)
	contexts   = gauge("context_tokens", "The context as declared (server_info, metrics) and as served (models).", ofEngine, ofContext)
	protection = gauge("protection_state", "1 for the state that a protection is in. Only ran counts as one.", ofEngine, ofProtects, ofProtState)

	seen      = counter("facts_seen_total", "Facts that came, or are known to be missing.", ofEngine)
	handled   = counter("facts_handled_total", "Facts that reached the judge, or came twice.", ofEngine)
	lost      = counter("facts_lost_total", "Facts that did not reach the judge: facts seen = handled + lost + those that wait.", ofEngine, ofStage, ofReason)
	judged    = counter("ledger_facts_total", "Facts that reached the judge, by what became of them.", ofOutcome)
	forgotten = counter("ledger_forgotten_total", "What the judge forgot at a limit; the requests concerned are unwitnessed.", ofThing)
	missing   = counter("ledger_missing_total", "Sequence numbers that never came.")
	unusable  = counter("ledger_unusable_total", "Facts that name pools or pages that are not, or bytes outside every region.")

	age      = gauge("last_fact_age_seconds", "Time since the engine's last fact came. An engine that is well says something each second.", ofEngine)
	coverage = gauge("source_coverage", "1 where a source sees all that it can of the engine now, else 0.", ofEngine, ofSource)
	standing = gauge("stream_standing", "1 for how the engine's stream stands.", ofEngine, ofStanding)
	events   = counter("stream_events_total", "What happened to the engine's stream.", ofEngine, ofEvent)
	polls    = counter("polls_total", "Questions to the engine's HTTP endpoints.", ofEngine, ofEndpoint, ofResult)
	expected = gauge("fact_delay_expected_seconds", "The delay with which facts of the engine came of late, and are waited for.", ofEngine)
	heldBack = counter("held_back_seconds_total", "Time for which the engine, catching up, held back the judgement of the others.", ofEngine)

	kvEvents  = counter("kv_events_total", "KV events of SGLang or vLLM that came, by what they are.", ofEngine, ofKVEvent)
	kvBatches = counter("kv_event_batches_total", "Batches of KV events, by what became of them; missed ones could not be had any more.", ofEngine, ofKVFate)
	crossings = counter("kv_event_crossings_total", "Blocks stored under one salt that were used under another.", ofEngine)
	logLines  = counter("log_lines_total", "Lines of the engine's log, by what they are. other are those that say nothing here; unread those that could not be read, or that journald dropped.", ofEngine, ofLine)

	fullness = gauge("fullness_ratio", "How full a bounded thing is, from 0 to 1.", ofThing)
	queues   = gauge("queue_fullness_ratio", "How full a queue of the engine's facts is, from 0 to 1.", ofEngine, ofQueue)
	dropped  = counter("output_dropped_total", "Lines and recorded facts that were dropped because their reader or disk was too slow.", ofSink)

	open         = gauge("disclosures_open", "Incidents of a critical kind that nobody has closed.", ofCritical)
	pushes       = counter("alert_pushes_total", "Pushes to Alertmanagers.", ofResult)
	evidenceLost = counter("evidence_lost_total", "What did not become evidence: facts that came too fast to be remembered, incidents that were too many, entries that did not reach the disk.", ofWhat)
	profiles     = counter("profile_uploads_total", "Profiles of this process that were sent to Pyroscope, or were not.", ofUpload)
	setAside     = gauge("evidence_set_aside", "1 if the evidence on disk was damaged when it was opened, and was set aside.")

	shadow   = gauge("shadow", "1 while everything is reported and nothing wakes anybody.")
	reloadOK = gauge("config_last_reload_success", "1 if the configuration was read well when it was read last.")
	reloadAt = gauge("config_last_reload_timestamp_seconds", "When the configuration was read last.")
	watching = gauge("engines_live", "Engines whose stream is live.")
	told     = gauge("engines_configured", "Engines that are configured.")
)
