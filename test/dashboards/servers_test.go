package dashboards

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/test/live"
	"github.com/kvwitness/kvwitness/test/monitoring"
)

// serve starts a program of Debian's packages that serves until the test ends.
func serve(t *testing.T, name string, args ...string) *monitoring.Server {
	t.Helper()
	s, err := monitoring.Serve(tool(t, name), t.TempDir(), args...)
	return untilTheEnd(t, name, s, err)
}

// prometheus starts one for a sidecar, which serves until the test ends.
func prometheus(t *testing.T, sidecar, alertmanager string) *monitoring.Server {
	t.Helper()
	s, err := monitoring.Prometheus(root, t.TempDir(), sidecar, alertmanager)
	return untilTheEnd(t, "prometheus", s, err)
}

func untilTheEnd(t *testing.T, name string, s *monitoring.Server, err error) *monitoring.Server {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if said := s.Stop(); t.Failed() {
			t.Logf("%s said:\n%s", name, said)
		}
	})
	return s
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// exercise starts the engines of a drill and a sidecar before them.
func exercise(t *testing.T, drill scheduler.Drill, args ...string) (*live.Exercise, *live.Cluster, *live.Sidecar) {
	t.Helper()
	for i := range live.Exercises {
		e := &live.Exercises[i]
		if e.Drill != drill {
			continue
		}
		dir, err := live.ShortDir()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		c, err := e.Start(t.Context(), dir, true)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		key := filepath.Join(t.TempDir(), "key")
		write(t, key, "key-a")
		s, err := live.StartSidecar(bin(t, "kvwitness"), c.Engines(), slices.Concat(args, live.Unhurried, []string{"--engine-key-file", key})...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Kill)
		return e, c, s
	}
	t.Fatalf("no exercise for %s", drill)
	return nil, nil, nil
}

// play plays the exercise once, and holds that the sidecar found what it should.
func play(t *testing.T, e *live.Exercise, c *live.Cluster, s *live.Sidecar) {
	t.Helper()
	if _, err := e.Play(c, 1); err != nil {
		t.Fatal(err)
	}
	all, err := s.Rest(0)
	if want := slices.Sorted(slices.Values(e.Expected())); err != nil || !slices.Equal(live.Kinds(all), want) {
		t.Fatalf("found %v, %v, want %v", live.Kinds(all), err, want)
	}
}

// scraped waits until Prometheus has scraped the sidecar a few times more.
func scraped(t *testing.T, p *monitoring.Server, times int) {
	t.Helper()
	if err := p.Scraped(times); err != nil {
		t.Fatal(err)
	}
}
