package check

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kvwitness/kvwitness/engine/lifecycle/stream"
	"github.com/kvwitness/kvwitness/sidecar/config"
	"github.com/kvwitness/kvwitness/sidecar/source/engineinfo"
)

// Engines are the needs of the engines that are configured.
func Engines(ctx context.Context, s *config.Sidecar) (needs []Need) {
	if len(s.Engines) == 0 {
		return []Need{met("engines", "none is configured (engines is empty)")}
	}
	for _, e := range s.Engines {
		var info engineinfo.Info
		if e.URL != "" {
			var n Need
			n, info = answers(ctx, e, s)
			needs = append(needs, n)
			if n.State != Met && e.Events == "" && e.Instance == "" {
				needs = append(needs, unknown("events of "+e.Name, "see engine "+e.Name, "the engine says where, once it answers"))
				continue
			}
		}
		needs = append(needs, eventsOf(e, info, s))
	}
	return needs
}

// answers asks an engine what it is.
func answers(ctx context.Context, e config.Engine, s *config.Sidecar) (Need, engineinfo.Info) {
	name := "engine " + e.Name
	const remedy = "let the engine listen there, or change its URL; behind a key, set engine_key_file"
	key, err := engineKey(s.EngineKeyFile)
	if err != nil {
		return unmet(name, "let this process read engine_key_file", "%v", err), engineinfo.Info{}
	}
	client, err := engineinfo.New(engineinfo.Config{URL: e.URL, Key: key})
	if err != nil {
		return unmet(name, remedy, "%v", err), engineinfo.Info{}
	}
	p := client.Ask(ctx, engineinfo.Poll{})
	for endpoint := range engineinfo.NumEndpoint {
		if p.OK[endpoint] > 0 {
			return met(name, "%s answers: %s %s", e.URL, p.Kind, p.Version), p.Info
		}
	}
	return unmet(name, remedy, "%s: %v", e.URL, p.Errors[engineinfo.ServerInfo]), p.Info
}

func engineKey(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	return engineinfo.ReadKey(path)
}

// eventsOf says whether an engine's lifecycle stream can be reached.
func eventsOf(e config.Engine, info engineinfo.Info, s *config.Sidecar) Need {
	name := "events of " + e.Name
	at := e.Events
	if at == "" {
		at = info.Events
	}
	inst := e.Instance
	if inst == "" {
		inst = info.Instance
	}
	if at == "" && inst != "" {
		dir := s.EventsDir
		if dir == "" {
			dir = stream.DefaultDir()
		}
		var err error
		if at, _, err = stream.Endpoints(dir, inst); err != nil {
			return unmet(name, "name its endpoints in engines (events=, replay=)", "%v", err)
		}
	}
	path, local := strings.CutPrefix(at, "ipc://")
	switch {
	case at == "":
		return met(name, "it has no stream of kvwitness's own format: what it says on the wire and by HTTP is all")
	case !local:
		return unknown(name, "start kvwitness sidecar and look at /api/v1/state", "%s is not tried", at)
	}
	if err := unix.Access(path, unix.R_OK|unix.W_OK); err != nil {
		return unmet(name, fmt.Sprintf("run the sidecar as the engine's user, or give its group the right to read and write %s", path), "%s: %v", path, err)
	}
	return met(name, "%s may be read", path)
}
