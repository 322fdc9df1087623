package alert

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// Bounds of what is told.
const (
	// MaxManagers is how many Alertmanagers are told.
	MaxManagers = 8
	// MaxNamed is how many incidents an alert names, the latest first.
	MaxNamed = 10
	// Lasts is how long an alert lasts that is told no more.
	Lasts = 15 * time.Minute
	// MaxPause is the longest pause after failures.
	MaxPause = 30 * time.Second

	firstPause = 250 * time.Millisecond
	again      = time.Minute // how often what goes on is told
	collect    = 60 * time.Millisecond
	apart      = 5 * time.Second // between two changes that are told
	timeout    = 5 * time.Second
)

// Config says whom to tell, and what is known of this place.
type Config struct {
	URLs   []string          // of Alertmanagers, at most MaxManagers
	Token  string            // to show to them; empty: none
	TLS    *tls.Config       // nil: that of the system
	Labels map[string]string // cluster, model, node and what else the rule's target has
	Pages  string            // where this sidecar's pages are found by people, without a slash at the end
}

// Incident is what an alert says of one.
type Incident struct {
	ID    string // empty: there is no evidence of it
	Kinds []finding.Kind
	Name  string
	Inst  string
	Head  string // of the chain of evidence; empty until it is on the disk
	First time.Time
}

// Pusher tells of open disclosures. Its methods may be called from any goroutine.
type Pusher struct {
	cfg  Config
	stop context.CancelFunc
	done sync.WaitGroup

	mu       sync.Mutex
	open     [finding.NumKind]*disclosure
	wakes    []chan struct{}
	managers []*manager
}

// disclosure is the alert of one kind.
type disclosure struct {
	begun  time.Time
	count  int
	latest []Incident // the last one first
}

// manager is how the pushes to one Alertmanager go.
type manager struct {
	url          string
	client       *http.Client
	sent, failed atomic.Uint64
	lastOK       atomic.Int64 // unix time, ns
	mu           sync.Mutex
	problem      string
	lastTold     time.Time // of its goroutine
}

// New tells until Close. There may be no Alertmanager.
func New(cfg Config) (*Pusher, error) {
	if len(cfg.URLs) > MaxManagers {
		return nil, fmt.Errorf("%d Alertmanagers, at most %d", len(cfg.URLs), MaxManagers)
	}
	ctx, stop := context.WithCancel(context.Background())
	p := &Pusher{cfg: cfg, stop: stop}
	for _, at := range cfg.URLs {
		u, err := url.Parse(at)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			stop()
			return nil, fmt.Errorf("tell Alertmanager: %.200q is not an http address", at)
		}
		m := &manager{url: strings.TrimRight(at, "/") + "/api/v2/alerts", client: client(cfg.TLS)}
		wake := make(chan struct{}, 1)
		p.managers, p.wakes = append(p.managers, m), append(p.wakes, wake)
		p.done.Go(func() { p.tell(ctx, m, wake) })
	}
	return p, nil
}

func client(config *tls.Config) *http.Client {
	return &http.Client{
		Timeout:       timeout,
		Transport:     &http.Transport{TLSClientConfig: config, MaxIdleConns: 1, IdleConnTimeout: 2 * time.Minute, ForceAttemptHTTP2: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("it sends on to elsewhere") },
	}
}

// At says where this sidecar's pages are found, where the configuration does not.
func (p *Pusher) At(pages string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cfg.Pages = pages
}

// Raise tells of an incident that may wake somebody, or that more is known of it.
func (p *Pusher) Raise(i Incident) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed := false
	for _, k := range i.Kinds {
		if k < finding.NumKind && Pages(k) {
			changed = p.raise(k, i) || changed
		}
	}
	if changed {
		p.wake()
	}
}

// raise is Raise for one kind; it reports whether that is news.
func (p *Pusher) raise(k finding.Kind, i Incident) bool {
	d := p.open[k]
	if d == nil {
		d = &disclosure{begun: i.First}
		p.open[k] = d
	}
	if i.First.Before(d.begun) {
		d.begun = i.First
	}
	at := slices.IndexFunc(d.latest, func(o Incident) bool { return o.ID == i.ID && o.Name == i.Name })
	if at >= 0 {
		if i.Head == "" || d.latest[at].Head == i.Head {
			return false
		}
		d.latest[at].Head = i.Head
		return true
	}
	d.count++
	d.latest = slices.Insert(d.latest, 0, i)
	d.latest = d.latest[:min(len(d.latest), MaxNamed)]
	return true
}

// Reopen makes the open alerts those of the disclosures that are open: at the start,
// and when one was closed.
func (p *Pusher) Reopen(all []Incident) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = [finding.NumKind]*disclosure{}
	for _, i := range all {
		for _, k := range i.Kinds {
			if k < finding.NumKind && Pages(k) {
				p.raise(k, i)
			}
		}
	}
	p.wake()
}

// Open is how many disclosures of each kind are open.
func (p *Pusher) Open() (n [finding.NumKind]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k, d := range p.open {
		if d != nil {
			n[k] = d.count
		}
	}
	return n
}

// wake is called with p.mu held.
func (p *Pusher) wake() {
	for _, w := range p.wakes {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}

// Stats is how the pushes to one Alertmanager go.
type Stats struct {
	Sent    uint64    `json:"sent"`
	Failed  uint64    `json:"failed"`
	LastOK  time.Time `json:"last_ok,omitzero"`
	Problem string    `json:"problem,omitzero"` // the last one, until a push succeeds
}

// Stats is about each Alertmanager, in the order of the configuration.
func (p *Pusher) Stats() (all []Stats) {
	for _, m := range p.managers {
		s := Stats{Sent: m.sent.Load(), Failed: m.failed.Load()}
		if at := m.lastOK.Load(); at != 0 {
			s.LastOK = time.Unix(0, at).UTC()
		}
		m.mu.Lock()
		s.Problem = m.problem
		m.mu.Unlock()
		all = append(all, s)
	}
	return all
}

// Close ends the telling; what is open ends by itself after Lasts.
func (p *Pusher) Close() {
	p.stop()
	p.done.Wait()
}

// snapshot is what is told now.
func (p *Pusher) snapshot(now time.Time) (all []posted) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k, d := range p.open {
		if d != nil {
			all = append(all, p.posted(finding.Kind(k), d, now))
		}
	}
	return all
}

// posted is an alert as Alertmanager's v2 API has it.
type posted struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    string            `json:"startsAt"`
	EndsAt      string            `json:"endsAt"`
	URL         string            `json:"generatorURL,omitzero"`
}

func (p *Pusher) posted(k finding.Kind, d *disclosure, now time.Time) posted {
	labels := maps.Clone(p.cfg.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels["alertname"], labels["severity"], labels["team"], labels["kind"] = Name(k), Page, Team, k.String()
	e, last := finding.Explain(k), d.latest[0]
	notes := map[string]string{
		"summary":     fmt.Sprintf("%s on %s: %s", k, labels["node"], e.Rule),
		"description": e.Meaning + " " + e.Matters,
		"runbook_url": Runbooks + Name(k) + ".md",
		"counts":      fmt.Sprintf("%d incidents that nobody has closed; the last: %s on %s", d.count, last.Name, last.Inst),
		"dashboard":   "/d/kvwitness-ownership?" + url.Values{"var-cluster": {labels["cluster"]}, "var-model": {labels["model"]}, "var-node": {labels["node"]}}.Encode(),
		"next":        "on the node: kvwitness findings list",
	}
	page := p.cfg.Pages + "/"
	if last.ID != "" {
		page = p.cfg.Pages + "/incident/" + last.ID
		notes["incidents"] = d.ids()
		notes["next"] = "on the node: kvwitness findings show " + last.ID
	}
	if last.Head != "" {
		notes["evidence_head"] = last.Head
	}
	notes["evidence"] = page
	return posted{labels, notes, d.begun.UTC().Format(time.RFC3339Nano), now.Add(Lasts).UTC().Format(time.RFC3339Nano), page}
}

func (d *disclosure) ids() string {
	var all []string
	for _, i := range d.latest {
		if i.ID != "" {
			all = append(all, i.ID)
		}
	}
	return strings.Join(all, " ")
}
