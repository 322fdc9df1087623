package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvwitness/kvwitness/engine/api"
	"github.com/kvwitness/kvwitness/engine/config"
	"github.com/kvwitness/kvwitness/engine/lifecycle/publish"
	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/engine/model/llama"
	"github.com/kvwitness/kvwitness/engine/process"
	"github.com/kvwitness/kvwitness/engine/profile"
	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/engine/worker"
)

func serveCommand() *cobra.Command {
	var s config.Serve
	table := s.Table()
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "serve a model, alone or as one half of a disaggregated pair",
		Long: `serve runs one engine process. A unified engine answers by itself; prefill and
decode are two processes that a router joins. The model is a small built-in one, which answers
with what followed the same text earlier, or that of a file (--model):

  kvengine serve --role prefill --port 30001 --bootstrap-port 8998
  kvengine serve --role decode --port 30002 --prefill 127.0.0.1:8998
  kvengine router --port 8000 --prefill http://127.0.0.1:30001 --decode http://127.0.0.1:30002`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(load(cmd, table), s.Check()); err != nil {
				return err
			}
			return serve(cmd.Context(), &s)
		},
	}
	table.Register(cmd.Flags())
	return cmd
}

// serve runs until ctx ends, and then stops gracefully.
func serve(ctx context.Context, s *config.Serve) error {
	s.Config.Log = logger(s.Log)
	if err := chooseBackend(ctx, s); err != nil {
		return err
	}
	s.Keys = api.NoKeys()
	if s.KeyFile != "" {
		var err error
		if s.Keys, err = api.LoadKeys(s.KeyFile); err != nil {
			return err
		}
	}
	if s.Events.On || s.Events.Record != "" {
		s.Witness = func(instance string) (process.Witness, error) { return witness(ctx, s.Events, instance) }
	}
	m, err := openModel(s)
	if err != nil {
		return err
	}
	if s.Config.Profiles, err = profiles(s); err != nil {
		return errors.Join(err, m.Close())
	}
	defer s.Config.Profiles.Close(profilesTimeout)
	p, err := process.Start(ctx, s.Config)
	if err != nil {
		return errors.Join(err, m.Close())
	}
	s.Config.Log.Info("serving", "role", s.Worker.Role.String(), "url", p.URL(), "instance", p.Control, "bootstrap", p.Bootstrap)
	if d := s.Worker.Drill; d != scheduler.NoDrill {
		s.Config.Log.Warn("a drill is on: this engine breaks its promises on purpose", "drill", d.String())
	}
	<-ctx.Done()
	s.Config.Log.Info("stopping")
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.StopTimeout)
	defer cancel()
	return errors.Join(p.Stop(stopCtx), m.Close())
}

// profilesTimeout bounds how long the last profiles may take.
const profilesTimeout = 2 * time.Second

// profiles begins to take profiles of this process, where it is told to.
func profiles(s *config.Serve) (*profile.Profiler, error) {
	node, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name this node in profiles: %w", err)
	}
	s.Profiles.Role, s.Profiles.Node = s.Worker.Role.String(), node
	return profile.Start(s.Profiles)
}

// openModel reads the model that is served and names it. It is closed after the
// process has ended.
func openModel(s *config.Serve) (m *model.Model, err error) {
	m = model.Builtin()
	if s.ModelFile != "" {
		if m, err = llama.Open(s.ModelFile); err != nil {
			return nil, err
		}
	}
	s.Worker.Model = m
	if s.Model == "" {
		s.Model = m.Spec().Name
	}
	return m, nil
}

// witness begins to publish, or only to record.
func witness(ctx context.Context, e config.Events, instance string) (process.Witness, error) {
	id := publish.Identity{Instance: instance, Epoch: uint64(time.Now().UnixNano()), Now: worker.Now}
	var record *publish.RecordConfig
	if e.Record != "" {
		record = &publish.RecordConfig{Path: e.Record}
	}
	if !e.On {
		r, err := publish.NewRecorder(id, *record)
		if err != nil {
			return process.Witness{}, err
		}
		return process.Witness{Teller: r.Teller, Close: r.Close}, nil
	}
	p, err := publish.New(ctx, publish.Config{
		Identity: id, Dir: e.Dir, Endpoint: e.Endpoint, ReplayEndpoint: e.Replay, AllowTCP: e.AllowTCP, Record: record,
	})
	if err != nil {
		return process.Witness{}, err
	}
	endpoint, _ := p.Endpoints()
	return process.Witness{Teller: p.Teller, Endpoint: endpoint, Close: p.Close}, nil
}
