package gather

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/canary"
	"github.com/kvwitness/kvwitness/sidecar/gate"
	"github.com/kvwitness/kvwitness/sidecar/source/engineinfo"
)

// DefaultPatience is long enough for transfers that are given up.
const DefaultPatience = 30 * time.Second

var roles = map[string]engineinfo.Role{"": engineinfo.UnknownRole, "prefill": engineinfo.Prefill, "decode": engineinfo.Decode, "unified": engineinfo.Unified}

// Config says how to look.
type Config struct {
	Deployment Deployment
	// Traffic is sent, beyond loopback only where Live allows it.
	Traffic, Live bool
	Budget        int // tokens that traffic may cost
	// Preempt is how many requests are sent at once to have some preempted; 0: as many
	// as fill the smallest pool one and a half times, within maxPreempt.
	Preempt int
	Timeout time.Duration // of one answer to traffic
	// Patience is how long pages may take to be given back, and the sidecar to have
	// judged; 0: DefaultPatience.
	Patience time.Duration
	Rand     *rand.Rand
}

// looker makes one picture.
type looker struct {
	cfg     Config
	clients []*engineinfo.Client
	polls   []engineinfo.Poll
	tenants []canary.Tenant
	picture gate.Picture
}

// Look makes the picture. An error is one of the configuration: what does not answer
// is in the picture.
func Look(ctx context.Context, cfg Config) (*gate.Picture, error) {
	if err := cfg.Deployment.Check(); err != nil {
		return nil, err
	}
	if cfg.Patience <= 0 {
		cfg.Patience = DefaultPatience
	}
	l := &looker{cfg: cfg, picture: gate.Picture{Trials: map[gate.Trial]gate.Outcome{}}}
	if err := l.connect(); err != nil {
		return nil, err
	}
	l.ask(ctx)
	if !cfg.Traffic {
		return &l.picture, nil
	}
	target := cfg.Deployment.target()
	if target != "" && !local(target) && !cfg.Live {
		return nil, ErrLive
	}
	s, err := newSidecar(&cfg.Deployment)
	if err != nil {
		return nil, err
	}
	if s != nil {
		s.engines, s.patience = l.instances(), cfg.Patience
	}
	before := l.preemptions()
	if target != "" {
		if err := l.traffic(ctx, target, s); err != nil {
			return nil, err
		}
	}
	l.ask(ctx)
	if after := l.preemptions(); after.Has {
		l.picture.Preempted = lifecycle.Some(after.V - before.Or(0))
	}
	if s != nil {
		l.picture.Witness = s.witness(ctx)
	}
	return &l.picture, nil
}

func (l *looker) connect() error {
	d := &l.cfg.Deployment
	for i, path := range d.KeyFiles {
		key, err := engineinfo.ReadKey(path)
		if err != nil {
			return err
		}
		l.tenants = append(l.tenants, canary.Tenant{Name: fmt.Sprint("tenant-", i+1), Key: key})
	}
	for i := len(l.tenants); i < 2; i++ {
		t := canary.Tenant{Name: fmt.Sprint("tenant-", i+1)}
		if i > 0 {
			t.Key = l.tenants[0].Key
		}
		l.tenants = append(l.tenants, t)
	}
	for i := range l.tenants {
		l.tenants[i].Salt = "kvwitness-gate-" + l.tenants[i].Name
	}
	for i, e := range d.Engines {
		c, err := engineinfo.New(engineinfo.Config{URL: e.URL, Key: l.tenants[0].Key, CA: d.CAFile, Timeout: 10 * time.Second})
		if err != nil {
			return fmt.Errorf("engine %s: %w", e.URL, err)
		}
		l.clients = append(l.clients, c)
		name := e.Name
		if name == "" {
			name = fmt.Sprintf("%s-%d", e.Role, i)
			if e.Role == "" {
				name = fmt.Sprint("engine-", i)
			}
		}
		l.picture.Engines = append(l.picture.Engines, gate.Engine{Name: name, Role: roles[e.Role]})
	}
	l.polls = make([]engineinfo.Poll, len(l.clients))
	return nil
}

// ask asks every engine, side by side.
func (l *looker) ask(ctx context.Context) {
	var wg sync.WaitGroup
	for i, c := range l.clients {
		wg.Go(func() { l.polls[i] = c.Ask(ctx, l.polls[i]) })
	}
	wg.Wait()
	for i := range l.polls {
		e, p := &l.picture.Engines[i], &l.polls[i]
		e.Info, e.Held, e.Missing = p.Info, p.Held, nil
		if p.Kind == engineinfo.VLLM { // which needs no server_info
			p.Errors[engineinfo.ServerInfo] = nil
		}
		for _, err := range p.Errors {
			if err != nil {
				e.Missing = append(e.Missing, err.Error())
			}
		}
		if e.Role == engineinfo.UnknownRole {
			e.Role = p.Role
		}
	}
}

// preemptions are those that the engines have counted, over all of them.
func (l *looker) preemptions() (n lifecycle.Opt[int64]) {
	for i := range l.polls {
		if p := l.polls[i].Preempted; p.Has {
			n = lifecycle.Some(n.V + p.V)
		}
	}
	return n
}

// instances are who the engines say that they are; nil where one does not.
func (l *looker) instances() (all []string) {
	for i := range l.polls {
		if l.polls[i].Instance == "" {
			return nil
		}
		all = append(all, l.polls[i].Instance)
	}
	return all
}
