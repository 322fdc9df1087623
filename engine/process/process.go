// Package process puts an engine process together: the worker, its end of the
// control plane, and the API on a listener. cmd/kvengine runs one; tests run
// several in one process, over the same sockets.
//
// It imports the engine's packages. It promises that what Start opened is closed
// by Stop or Close, and that a graceful stop answers everything that was let in.
package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/kvwitness/kvwitness/engine/api"
	"github.com/kvwitness/kvwitness/engine/control"
	"github.com/kvwitness/kvwitness/engine/lifecycle/publish"
	"github.com/kvwitness/kvwitness/engine/profile"
	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/engine/transfer/verbs"
	"github.com/kvwitness/kvwitness/engine/worker"
)

// witnessTimeout bounds what is still told at the end.
const witnessTimeout = 5 * time.Second

// Config of a process. Ports of 0 are the system's to choose.
type Config struct {
	Worker        worker.Config // Link, Instance and Witness are filled in
	Host          string
	Port          int // of the API
	ControlPort   int
	BootstrapPort int      // prefill
	BootstrapAt   string   // where rank 0 serves bootstrap (prefill ranks beyond it)
	Prefills      []string // bootstrap addresses (decode)
	Keys          *api.Keys
	Model         string
	// Transfer is how pages move from prefill to decode. Both must use the same.
	Transfer Transfer
	// Witness makes the one that hears of the lifecycle, given the instance's name
	// and the endpoint to say in server_info; nil: nobody does.
	Witness func(instance string) (Witness, error)
	// Profiles are those of this process; nil: none are taken.
	Profiles *profile.Profiler
	Log      *slog.Logger
}

// Witness hears of the lifecycle of requests and pages.
type Witness struct {
	*publish.Teller
	// Endpoint of its stream, to be said in server_info; empty: none.
	Endpoint string
	// Close ends it, after everything has been told.
	Close func(context.Context) error
}

// Process is a running engine with its listeners.
type Process struct {
	Worker *worker.Worker
	// Bootstrap is where a prefill's peers find it; Control is its control address.
	Bootstrap, Control string
	// Peers is to how many others a connection stands; nil in a unified engine.
	Peers func() int

	api  *api.Server
	web  *http.Server
	url  string
	done chan struct{}

	witness Witness
	device  verbs.Device // nil: bytes go over TCP
}

// Start opens everything and serves.
func Start(ctx context.Context, c Config) (*Process, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(c.Host, strconv.Itoa(c.Port)))
	if err != nil {
		return nil, fmt.Errorf("listen for requests: %w", err)
	}
	p := &Process{url: "http://" + l.Addr().String(), done: make(chan struct{})}
	a := api.Config{Keys: c.Keys, Model: c.Model, Profiles: c.Profiles, Log: c.Log}
	if err := p.open(ctx, c, &a, l.Addr().(*net.TCPAddr).Port); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	a.Worker = p.Worker
	p.api = api.New(a)
	p.web = api.Web(p.api.Handler())
	go func() {
		defer close(p.done)
		_ = p.web.Serve(l)
	}()
	return p, nil
}

// URL of the API.
func (p *Process) URL() string { return p.url }

// open makes the worker and its end of the control plane.
func (p *Process) open(ctx context.Context, c Config, a *api.Config, port int) error {
	wc := c.Worker
	wc.Log = c.Log
	closing := p.closeDevice
	way, err := p.way(c)
	if err != nil {
		return err
	}
	switch wc.Role {
	case scheduler.Unified:
		p.Control = net.JoinHostPort(c.Host, strconv.Itoa(port))
	case scheduler.Prefill:
		end, err := control.BindPrefill(ctx, control.PrefillConfig{
			Host: c.Host, Port: c.ControlPort, BootstrapPort: c.BootstrapPort, BootstrapAt: c.BootstrapAt, HTTPPort: port, Transfer: way, Log: c.Log,
		})
		if err != nil {
			return errors.Join(err, closing())
		}
		p.Control, p.Bootstrap, p.Peers = end.Address(), end.Bootstrap(), end.Connected
		wc.Link, closing = end.Start, func() error { return errors.Join(end.Close(), p.closeDevice()) }
		a.Bootstrap = p.Bootstrap
		_, text, _ := net.SplitHostPort(p.Bootstrap)
		a.BootstrapPort, _ = strconv.Atoi(text)
	case scheduler.Decode:
		end, err := control.BindDecode(ctx, control.DecodeConfig{Host: c.Host, Port: c.ControlPort, Prefills: c.Prefills, Transfer: way, Log: c.Log})
		if err != nil {
			return errors.Join(err, closing())
		}
		p.Control, p.Peers = end.Address(), end.Connected
		wc.Link, closing = end.Start, func() error { return errors.Join(end.Close(), p.closeDevice()) }
		a.Peers, a.Prefills = end.Peers, end.Prefills
	}
	a.Control, wc.Instance = p.Control, p.Control
	if c.Witness != nil {
		if p.witness, err = c.Witness(wc.Instance); err != nil {
			return errors.Join(err, closing())
		}
		wc.Witness, a.Events = p.witness.Teller, p.witness.Endpoint
	}
	if p.Worker, err = worker.New(wc); err != nil {
		return errors.Join(err, closing(), p.endWitness())
	}
	return nil
}

// endWitness tells what is queued and ends the stream.
func (p *Process) endWitness() error {
	if p.witness.Close == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), witnessTimeout)
	defer cancel()
	return p.witness.Close(ctx)
}

// Stop refuses new requests, answers those that are here until ctx ends, and
// closes.
func (p *Process) Stop(ctx context.Context) error {
	p.api.Stop()
	err := p.Worker.Drain(ctx)
	return errors.Join(err, p.web.Shutdown(ctx), p.Close())
}

// Close ends everything at once.
func (p *Process) Close() error {
	err := errors.Join(p.web.Close(), p.Worker.Close())
	<-p.done
	return errors.Join(err, p.closeDevice(), p.endWitness())
}
