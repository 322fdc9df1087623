package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/kvwitness/kvwitness/engine/scheduler"
)

// Promise: a stronger source wins: flag, environment, file, default.
func TestAStrongerSourceWins(t *testing.T) {
	for name, text := range map[string]string{
		"c.yaml": "port: 1\ncontext-tokens: 99\nmax-running: 7\ndrill-keep: [page-tags, pool-gate]\nlog:\n  level: warn\n",
		"c.toml": "port = 1\ncontext-tokens = 99\nmax-running = 7\ndrill-keep = [\"page-tags\", \"pool-gate\"]\n[log]\nlevel = \"warn\"\n",
		"c.json": `{"port":1,"context-tokens":99,"max-running":7,"drill-keep":["page-tags","pool-gate"],"log":{"level":"warn"}}`,
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var s Serve
		table := s.Table()
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		table.Register(flags)
		if err := flags.Parse([]string{"--port", "3", "--lower-context"}); err != nil {
			t.Fatal(err)
		}
		err := table.Load(Source{File: path, Env: []string{"KVENGINE_PORT=2", "KVENGINE_CONTEXT_TOKENS=100", "HOME=/"}, Flags: flags})
		if err != nil {
			t.Fatal(err)
		}
		w := s.Worker
		if s.Port != 3 || w.ContextTokens != 100 || w.MaxRunning != 7 || !w.LowerContext || s.StopTimeout != 30*time.Second ||
			len(w.Keep) != 2 || w.Keep[0] != scheduler.PageTags || s.Log.Level.String() != "WARN" {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// Promise: what is not known or not allowed is named, with its source and what is.
func TestWhatIsWrongIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte("prot: 1\nrole: king\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var s Serve
	err := s.Table().Load(Source{File: path, Env: []string{"KVENGINE_PRT=1", "KVENGINE_DRAIN_TIMEOUT=soon", "KVENGINE_DRILL_KEEP=luck"}})
	if !errors.Is(err, ErrConfig) {
		t.Fatal(err)
	}
	for _, says := range []string{`"prot"`, "KVENGINE_PRT", `"king"`, "unified, prefill, decode", `"soon"`, "KVENGINE_DRAIN_TIMEOUT", `"luck"`} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %s", err, says)
		}
	}
}

// Promise: an engine does not listen where strangers can reach it without a key, and
// no protection is off but in a drill.
func TestWhatIsDangerousIsRefused(t *testing.T) {
	for _, c := range []struct {
		args []string
		ok   bool
	}{
		{[]string{"--host", "127.0.0.1"}, true},
		{[]string{"--host", "10.1.2.3", "--role", "prefill"}, true},
		{[]string{"--host", "0.0.0.0"}, false},
		{[]string{"--host", "0.0.0.0", "--key-file", "keys"}, true},
		{[]string{"--host", "0.0.0.0", "--key-file", "keys", "--role", "prefill"}, false},
		{[]string{"--host", "example.org"}, false},
		{[]string{"--role", "decode"}, false},
		{[]string{"--page-tokens", "20"}, false},
		{[]string{"--drill-off", "pool-gate"}, false},
		{[]string{"--drill-off", "pool-gate", "--drill", "late-chunk"}, true},
	} {
		var s Serve
		table := s.Table()
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		table.Register(flags)
		if err := errors.Join(flags.Parse(c.args), table.Load(Source{Flags: flags})); err != nil {
			t.Fatal(err)
		}
		if err := s.Check(); (err == nil) != c.ok {
			t.Errorf("%v: %v", c.args, err)
		}
	}
}

// Promise: how pages move is told by file, variable and flag, and over TCP if nobody
// says.
func TestTheWayOfTransferIsTold(t *testing.T) {
	var s Serve
	if err := s.Table().Load(Source{}); err != nil || s.Transfer.Verbs || s.Transfer.Device.GID != -1 || s.Transfer.Device.Port != 1 {
		t.Errorf("%v %+v", err, s.Transfer)
	}
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte("transfer: verbs\nverbs:\n  device: mlx5_1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	table := s.Table()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	table.Register(flags)
	if err := flags.Parse([]string{"--verbs-gid", "3"}); err != nil {
		t.Fatal(err)
	}
	if err := table.Load(Source{File: path, Env: []string{"KVENGINE_VERBS_PORT=2"}, Flags: flags}); err != nil {
		t.Fatal(err)
	}
	if d := s.Transfer.Device; !s.Transfer.Verbs || d.Device != "mlx5_1" || d.Port != 2 || d.GID != 3 {
		t.Errorf("%+v", s.Transfer)
	}
}
