//go:build linux && amd64

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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

// settle is how long the sidecar waits for facts, which come late on an emulated
// machine: late ones are as good as not seen. How long it took to boot says how busy
// the real one is.
var settle = sync.OnceValue(func() time.Duration {
	const least, share = 3 * time.Second, 8
	text, _ := os.ReadFile("/proc/uptime") // it is there, or the least will do
	up, _, _ := strings.Cut(string(text), " ")
	seconds, _ := strconv.ParseFloat(up, 64)
	return max(least, time.Duration(seconds*float64(time.Second)/share)).Round(time.Second)
})

// outsider is a sidecar that watches from outside. All checks share it, and it is
// started before the first: to load its programs takes the emulated machine long.
var outsider = sync.OnceValues(func() (*live.Sidecar, error) {
	if err := os.WriteFile(settingsFile, []byte("engines: ''\n"), 0o600); err != nil {
		return nil, err
	}
	p, err := live.Start(filepath.Join(programs, "kvwitness"), "watching", "sidecar", "--listen", "127.0.0.1:0", "--poll", "500ms",
		"--slack", "250ms", "--live-settle", settle().String(), "--events-dir", eventsDir,
		"--watch", "exe="+filepath.Join(programs, "kvengine"), "--watch-cuda", "--config", settingsFile)
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
