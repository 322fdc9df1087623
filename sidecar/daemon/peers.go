package daemon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/subscribe"
	"github.com/kvwitness/kvwitness/sidecar/config"
	"github.com/kvwitness/kvwitness/sidecar/credentials"
	"github.com/kvwitness/kvwitness/sidecar/metrics"
	"github.com/kvwitness/kvwitness/sidecar/peer"
)

// peers are the sidecars of other nodes: who serves them what this node knows, and who
// takes in what they do. Both may be nil.
type peers struct {
	server *peer.Server
	links  []*peer.Link

	wake chan struct{} // the own instances are others than before

	mu     sync.Mutex
	theirs map[string]string // instances to the peer that follows them, for good
	nodes  map[string]string // names of nodes to the peer that has them, for good
}

func newPeers() *peers {
	return &peers{wake: make(chan struct{}, 1), theirs: map[string]string{}, nodes: map[string]string{}}
}

// secretOf is what peers are known by.
func secretOf(d *Daemon, p *config.Peers) (s peer.Secret, err error) {
	if s.Token, err = readToken(p.TokenFile); err != nil {
		return s, err
	}
	files := credentials.Files{Cert: p.CertFile, Key: p.KeyFile, CA: p.CAFile}
	if files == (credentials.Files{}) {
		return s, nil
	}
	s.Certificates, err = peer.NewCredentials(files, d.log)
	return s, err
}

// meet opens what peers need. Nobody is dialled yet.
func (d *Daemon) meet(ctx context.Context, s *config.Sidecar) error {
	p := &s.Peers
	if p.Listen == "" && len(p.All) == 0 {
		return nil
	}
	secret, err := secretOf(d, p)
	if err != nil {
		return err
	}
	for _, other := range p.All {
		l, err := peer.NewLink(peer.LinkConfig{
			Name: other.Name, Address: other.Address, Node: d.node, Secret: secret, Now: now, In: d.in, Patience: p.Patience, Pages: s.EnginePages,
			Own: d.instances, Meet: func(node string) bool { return d.peers.meet(node, other.Name) }, Claim: func(inst string) bool { return d.yield(inst, other.Name) }, Sees: d.seesItself, Log: d.log,
		})
		if err != nil {
			return fmt.Errorf("peer %s: %w", other.Name, err)
		}
		d.peers.links = append(d.peers.links, l)
	}
	if p.Listen == "" {
		return nil
	}
	d.peers.server, err = peer.Listen(ctx, peer.ServerConfig{
		Node: d.node, Address: p.Listen, Secret: secret, Now: now, Own: d.instances, Stream: d.stream, Log: d.log,
	})
	return err
}

// run dials the peers until ctx ends.
func (p *peers) run(ctx context.Context) {
	var all sync.WaitGroup
	for _, l := range p.links {
		all.Go(func() { l.Run(ctx) })
	}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-p.wake:
			for _, l := range p.links {
				l.Changed()
			}
			if p.server != nil {
				p.server.Changed()
			}
		}
	}
	all.Wait()
}

// close gives up what is open.
func (p *peers) close() error {
	for _, l := range p.links {
		l.Close()
	}
	if p.server == nil {
		return nil
	}
	return p.server.Close()
}

// changed tells that there are other own instances than before; it waits for nobody.
func (p *peers) changed() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// instances are those of this node's engines.
func (d *Daemon) instances() []string {
	d.claims.Lock()
	defer d.claims.Unlock()
	return slices.Sorted(maps.Keys(d.claimed))
}

// stream is how an own instance's stream is subscribed to.
func (d *Daemon) stream(inst string) (subscribe.Config, bool) {
	d.claims.Lock()
	defer d.claims.Unlock()
	c, there := d.claimed[inst]
	return c.stream, there
}

// yield reports whether an instance may be a peer's: it is none of this node's, nor
// another peer's.
func (d *Daemon) yield(inst, name string) bool {
	d.claims.Lock()
	defer d.claims.Unlock()
	_, own := d.claimed[inst]
	own = own || slices.ContainsFunc(d.named, func(e config.Engine) bool { return e.Instance == inst })
	return !own && d.peers.take(inst, name)
}

// take notes whose an instance is: the first peer's that calls it its own.
func (p *peers) take(inst, name string) bool { return p.first(p.theirs, inst, name) }

// meet notes which node a peer is.
func (p *peers) meet(node, name string) bool { return p.first(p.nodes, node, name) }

// maxNames bounds what peers may call their own in all.
const maxNames = 1 << 13

func (p *peers) first(names map[string]string, what, name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	by, taken := names[what]
	if !taken && len(names) < maxNames {
		names[what], by = name, name
	}
	return by == name
}

// may reports whether an instance is a peer's, or may be yet.
func (p *peers) may(inst string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, taken := p.theirs[inst]
	return taken || slices.ContainsFunc(p.links, func(l *peer.Link) bool { return !l.Met() })
}

// anothers reports whether an instance is judged on its own node: what is found of
// it, and its verdicts, are said there.
func (d *Daemon) anothers(inst string) bool {
	if len(d.peers.links) == 0 {
		return false
	}
	d.claims.Lock()
	defer d.claims.Unlock()
	if _, own := d.claimed[inst]; own {
		return false
	}
	d.peers.mu.Lock()
	defer d.peers.mu.Unlock()
	_, taken := d.peers.theirs[inst]
	return taken
}

// seesItself reports whether the node's own probe says how its sight of a path is.
func (d *Daemon) seesItself(of lifecycle.Src, into, from string) bool {
	return d.view != nil && d.view.declares(path{into: into, from: from, over: of})
}

// declares reports whether the probe has said anything of its sight of a path.
func (w *witness) declares(p path) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, known := w.paths[p]
	return known
}

// saw hands on to the peers what the probe saw; reached says how far it has come, 0:
// there is none.
func (p *peers) saw(f *lifecycle.Fact) {
	if p.server != nil {
		p.server.Saw(f)
	}
}

func (p *peers) reached(t int64) {
	if p.server != nil {
		p.server.Reached(t)
	}
}

// reading is how the peers stand, for the metrics.
func (p *peers) reading(r *metrics.Reading) {
	for _, l := range p.links {
		r.Peers = append(r.Peers, l.Status())
	}
	if p.server != nil {
		r.Serving, r.Served = true, p.server.Served()
	}
}

// PeersState is how the sidecars of other nodes stand.
type PeersState struct {
	Links  []PeerState       `json:"links"`
	Serves int               `json:"serves"` // connections
	Turned map[string]uint64 `json:"turned_away"`
}

// PeerState is how one of them stands.
type PeerState struct {
	Name      string            `json:"name"`
	Node      string            `json:"node,omitzero"`
	Connected bool              `json:"connected"`
	Problem   string            `json:"problem,omitzero"`
	Following int               `json:"instances"`
	Offset    float64           `json:"clock_offset_seconds,omitzero"`
	Error     float64           `json:"clock_error_seconds,omitzero"`
	Received  uint64            `json:"facts_received"`
	Taken     uint64            `json:"facts_taken"`
	Waiting   int               `json:"facts_waiting"`
	Ends      map[string]uint64 `json:"ends"` // of connections, by reason, where there were some
}

func (p *peers) state() *PeersState {
	if len(p.links) == 0 && p.server == nil {
		return nil
	}
	s := &PeersState{Links: []PeerState{}, Turned: map[string]uint64{}}
	for _, l := range p.links {
		st := l.Status()
		one := PeerState{
			Name: st.Name, Node: st.Node, Connected: st.Connected, Problem: st.Problem, Following: st.Following,
			Received: st.Received, Taken: st.Taken, Waiting: st.Waiting, Ends: map[string]uint64{},
		}
		if st.Known {
			one.Offset, one.Error = st.Clock.Offset.Seconds(), st.Clock.Error.Seconds()
		}
		for e, n := range st.Ends {
			if n > 0 {
				one.Ends[peer.End(e).String()] = n
			}
		}
		s.Links = append(s.Links, one)
	}
	if p.server != nil {
		served := p.server.Served()
		s.Serves = served.Connected
		for t, n := range served.Turned {
			if n > 0 {
				s.Turned[peer.Turned(t).String()] = n
			}
		}
	}
	return s
}

// part waits until nobody is dialled any more, at most until end.
func part(done <-chan struct{}, end <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-end:
		return fmt.Errorf("end: the peers did not come to an end within %s", EndTimeout.Round(time.Second))
	}
}
