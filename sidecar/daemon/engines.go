package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle/subscribe"
	"github.com/kvwitness/kvwitness/sidecar/config"
	"github.com/kvwitness/kvwitness/sidecar/source/follow"
)

// engine is one that is followed.
type engine struct {
	config.Engine
	*follow.Follower
	attached *attached
	stop     func()
}

// claimed is an engine that is followed as an instance.
type claimed struct {
	name   string
	stream subscribe.Config
}

// follow makes the engines those of the configuration: what is the same goes on.
// d.mu is held.
func (d *Daemon) follow(ctx context.Context, want []config.Engine) {
	d.claims.Lock()
	d.named = want
	maps.DeleteFunc(d.silent, func(name string, _ bool) bool {
		return !slices.ContainsFunc(want, func(e config.Engine) bool { return e.Name == name })
	})
	d.claims.Unlock()
	var kept []*engine
	var gone []*engine
	for _, e := range d.engines {
		if slices.Contains(want, e.Engine) {
			kept = append(kept, e)
		} else {
			gone = append(gone, e)
		}
	}
	d.engines = kept
	for _, e := range gone { // side by side, so that the end is quick
		go e.stop()
	}
	for _, e := range gone {
		e.stop()
	}
	for _, w := range want {
		if !slices.ContainsFunc(kept, func(e *engine) bool { return e.Engine == w }) {
			d.begin(ctx, w)
		}
	}
}

func (d *Daemon) begin(ctx context.Context, e config.Engine) {
	s := &d.cfg.Sidecar
	f, err := follow.New(follow.Config{
		Name: e.Name, URL: e.URL, Instance: e.Instance, Events: e.Events, Replay: e.Replay,
		Node: d.node, Dir: s.EventsDir, Key: d.key, CA: s.EngineCAFile, Now: now, Poll: s.Poll, SnapshotBytes: s.SnapshotBytes, Pages: s.EnginePages, Log: d.log,
		Claim: func(s subscribe.Config) bool { return d.claim(s, e.Name) }, Release: func(instance string) { d.release(instance, e.Name) },
		Streamless: func() { d.streamless(e.Name) },
	}, d.in)
	if err != nil { // the configuration lets no such URL pass
		d.log.Error("an engine cannot be followed", "engine", e.Name, "error", err)
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() { f.Run(ctx) })
	a := d.attach(ctx, &e, &done)
	d.engines = append(d.engines, &engine{e, f, a, func() { cancel(); done.Wait() }})
}

// claim reports whether an engine may be followed as the instance of that stream: no
// other is, nor is configured to be.
func (d *Daemon) claim(stream subscribe.Config, name string) bool {
	d.claims.Lock()
	defer d.claims.Unlock()
	instance := stream.Instance
	if by, taken := d.claimed[instance]; taken && by.name != name {
		return false
	}
	if slices.ContainsFunc(d.named, func(e config.Engine) bool { return e.Instance == instance && e.Name != name }) {
		return false
	}
	d.claimed[instance] = claimed{name, stream}
	delete(d.silent, name)
	d.peers.changed()
	return true
}

// follows reports whether an instance's own stream is followed, or may be yet:
// as long as a configured engine has not said which instance it is, it may be any,
// and so it is with the engines of a peer that was never there.
func (d *Daemon) follows(instance string) bool {
	d.claims.Lock()
	defer d.claims.Unlock()
	_, taken := d.claimed[instance]
	return taken || len(d.claimed)+len(d.silent) < len(d.named) || d.peers.may(instance)
}

// streamless notes that an engine has no lifecycle stream: nobody waits to hear
// which instance it is, and what it says on the wire is news.
func (d *Daemon) streamless(name string) {
	d.claims.Lock()
	defer d.claims.Unlock()
	d.silent[name] = true
}

func (d *Daemon) isStreamless(name string) bool {
	d.claims.Lock()
	defer d.claims.Unlock()
	return d.silent[name]
}

func (d *Daemon) release(instance, name string) {
	d.claims.Lock()
	defer d.claims.Unlock()
	if d.claimed[instance].name == name {
		delete(d.claimed, instance)
		d.peers.changed()
	}
}

// changeable are the keys that take effect without a restart.
var changeable = []string{"engines", "shadow", "log.level"}

// ErrRestart is wrapped where a configuration changes what only a restart can.
var ErrRestart = errors.New("only a restart can change this")

// Reload reads the configuration and takes it over, whole or not at all.
func (d *Daemon) Reload(ctx context.Context) error {
	cfg, origin, err := d.load()
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		err = d.unchanged(cfg, origin)
	}
	d.reloadOK, d.reloadAt = err == nil, time.Now()
	if err != nil {
		d.log.Error("the configuration is not taken over; the old one stays in force", "error", err)
		return err
	}
	d.cfg, d.origin = cfg, origin
	d.level(cfg.Log.Level)
	d.shadow.Store(cfg.Sidecar.Shadow)
	d.follow(ctx, cfg.Sidecar.Engines)
	d.log.Info("the configuration is taken over", "engines", len(cfg.Sidecar.Engines), "shadow", cfg.Sidecar.Shadow)
	return nil
}

// unchanged refuses a configuration that differs in what only a restart can change.
func (d *Daemon) unchanged(cfg config.Config, origin config.Origin) error {
	var keys []string
	before := d.cfg.All(d.origin)
	for i, e := range cfg.All(origin) {
		if e.Value != before[i].Value && !slices.Contains(changeable, e.Key) {
			keys = append(keys, e.Key)
		}
	}
	if keys != nil {
		return fmt.Errorf("%w: %s", ErrRestart, strings.Join(keys, ", "))
	}
	return nil
}
