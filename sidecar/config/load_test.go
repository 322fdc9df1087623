package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/kvwitness/kvwitness/sidecar/ledger"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func flags(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	Register(set)
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	return set
}

func TestWithoutAnySourceTheDefaultsHold(t *testing.T) {
	cfg, origin, err := Load(Source{})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Judge.Settle != 20*time.Millisecond || cfg.Judge.Grace != time.Second || cfg.Judge.Stall != 30*time.Second {
		t.Errorf("judge: %+v", cfg.Judge)
	}
	for _, key := range Keys() {
		if origin[key] != "default" {
			t.Errorf("%s comes from %q", key, origin[key])
		}
	}
}

// A limit that the ledger knows and no key sets could not be changed.
func TestEveryLimitOfTheLedgerHasAKey(t *testing.T) {
	cfg, _, err := Load(Source{})
	if err != nil {
		t.Fatal(err)
	}
	limits := reflect.ValueOf(cfg.Judge.Limits)
	for i := range limits.NumField() {
		if limits.Field(i).Int() == 0 {
			t.Errorf("no key sets ledger.Limits.%s", limits.Type().Field(i).Name)
		}
	}
	if want := reflect.TypeFor[ledger.Limits]().NumField() + 12 + 46; len(Keys()) != want {
		t.Errorf("%d keys, want %d", len(Keys()), want)
	}
}

func TestAStrongerSourceWinsAndIsNamed(t *testing.T) {
	for name, text := range map[string]string{
		"c.yaml": "settle: 30ms\ngrace: 3s\nstall: 40s\nlog:\n  level: warn\nlimits:\n  pages: 1000000\n  past_owner: 8\n",
		"c.toml": "settle = \"30ms\"\ngrace = \"3s\"\nstall = \"40s\"\n[log]\nlevel = \"warn\"\n[limits]\npages = 1_000_000\npast_owner = 8\n",
		"c.json": `{"settle":"30ms","grace":"3s","stall":"40s","log":{"level":"warn"},"limits":{"pages":1000000,"past_owner":8}}`,
	} {
		path := write(t, name, text)
		cfg, origin, err := Load(Source{
			File:  path,
			Env:   []string{"HOME=/root", "KVWITNESS_GRACE=4s", "KVWITNESS_STALL=50s", "KVWITNESS_LIMITS_PAST_OWNER=9", "KVWITNESS_VERIFY=1"},
			Flags: flags(t, "--stall", "1m", "--log-format", "json"),
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := []any{cfg.Judge.Settle, cfg.Judge.Grace, cfg.Judge.Stall, cfg.Judge.Limits.Pages, cfg.Judge.Limits.PastOwner, cfg.Log}
		want := []any{30 * time.Millisecond, 4 * time.Second, time.Minute, 1000000, 9, Log{"warn", "json"}}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
		for key, from := range map[string]string{
			"settle": "file " + path, "grace": "environment KVWITNESS_GRACE", "stall": "flag --stall",
			"log.format": "flag --log-format", "limits.window": "default",
		} {
			if origin[key] != from {
				t.Errorf("%s: %s comes from %q, want %q", name, key, origin[key], from)
			}
		}
	}
}

func TestTheFileMayBeNamedByTheEnvironment(t *testing.T) {
	cfg, _, err := Load(Source{Env: []string{FileVariable + "=" + write(t, "c.yaml", "settle: 7ms")}})
	if err != nil || cfg.Judge.Settle != 7*time.Millisecond {
		t.Errorf("settle %s, %v", cfg.Judge.Settle, err)
	}
}

func TestAnEmptyFileOrTableSetsNothing(t *testing.T) {
	for name, text := range map[string]string{"a.yaml": "", "b.json": "{}", "c.toml": "[limits]\n", "d.yaml": "limits: {}\n# only this\n"} {
		if _, _, err := Load(Source{File: write(t, name, text)}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatIsWrongIsNamedWithItsSourceAndWhatIsAllowed(t *testing.T) {
	const value, key = "is not allowed; want", "is not known; allowed are settle, grace"
	for _, c := range []struct {
		file, text string
		env        string
		args       []string
		says       []string
	}{
		{file: "c.yaml", text: "setle: 1s", says: []string{`key "setle" in file`, key}},
		{file: "c.yaml", text: "Settle: 1s", says: []string{`key "Settle"`, key}},
		{file: "c.yaml", text: "limits: {page: 3}", says: []string{`key "limits.page"`, key}},
		{file: "c.yaml", text: "hue: {}", says: []string{`key "hue"`, key}},
		{file: "c.yaml", text: "settle: {deep: {er: 1}}", says: []string{`key "settle.deep.er"`, key}},
		{file: "c.yaml", text: "limits: 3", says: []string{`key "limits"`, key}},
		{file: "c.yaml", text: "settle: 1s\nsettle: 2s", says: []string{"already defined"}},
		{file: "c.yaml", text: "settle: 20", says: []string{"settle from file", `"20"`, value, "a duration such as 20ms"}},
		{file: "c.yaml", text: "settle: -1s", says: []string{`"-1s"`, value}},
		{file: "c.yaml", text: "settle: 0s", says: []string{`"0s"`, value}},
		{file: "c.yaml", text: "settle:", says: []string{`""`, value}},
		{file: "c.yaml", text: "settle: [1s]", says: []string{`"[1s]"`, value}},
		{file: "c.yaml", text: "settle: 25h", says: []string{value, "at most 24h"}},
		{file: "c.yaml", text: "limits: {pages: 0}", says: []string{"limits.pages", value, "from 1 to 1073741824"}},
		{file: "c.yaml", text: "limits: {pages: 1.5}", says: []string{`"1.5"`, value}},
		{file: "c.yaml", text: "limits: {pages: 99999999999999999999}", says: []string{"limits.pages", value}},
		{file: "c.json", text: `{"limits":{"pages":1e300}}`, says: []string{"limits.pages", value}},
		{file: "c.yaml", text: "log: {level: loud}", says: []string{"log.level", `"loud"`, "one of debug, info, warn, error"}},
		{file: "c.yaml", text: "\tx: [", says: []string{"c.yaml"}},
		{file: "c.toml", text: "settle = ", says: []string{"c.toml"}},
		{file: "c.json", text: "[1]", says: []string{"c.json"}},
		{file: "c.ini", text: "settle=1s", says: []string{"must end in .yaml, .yml, .toml or .json"}},
		{file: "c.yaml", text: strings.Repeat("#", maxFile+1), says: []string{"larger than 1048576 bytes"}},
		{env: "KVWITNESS_SETLE=1s", says: []string{"KVWITNESS_SETLE is not known", "KVWITNESS_SETTLE"}},
		{env: "KVWITNESS_=1", says: []string{"KVWITNESS_ is not known"}},
		{env: "KVWITNESS_SETTLE=", says: []string{"environment KVWITNESS_SETTLE", `""`, value}},
		{args: []string{"--limits-pages", "many"}, says: []string{"flag --limits-pages", `"many"`, value}},
	} {
		src := Source{Env: []string{c.env}}
		if c.file != "" {
			src.File = write(t, c.file, c.text)
		}
		if c.args != nil {
			src.Flags = flags(t, c.args...)
		}
		_, _, err := Load(src)
		if !errors.Is(err, ErrConfig) {
			t.Errorf("%.40q %s %v: got %v", c.text, c.env, c.args, err)
			continue
		}
		for _, says := range c.says {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%.40q %s %v: %q does not say %q", c.text, c.env, c.args, err, says)
			}
		}
	}
}

func TestAFileThatIsNotThereIsAnError(t *testing.T) {
	if _, _, err := Load(Source{File: filepath.Join(t.TempDir(), "gone.yaml")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestAllThatIsWrongIsSaidAtOnce(t *testing.T) {
	_, _, err := Load(Source{
		File: write(t, "c.yaml", "hue: 1\nsettle: soon"),
		Env:  []string{"KVWITNESS_HUE=1", "KVWITNESS_GRACE=late"},
	})
	for _, says := range []string{`"hue"`, "KVWITNESS_HUE", "settle from file", "grace from environment"} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %s", err, says)
		}
	}
}

func TestTheEffectiveConfigurationIsShownWithItsSources(t *testing.T) {
	cfg, origin, err := Load(Source{Env: []string{"KVWITNESS_SETTLE=5ms"}})
	if err != nil {
		t.Fatal(err)
	}
	var table, lines strings.Builder
	if err := cfg.Show(&table, origin); err != nil {
		t.Fatal(err)
	}
	if err := cfg.ShowJSON(&lines, origin); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"settle", "5ms", "environment KVWITNESS_SETTLE", "limits.pages", "10485760"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %s:\n%s", want, table.String())
		}
	}
	if n := strings.Count(lines.String(), "\n"); n != len(Keys()) {
		t.Errorf("%d JSON lines for %d keys", n, len(Keys()))
	}
	if want := `{"key":"settle","value":"5ms","from":"environment KVWITNESS_SETTLE",`; !strings.HasPrefix(lines.String(), want) {
		t.Errorf("JSON begins %.100s", lines.String())
	}
}

// FuzzFile: a file is refused in words, or what it set can be set again, one
// variable a key, with the same meaning.
func FuzzFile(f *testing.F) {
	f.Add("settle: 1s\nlimits: {pages: 3}\n", uint8(0))
	f.Add("settle = \"1s\"\n[limits]\npages = 3\n", uint8(1))
	f.Add(`{"settle":"1s","limits":{"pages":3}}`, uint8(2))
	formats := []string{"c.yaml", "c.toml", "c.json"}
	f.Fuzz(func(t *testing.T, text string, format uint8) {
		path := filepath.Join(t.TempDir(), formats[int(format)%len(formats)])
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, origin, err := Load(Source{File: path})
		if err != nil {
			if !errors.Is(err, ErrConfig) {
				t.Fatalf("%v does not wrap ErrConfig", err)
			}
			return
		}
		var env []string
		for _, e := range cfg.All(origin) {
			env = append(env, Prefix+strings.ToUpper(strings.ReplaceAll(e.Key, ".", "_"))+"="+e.Value)
		}
		again, _, err := Load(Source{Env: env})
		if err != nil || !reflect.DeepEqual(again, cfg) {
			t.Fatalf("%v: %+v became %+v", err, cfg, again)
		}
	})
}
