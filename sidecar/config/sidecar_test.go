package config

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestEnginesAreTheSameInFlagsAndFiles(t *testing.T) {
	want := []Engine{
		{Name: "prefill-0", URL: "http://127.0.0.1:30001"},
		{Name: "decode-0", URL: "http://[::1]:30002", Instance: "::1:4711", Replay: "ipc:///run/d.replay"},
		{Name: "bare", Instance: "10.0.0.5:1", Events: "ipc:///run/b.events"},
	}
	const flag = "prefill-0=http://127.0.0.1:30001, decode-0=http://[::1]:30002;instance=::1:4711;replay=ipc:///run/d.replay,bare=;instance=10.0.0.5:1;events=ipc:///run/b.events"
	for name, src := range map[string]Source{
		"environment": {Env: []string{"KVWITNESS_ENGINES=" + flag}},
		"yaml": {File: write(t, "c.yaml", `engines:
  - prefill-0=http://127.0.0.1:30001
  - {name: decode-0, url: "http://[::1]:30002", instance: "::1:4711", replay: "ipc:///run/d.replay"}
  - {name: bare, instance: "10.0.0.5:1", events: "ipc:///run/b.events"}
`)},
		"toml": {File: write(t, "c.toml", `engines = [
  "prefill-0=http://127.0.0.1:30001",
  {name = "decode-0", url = "http://[::1]:30002", instance = "::1:4711", replay = "ipc:///run/d.replay"},
  {name = "bare", instance = "10.0.0.5:1", events = "ipc:///run/b.events"},
]`)},
		"json": {File: write(t, "c.json", `{"engines":["prefill-0=http://127.0.0.1:30001",
  {"name":"decode-0","url":"http://[::1]:30002","instance":"::1:4711","replay":"ipc:///run/d.replay"},
  {"name":"bare","instance":"10.0.0.5:1","events":"ipc:///run/b.events"}]}`)},
	} {
		cfg, _, err := Load(src)
		if err != nil || !reflect.DeepEqual(cfg.Sidecar.Engines, want) {
			t.Errorf("%s: %+v, %v", name, cfg.Sidecar.Engines, err)
		}
	}
}

func TestEnginesThatCannotBeFollowedAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"no name":        "=http://h:1",
		"no way to it":   "a=",
		"capitals":       "A=http://h:1",
		"a space":        "a b=http://h:1",
		"a long name":    strings.Repeat("a", 65) + "=http://h:1",
		"no scheme":      "a=h:1",
		"a file":         "a=file:///etc/passwd",
		"a password":     "a=http://u:p@h:1",
		"unknown part":   "a=http://h:1;topic=x",
		"part twice":     "a=http://h:1;instance=x;instance=y",
		"name twice":     "a=http://h:1,a=http://h:2",
		"instance twice": "a=;instance=x,b=;instance=x",
		"no ranks":       "a=http://h:1;kv_events=tcp://h:2;kv_ranks=0",
		"ranks as words": "a=http://h:1;kv_events=tcp://h:2;kv_ranks=two",
		"many ranks":     "a=http://h:1;kv_events=tcp://h:2;kv_ranks=65",
		"events by HTTP": "a=http://h:1;kv_events=http://h:2",
		"no unit":        "a=;log=journal:vllm*",
		"too many":       many(65),
	} {
		if _, _, err := Load(Source{Env: []string{"KVWITNESS_ENGINES=" + text}}); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnEngineMayBeKnownByItsEventsOrItsLogAlone(t *testing.T) {
	const text = "a=;kv_events=tcp://h:5557;kv_replay=tcp://h:5558;kv_ranks=4,b=;log=/var/log/b,c=;log=journal:c.service"
	cfg, _, err := Load(Source{Env: []string{"KVWITNESS_ENGINES=" + text}})
	if err != nil || len(cfg.Sidecar.Engines) != 3 {
		t.Fatalf("%+v, %v", cfg.Sidecar.Engines, err)
	}
	a, b, c := cfg.Sidecar.Engines[0], cfg.Sidecar.Engines[1], cfg.Sidecar.Engines[2]
	if a.Ranks() != 4 || a.KVReplay != "tcp://h:5558" || b.Log != "/var/log/b" || b.Ranks() != 1 || c.Log != "journal:c.service" || a.String()+","+b.String()+","+c.String() != text {
		t.Errorf("%s,%s,%s", a, b, c)
	}
}

// Nothing is attached to the CUDA driver unless that is asked for.
func TestTheCUDADriverIsWatchedOnlyWhenAsked(t *testing.T) {
	cfg, _, err := Load(Source{})
	if s := &cfg.Sidecar; err != nil || s.CUDA || s.CUDADeny != nil || s.CUDACopies {
		t.Errorf("%v, %v, %v, %v", s.CUDA, s.CUDADeny, s.CUDACopies, err)
	}
	cfg, _, err = Load(Source{Env: []string{"KVWITNESS_WATCH_CUDA=true", "KVWITNESS_WATCH_CUDA_DENY=550.54.15, 560.*", "KVWITNESS_WATCH_CUDA_COPIES=true"}})
	if s := &cfg.Sidecar; err != nil || !s.CUDA || !s.CUDACopies || !reflect.DeepEqual(s.CUDADeny, []string{"550.54.15", "560.*"}) {
		t.Errorf("%v, %v, %v", s.CUDA, s.CUDADeny, err)
	}
	for _, deny := range []string{"latest", "[5]", strings.Repeat("5", maxName+1), strings.Repeat("5,", maxDeny+1)} {
		if _, _, err := Load(Source{Env: []string{"KVWITNESS_WATCH_CUDA_DENY=" + deny}}); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", deny, err)
		}
	}
}

func many(n int) string {
	var items []string
	for i := range n {
		items = append(items, strings.Repeat("e", i+1)[:min(i+1, 60)]+string(rune('0'+i%10))+string(rune('0'+i/10))+"=http://h:1")
	}
	return strings.Join(items, ",")
}

// A replay is not asked which engines it follows.
func TestOnlyTheSidecarHasTheFlagsOfASidecar(t *testing.T) {
	set := flags(t)
	if set.Lookup("engines") != nil || set.Lookup("settle") == nil {
		t.Error("flags of the sidecar stand where traces are replayed")
	}
}
