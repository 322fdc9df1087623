package daemon

import (
	"fmt"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle/subscribe"
	"github.com/kvwitness/kvwitness/sidecar/alert"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/metrics"
	"github.com/kvwitness/kvwitness/sidecar/source/engineinfo"
	"github.com/kvwitness/kvwitness/sidecar/source/follow"
)

// State is what /api/v1/state says. Its size depends on the configuration alone.
type State struct {
	Node     string            `json:"node"`
	Shadow   bool              `json:"shadow"`
	Engines  []EngineState     `json:"engines"`
	Findings map[string]uint64 `json:"findings"`    // by kind
	Verdicts map[string]uint64 `json:"verdicts"`    // by verdict
	Judge    map[string]uint64 `json:"judge"`       // facts by what became of them
	Kept     map[string]int    `json:"kept"`        // what the judge remembers now
	Reload   string            `json:"last_reload"` // ok, failed
	Outside  *WitnessState     `json:"outside,omitempty"`
	Peers    *PeersState       `json:"peers,omitempty"`
	GPUs     *GPUsState        `json:"gpus,omitempty"`
	Evidence *EvidenceState    `json:"evidence,omitempty"`
	Alerts   []alert.Stats     `json:"alerts,omitempty"` // by Alertmanager, as configured
}

// EngineState is how one engine stands.
type EngineState struct {
	Name      string            `json:"name"`
	Instance  string            `json:"instance,omitzero"`
	Engine    string            `json:"engine,omitzero"`  // sglang, vllm, kvengine; as its endpoints say, like what follows
	Version   string            `json:"version,omitzero"` // of at most 64 characters
	Pool      int64             `json:"pool_tokens,omitzero"`
	Context   int64             `json:"context_tokens,omitzero"` // the longest that is declared or served
	State     string            `json:"state"`
	Epoch     uint64            `json:"epoch,omitzero"`
	Refused   string            `json:"refused,omitzero"` // why it is not followed
	Age       float64           `json:"last_fact_age_seconds,omitzero"`
	Delay     float64           `json:"fact_delay_expected_seconds,omitzero"`
	Seen      uint64            `json:"facts_seen"`
	Handled   uint64            `json:"facts_handled"`
	Waiting   int               `json:"facts_waiting"`
	Lost      map[string]uint64 `json:"facts_lost"` // by stage and reason, where there are some
	Gaps      uint64            `json:"gaps"`
	Restarts  uint64            `json:"restarts"`
	Snapshots uint64            `json:"snapshots"`
	Attached  *AttachedState    `json:"attached,omitempty"`
}

func (d *Daemon) statuses() []follow.Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]follow.Status, len(d.engines))
	for i, e := range d.engines {
		all[i] = e.Status()
	}
	return all
}

// reading is what the metrics show.
func (d *Daemon) reading() metrics.Reading {
	r := metrics.Reading{
		Now: now(), Engines: d.statuses(), Beside: d.beside(), Judged: d.judge.read(), Dropped: d.report.Dropped(), Waiting: d.report.Waiting(),
		Shadow: d.shadow.Load(),
	}
	if d.record != nil {
		r.Record = d.record.Stats()
	}
	d.kept(&r)
	if d.view != nil {
		r.Covered, r.Copies = d.view.covered(), d.view.copying()
	}
	d.peers.reading(&r)
	d.gpus.reading(&r)
	d.mu.Lock()
	defer d.mu.Unlock()
	r.Limits, r.ReloadOK, r.ReloadAt = d.cfg.Judge.Limits, d.reloadOK, d.reloadAt
	return r
}

// sees reports whether the stream of any engine is live, or an engine without one
// answers, and which do not.
func (d *Daemon) sees() (ok bool, not []string) {
	for _, s := range d.statuses() {
		switch {
		case s.State == subscribe.Live, s.Poll.Fresh && d.isStreamless(s.Name):
			ok = true
		case s.Refused != "":
			not = append(not, fmt.Sprintf("%s: %s", s.Name, s.Refused))
		default:
			not = append(not, fmt.Sprintf("%s: %s", s.Name, s.State))
		}
	}
	if why := d.gpus.missing(); why != "" {
		ok, not = false, append(not, why)
	}
	return ok, not
}

func (d *Daemon) state() State {
	j := d.judge.read()
	s := State{
		Node: d.node, Shadow: d.shadow.Load(), Engines: []EngineState{}, Reload: "ok",
		Judge: map[string]uint64{
			"seen": j.Stats.Seen, "applied": j.Stats.Applied, "duplicate": j.Stats.Duplicates, "late": j.Stats.Late,
			"outdated": j.Stats.Outdated, "unjudged": j.Stats.Unjudged, "missing": j.Stats.Missing,
		},
		Kept: map[string]int{
			"instances": j.Sizes.Instances, "pools": j.Sizes.Pools, "pages": j.Sizes.Pages, "requests": j.Sizes.Requests,
			"ended": j.Sizes.Ended, "activity": j.Sizes.Activity, "fragments": j.Sizes.Fragments, "strays": j.Sizes.Strays, "window": j.Sizes.Window,
			"pending_reads": j.Sizes.Pending,
		},
		Findings: map[string]uint64{}, Verdicts: map[string]uint64{},
		Evidence: d.evidenceState(), Alerts: d.pusher.Stats(),
	}
	for k := range finding.NumKind {
		s.Findings[k.String()] = j.Findings[k][0] + j.Findings[k][1]
	}
	for o := range finding.NumOutcome {
		s.Verdicts[o.String()] = j.Verdicts[o][0] + j.Verdicts[o][1]
	}
	if d.view != nil {
		seen := d.view.state()
		s.Outside = &seen
	}
	s.Peers, s.GPUs = d.peers.state(), d.gpus.state()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.engines {
		st := e.Status()
		one := stateOf(&st)
		one.Attached = e.attached.state()
		s.Engines = append(s.Engines, one)
	}
	if !d.reloadOK {
		s.Reload = "failed"
	}
	return s
}

func stateOf(st *follow.Status) EngineState {
	e := EngineState{
		Name: st.Name, Instance: st.Instance, State: st.State.String(), Epoch: st.Epoch, Refused: st.Refused,
		Delay: time.Duration(st.Queue.Delay).Seconds(), Seen: st.Seen, Handled: st.Handled, Waiting: st.Queue.Waiting,
		Lost: map[string]uint64{}, Gaps: st.Gaps, Restarts: st.Restarts, Snapshots: st.Snapshots,
	}
	if p := &st.Poll; p.Kind != engineinfo.UnknownKind {
		e.Engine, e.Version, e.Pool, e.Context = p.Kind.String(), p.Version, p.Pool.Or(0), p.Longest().Or(0)
	}
	if st.Queue.LastPut != 0 {
		e.Age = time.Duration(now() - st.Queue.LastPut).Seconds()
	}
	for l := range follow.NumLoss {
		if n := st.Lost[l]; n > 0 {
			e.Lost[l.Stage()+": "+l.Reason()] = n
		}
	}
	return e
}
