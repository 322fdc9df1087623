package daemon

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/kvwitness/kvwitness/engine/profile"
	"github.com/kvwitness/kvwitness/sidecar/alert"
	"github.com/kvwitness/kvwitness/sidecar/config"
	"github.com/kvwitness/kvwitness/sidecar/credentials"
	"github.com/kvwitness/kvwitness/sidecar/evidence"
	"github.com/kvwitness/kvwitness/sidecar/metrics"
	"github.com/kvwitness/kvwitness/sidecar/web"
)

// keep begins what is made of findings beside the judge: evidence, alerts and what
// pages show. version is that of this program.
func (d *Daemon) keep(s *config.Sidecar, version string) error {
	var err error
	if d.prof, err = profile.Start(profile.Config{URL: s.Profiles, TokenFile: s.ProfilesToken, Role: "sidecar", Node: d.node}); err != nil {
		return err
	}
	pusher, err := pusherOf(&s.Alerts, d.node)
	if err != nil {
		return err
	}
	d.pusher, d.flow = pusher, web.NewFlow()
	var gather *evidence.Gatherer
	if s.Evidence.Dir != "" {
		age := time.Duration(s.Evidence.Days) * 24 * time.Hour
		if d.store, err = evidence.Open(evidence.Config{Dir: s.Evidence.Dir, Bytes: s.Evidence.Bytes, Age: age}); err != nil {
			pusher.Close()
			return err
		}
		if at := d.store.Stats().Aside; at != "" {
			d.log.Error("the evidence was damaged; it is set aside, whole, and a new store is begun", "aside", at)
		}
		head := header(d.node)
		gather = evidence.NewGatherer(evidence.GatherConfig{
			Store: d.store, Memory: s.Evidence.Memory, Node: d.node, Boot: head.Boot, Zero: head.Wall, Version: version,
			State: d.stateJSON, Told: func(i *evidence.Incident, _ bool) { d.pusher.Raise(alertOf(i)) }, Log: d.log,
		})
		d.gather = gather
		d.reopen()
	}
	d.aside = newAside(gather, d.flow, d.pusher)
	return nil
}

// pusherOf tells the Alertmanagers of the configuration.
func pusherOf(a *config.Alerts, node string) (*alert.Pusher, error) {
	token, err := readToken(a.TokenFile)
	if err != nil {
		return nil, err
	}
	labels := map[string]string{"node": node}
	maps.Copy(labels, a.Labels)
	cfg := alert.Config{URLs: a.Managers, Token: token, Labels: labels, Pages: a.PageURL}
	if cfg.TLS, err = credentials.Trust(a.CAFile); err != nil {
		return nil, err
	}
	return alert.New(cfg)
}

func alertOf(i *evidence.Incident) alert.Incident {
	return alert.Incident{ID: i.ID, Kinds: slices.Clone(i.Kinds), Name: i.Name, Inst: i.Inst, Head: i.Head, First: i.First}
}

// reopen makes the open alerts those of the disclosures that are open on disk.
func (d *Daemon) reopen() {
	var open []alert.Incident
	for _, i := range slices.Backward(d.store.List()) { // the newest last, which is named first
		if i.Open {
			open = append(open, alertOf(&i))
		}
	}
	d.pusher.Reopen(open)
}

// letGo ends what keep began.
func (d *Daemon) letGo() error {
	d.prof.Close(closeTimeout)
	if d.aside == nil {
		return nil
	}
	d.aside.close()
	d.pusher.Close()
	if d.store == nil {
		return nil
	}
	if err := d.store.Close(); err != nil {
		return errors.Join(errors.New("close the evidence"), err)
	}
	return nil
}

// stateJSON is the state as the API and the evidence have it.
func (d *Daemon) stateJSON() jsontext.Value {
	text, err := json.Marshal(d.state(), json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil { // it holds nothing that JSON does not have
		return jsontext.Value("{}")
	}
	return text
}

// kept is how evidence and alerts stand, for the metrics.
func (d *Daemon) kept(r *metrics.Reading) {
	r.Open, r.Profiles = d.pusher.Open(), d.prof.Stats()
	for _, s := range d.pusher.Stats() {
		r.Pushed[0] += s.Sent
		r.Pushed[1] += s.Failed
	}
	if d.gather != nil {
		r.Evidence, r.SetAside = d.gather.Stats(), d.store.Stats().Aside != ""
	}
}

// EvidenceState is how the evidence stands.
type EvidenceState struct {
	Incidents int    `json:"incidents"`
	Open      int    `json:"open"` // disclosures that nobody has closed
	Bytes     int    `json:"bytes"`
	Head      string `json:"head"`
	Failures  uint64 `json:"write_failures"`
	Damaged   uint64 `json:"damaged_reads"`
	Aside     string `json:"set_aside,omitzero"`
	Skipped   uint64 `json:"incidents_not_recorded"`
	Lost      uint64 `json:"entries_lost"`
	Unkept    uint64 `json:"facts_not_remembered"`
}

func (d *Daemon) evidenceState() *EvidenceState {
	if d.store == nil {
		return nil
	}
	s, g := d.store.Stats(), d.gather.Stats()
	return &EvidenceState{s.Incidents, s.Open, s.Bytes, d.store.Head(), s.Failures, s.Damaged, s.Aside, g.Skipped, g.Lost, g.Unkept}
}
