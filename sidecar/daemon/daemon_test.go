package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/publish"
	"github.com/kvwitness/kvwitness/engine/lifecycle/subscribe"
	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/sidecar/config"
)

// shared is a buffer for several goroutines.
type shared struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// table is a running daemon whose configuration a test changes.
type table struct {
	*Daemon
	t     *testing.T
	file  string
	out   shared
	notes shared
	level string
	end   func() time.Duration
}

func newTable(t *testing.T, text string) *table {
	t.Helper()
	tb := &table{t: t, file: filepath.Join(t.TempDir(), "c.yaml")}
	tb.configure(text)
	load := func() (config.Config, config.Origin, error) { return config.Load(config.Source{File: tb.file}) }
	cfg, origin, err := load()
	if err != nil {
		t.Fatal(err)
	}
	tb.Daemon, err = New(t.Context(), Options{
		Config: cfg, Origin: origin, Load: load, Level: func(level string) { tb.level = level }, Out: &tb.out,
		Log: slog.New(slog.NewTextHandler(&tb.notes, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- tb.Run(ctx) }()
	var once sync.Once
	tb.end = func() (took time.Duration) {
		once.Do(func() {
			begun := time.Now()
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			took = time.Since(begun)
		})
		return took
	}
	t.Cleanup(func() { tb.end() })
	return tb
}

const listen = "listen: 127.0.0.1:0\n"

func (tb *table) configure(text string) {
	tb.t.Helper()
	if err := os.WriteFile(tb.file, []byte(listen+text), 0o600); err != nil {
		tb.t.Fatal(err)
	}
}

func (tb *table) get(path string) string {
	tb.t.Helper()
	resp, err := http.Get(tb.URL() + path)
	if err != nil {
		tb.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		tb.t.Fatal(err)
	}
	return string(body)
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not come about", what)
		}
	}
}

// publisher is an engine that only speaks.
func publisher(t *testing.T, dir, inst string) *publish.Publisher {
	t.Helper()
	p, err := publish.New(t.Context(), publish.Config{Identity: publish.Identity{Instance: inst, Epoch: 1, Now: now}, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close(context.Background()) })
	spec := lifecycle.PoolSpec{Pages: 4, PageTokens: 16, ContextTokens: lifecycle.Some(int64(1 << 20))}
	if _, err := p.PoolEvents("kv", spec); err != nil {
		t.Fatal(err)
	}
	return p
}

func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "kvd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestWhatAnEngineBreaksIsSaidEverywhereAtOnce(t *testing.T) {
	dir := shortDir(t)
	trace := filepath.Join(t.TempDir(), "trace.jsonl")
	tb := newTable(t, "engines: 'a=;instance=i'\nevents_dir: "+dir+"\nrecord: "+trace+"\n")
	if !strings.Contains(tb.get("/healthz"), "blind") || !strings.Contains(tb.get("/livez"), "ok") {
		t.Error("it says that it sees what is not there")
	}
	publisher(t, dir, "i")
	waitFor(t, "a finding", func() bool { return strings.Contains(tb.get("/api/v1/findings"), "capacity_inversion") })
	waitFor(t, "sight", func() bool { return strings.Contains(tb.get("/healthz"), `"ok"`) })
	for _, says := range []string{
		`kvwitness_findings_total{kind="capacity_inversion",severity="high",wakes="yes"} 1`, "kvwitness_shadow 0", "kvwitness_engines_live 1",
		`kvwitness_source_coverage{engine="a",source="lifecycle"} 1`,
	} {
		waitFor(t, says, func() bool { return strings.Contains(tb.get("/metrics"), says) })
	}
	if took := tb.end(); took > EndTimeout {
		t.Errorf("the end took %s", took)
	}
	var f struct{ Kind string }
	if err := json.Unmarshal([]byte(strings.SplitN(tb.out.String(), "\n", 2)[0]), &f); err != nil || f.Kind != "capacity_inversion" {
		t.Errorf("lines: %q, %v", tb.out.String(), err)
	}
	in, err := os.Open(trace)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	r := lifecycle.NewReader(in, trace)
	first, err := r.Next()
	if err != nil || first.Ev != lifecycle.PoolOpened || r.Header().Boot == "" || r.Header().Wall == "" {
		t.Errorf("recorded: %+v, %+v, %v", first, r.Header(), err)
	}
}

func TestInShadowAllIsSaidAndNothingWakes(t *testing.T) {
	dir := shortDir(t)
	tb := newTable(t, "engines: 'a=;instance=i'\nshadow: true\nevents_dir: "+dir+"\n")
	publisher(t, dir, "i")
	waitFor(t, "a finding", func() bool {
		return strings.Contains(tb.get("/metrics"), `kvwitness_findings_total{kind="capacity_inversion",severity="high",wakes="no"} 1`)
	})
	if !strings.Contains(tb.get("/metrics"), "kvwitness_shadow 1") || !strings.Contains(tb.get("/api/v1/findings"), `"shadow":true`) {
		t.Error("it does not say that it is in shadow")
	}
}

func TestAConfigurationIsTakenOverWholeOrNotAtAll(t *testing.T) {
	dir := shortDir(t)
	const first = "engines: 'a=;instance=i'\n"
	common := "events_dir: " + dir + "\n"
	tb := newTable(t, first+common)
	publisher(t, dir, "i")
	publisher(t, dir, "j")
	waitFor(t, "sight of a", func() bool { s := tb.statuses(); return len(s) > 0 && s[0].Instance == "i" })
	names := func() (all []string) {
		for _, s := range tb.statuses() {
			all = append(all, s.Name)
		}
		return all
	}
	for text, why := range map[string]error{
		"engines: 'b=;instance=j'\nsettle: soon\n":            config.ErrConfig,
		"engines: 'b=;instance=j'\nhue: 1\n":                  config.ErrConfig,
		"engines: 'B=;instance=j'\n":                          config.ErrConfig,
		"engines: 'b=;instance=j'\nlive_settle: 9ms\n":        ErrRestart,
		"engines: 'b=;instance=j'\nlimits: {requests: 100}\n": ErrRestart,
	} {
		tb.configure(text + common)
		if err := tb.Reload(t.Context()); !errors.Is(err, why) {
			t.Errorf("%q: %v, want %v", text, err, why)
		}
		if got := names(); len(got) != 1 || got[0] != "a" {
			t.Errorf("%q: engines %v", text, got)
		}
		if !strings.Contains(tb.get("/metrics"), "kvwitness_config_last_reload_success 0") || !strings.Contains(tb.get("/api/v1/state"), `"last_reload":"failed"`) {
			t.Errorf("%q is not reported", text)
		}
	}
	tb.configure("engines: 'a=;instance=i,b=;instance=j'\nshadow: true\nlog: {level: debug}\n" + common)
	before := tb.statuses()[0].Snapshots
	if err := tb.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "sight of b", func() bool { s := tb.statuses(); return len(s) == 2 && s[1].Instance == "j" && s[1].Snapshots == 1 })
	if s := tb.statuses(); s[0].Snapshots != before || tb.level != "debug" || !strings.Contains(tb.get("/metrics"), "kvwitness_config_last_reload_success 1") {
		t.Errorf("an engine that stays is followed anew: %+v", s)
	}
	tb.configure("engines: 'b=;instance=j'\nshadow: true\nlog: {level: debug}\n" + common)
	if err := tb.Reload(t.Context()); err != nil || strings.Contains(tb.get("/metrics"), `engine="a"`) {
		t.Errorf("an engine that is gone has series yet: %v", err)
	}
}

func TestTwoEnginesAreNeverFollowedAsOne(t *testing.T) {
	tb := newTable(t, "engines: 'a=;instance=i'\n")
	claim := func(instance, name string) bool { return tb.claim(subscribe.Config{Instance: instance}, name) }
	if claim("i", "b") {
		t.Error("an engine may be what another is configured to be")
	}
	if !claim("x", "b") || claim("x", "c") || !claim("x", "b") {
		t.Error("a claim is not the first one's")
	}
	tb.release("x", "c")
	if claim("x", "c") {
		t.Error("a claim is released by another")
	}
	tb.release("x", "b")
	if !claim("x", "c") {
		t.Error("a claim that was released stays")
	}
}

func TestASecretThatCannotBeReadIsAnError(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"token_file: /nowhere", "engine_key_file: " + empty, "record: /nowhere/t", "listen: 8.8.8.8:1", "listen_ca_file: /nowhere", "listen_cert_file: /nowhere\nlisten_key_file: /nowhere"} {
		cfg, origin, err := config.Load(config.Source{File: write(t, text)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := New(t.Context(), Options{Config: cfg, Origin: origin, Log: slog.New(slog.DiscardHandler)}); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Every protection of kvengine is one that the metrics know by name.
func TestTheProtectionsAreThoseOfTheEngine(t *testing.T) {
	tb := newTable(t, "engines: 'a=;instance=i'\n")
	text := tb.get("/metrics")
	for p := range scheduler.NumProtections {
		if !strings.Contains(text, `protection="`+p.String()+`"`) {
			t.Errorf("%s is not among them", p)
		}
	}
}
