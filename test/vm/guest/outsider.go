//go:build linux && amd64

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/kvwitness/kvwitness/test/live"
)

// The guest's own folders: it has a /tmp and a /run of its own.
const (
	eventsDir    = "/run/kv"
	settingsFile = "/run/kvwitness.yaml"
)

// longest is how long the programs may take to load: one processor of an emulated
// machine goes over hundreds of thousands of instructions.
const longest = 15 * time.Minute

// unhurried are a sidecar's settings for an emulated machine, on which facts come
// late: late ones are as good as not seen.
var unhurried = []string{"sidecar", "--listen", "127.0.0.1:0", "--poll", "500ms", "--slack", "250ms", "--live-settle", "3s", "--events-dir", eventsDir}

// outsider is a sidecar that watches from outside. All checks share it, and it is
// started before the first: to load its programs takes the emulated machine long.
var outsider = sync.OnceValues(func() (*live.Sidecar, error) {
	if err := os.WriteFile(settingsFile, []byte("engines: ''\n"), 0o600); err != nil {
		return nil, err
	}
	args := append([]string{"--watch", "exe=" + filepath.Join(programs, "kvengine"), "--config", settingsFile}, unhurried[1:]...)
	p, err := live.Start(filepath.Join(programs, "kvwitness"), "watching", append(unhurried[:1:1], args...)...)
	if err != nil {
		return nil, err
	}
	s := &live.Sidecar{Process: p}
	var state struct {
		Outside struct {
			Watching bool
			Problem  string
		}
	}
	err = live.AwaitFor(longest, "the sidecar watches", func() bool {
		return s.Get("/api/v1/state", &state) == nil && state.Outside.Watching
	})
	if err == nil && state.Outside.Problem != "" {
		err = fmt.Errorf("not all can be watched: %s", state.Outside.Problem)
	}
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, s.Notes())
		s.Kill()
		return nil, err
	}
	progress("the sidecar watches")
	return s, nil
})

// watches waits for the outsider. What others are attached to as well costs twice, so
// they let go of it.
func watches(*Result) error {
	_, err := outsider()
	return errors.Join(err, closeProbes())
}

// follow has the sidecar follow these engines from now on. It must know their names
// before they begin: what they say on the wire before that counts for nothing.
func follow(s *live.Sidecar, engines string) error {
	if err := os.WriteFile(settingsFile, []byte("engines: '"+engines+"'\n"), 0o600); err != nil {
		return err
	}
	if err := s.Process.Process.Signal(syscall.SIGHUP); err != nil {
		return err
	}
	var state struct{ Engines []struct{ Name string } }
	return live.AwaitFor(patience, "the sidecar reads its settings anew", func() bool {
		state.Engines = nil
		return s.Get("/api/v1/state", &state) == nil && (len(state.Engines) > 0) == (engines != "")
	})
}
