package engineinfo_test

import (
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/source/engineinfo"
	"github.com/kvwitness/kvwitness/test/attach"
)

func ask(t *testing.T, h http.Handler, last engineinfo.Poll, cfg engineinfo.Config) engineinfo.Poll {
	t.Helper()
	web := httptest.NewServer(h)
	defer web.Close()
	cfg.URL = web.URL
	c, err := engineinfo.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c.Ask(t.Context(), last)
}

func look(t *testing.T, a *attach.Answers) engineinfo.Poll {
	t.Helper()
	return ask(t, a, engineinfo.Poll{}, engineinfo.Config{Timeout: time.Minute})
}

func is(t *testing.T, what string, got lifecycle.Opt[int64], want int64) {
	t.Helper()
	if !got.Has || got.V != want {
		t.Errorf("%s: %+v, want %d", what, got, want)
	}
}

func TestSGLangIsReadInItsVersions(t *testing.T) {
	old := attach.SGLang("prefill", 681280, 1048576, 64)
	old.Old, old.Metrics = true, ""
	bare := attach.SGLang("prefill", 681280, 1048576, 64)
	bare.Metrics = ""
	delete(bare.ServerInfo, "internal_states")
	underscore := attach.SGLang("prefill", 681280, 1048576, 64)
	underscore.Metrics = strings.ReplaceAll(underscore.Metrics, "sglang:", "sglang_")
	metricsOnly := attach.SGLang("prefill", 681280, 1048576, 64)
	metricsOnly.ServerInfo = nil
	metricsOnly.Metrics = underscore.Metrics
	for name, a := range map[string]*attach.Answers{"today's": attach.SGLang("prefill", 681280, 1048576, 64), "old": old, "bare": bare, "underscores": underscore, "metrics": metricsOnly} {
		t.Run(name, func(t *testing.T) {
			p := look(t, a)
			if p.Kind != engineinfo.SGLang || a.ServerInfo != nil && (p.Role != engineinfo.Prefill || p.Version != "0.5.20") {
				t.Errorf("%s %s %s", p.Kind, p.Role, p.Version)
			}
			is(t, "pool", p.Pool, 681280)
			is(t, "page", p.PageTokens, 64)
			is(t, "context", p.Context, 1048576)
			is(t, "effective", p.Effective, 1048576)
			if !p.Fresh {
				t.Error("not fresh")
			}
		})
	}
}

func TestANullContextIsNoneAndTheServedOneStays(t *testing.T) {
	a := attach.SGLang("null", 2040000, 1048576, 1)
	a.ServerInfo["context_length"] = nil
	a.Metrics = ""
	p := look(t, a)
	if p.Context.Has || p.Role != engineinfo.Unified {
		t.Errorf("%+v", p.Info)
	}
	is(t, "longest", p.Longest(), 1048576)
}

func TestThePoolIsThatOfTheSmallestRank(t *testing.T) {
	a := attach.SGLang("decode", 300032, 200000, 64)
	a.ServerInfo["internal_states"] = []any{
		map[string]any{"memory_usage": map[string]any{"token_capacity": 300032}},
		map[string]any{"memory_usage": map[string]any{"token_capacity": 284928}},
		"nonsense",
	}
	is(t, "with a rank of another type", look(t, a).Pool, 300032)
	a.ServerInfo["internal_states"] = a.ServerInfo["internal_states"].([]any)[:2]
	is(t, "pool", look(t, a).Pool, 284928)
	a.Metrics += "sglang:max_total_num_tokens{dp_rank=\"3\"} 270016\nsglang:max_total_num_tokens_swa{dp_rank=\"3\"} 4096\nsglang:max_total_num_tokens_swa{dp_rank=\"0\"} 8192\n"
	p := look(t, a)
	is(t, "pool", p.Pool, 270016)
	if p.Ranks != 4 || len(p.Sub) != 1 || p.Sub[0] != (engineinfo.SubPool{Name: "swa", Tokens: 4096}) {
		t.Errorf("%d ranks, %+v", p.Ranks, p.Sub)
	}
}

func TestWhatRequestsHoldIsReadOfEachEngine(t *testing.T) {
	sglang := attach.SGLang("null", 1008, 500, 16)
	sglang.Metrics += "sglang:num_used_tokens 32\n"
	vllm := attach.VLLM(1001, 16, 16016, 16000, 1)
	vllm.Metrics += "vllm:num_preemptions_total{engine=\"0\"} 4.0\nvllm:num_preemptions_total{engine=\"1\"} 1.0\n"
	is(t, "SGLang's", look(t, sglang).Held, 32)
	p := look(t, vllm)
	is(t, "vLLM's", p.Held, 160)
	is(t, "preempted", p.Preempted, 5)
}

// Block 0 is never handed out, and the blocks of all ranks are summed up.
func TestVLLMsPoolIsWithoutItsNullBlock(t *testing.T) {
	for name, c := range map[string]struct {
		a    *attach.Answers
		pool int64
	}{
		"one":             {attach.VLLM(1001, 16, 16016, 16000, 1), 16000},
		"four":            {attach.VLLM(4004, 16, 16016, 16000, 4), 16000},
		"old":             {attach.VLLM(1001, 16, 0, 16000, 1), 16000},
		"old, four cores": {attach.VLLM(4004, 16, 0, 16000, 4), 16000},
	} {
		p := look(t, c.a)
		if p.Kind != engineinfo.VLLM || p.Version != "0.32.0" || p.Null != 16 || !p.Fresh {
			t.Errorf("%s: %s %q, null %d, fresh %v", name, p.Kind, p.Version, p.Null, p.Fresh)
		}
		is(t, name, p.Pool, c.pool)
		is(t, name, p.Longest(), 16000)
	}
}

func TestTheStatesOfProtectionsAreFour(t *testing.T) {
	a := attach.SGLang("null", 1, 1, 1)
	a.Metrics = ""
	a.ServerInfo["engine"], a.ServerInfo["drill"] = "kvengine", "salt-drop"
	a.ServerInfo["protections"] = map[string]any{
		"page-tags": map[string]any{"on": true, "ran": 3}, "pool-gate": map[string]any{"on": true}, "layout-check": map[string]any{}, "luck": map[string]any{"on": true},
	}
	p := look(t, a)
	want := map[string]lifecycle.State{"page-tags": lifecycle.StateRan, "canary": lifecycle.StateRan, "layout-check": lifecycle.StateOff}
	for i, name := range engineinfo.Protections {
		if got := p.Protections[i].State(); got != want[name] {
			t.Errorf("%s: %s", name, got)
		}
	}
	if p.Kind != engineinfo.Kvengine || p.Drill != "salt-drop" || !p.Protections[0].On {
		t.Errorf("%+v", p.Info)
	}

	b := attach.SGLang("null", 1, 1, 1)
	b.ServerInfo["disaggregation_enable_kv_checksum"], b.ServerInfo["kv_canary"], b.ServerInfo["kv_canary_sweep_interval"] = true, "none", 0
	p = look(t, b)
	if d := p.Protections[engineinfo.Checksum]; !d.On || d.State() != lifecycle.StateUnknown {
		t.Errorf("a switch alone shows that it runs: %+v", d)
	}
	if s := p.Protections[engineinfo.Canary]; s.State() != lifecycle.StateOff || p.Protections[engineinfo.DeferredRelease].Said {
		t.Errorf("%+v", p.Protections)
	}
	b.ServerInfo["kv_canary"] = "log"
	if s := look(t, b).Protections[engineinfo.Canary]; !s.On {
		t.Errorf("a canary that logs is off: %+v", s)
	}
}

func TestNumbersThatCannotBeAndKeysOfTheWrongTypeCostThemselvesAlone(t *testing.T) {
	a := attach.SGLang("null", 1008, 500, 16)
	a.Metrics, a.Models = "", nil
	a.ServerInfo["context_length"], a.ServerInfo["page_size"], a.ServerInfo["version"] = 1<<50, "many", strings.Repeat("x", 100)
	a.ServerInfo["max_req_input_len"] = -1
	p := look(t, a)
	is(t, "pool", p.Pool, 1008)
	if p.Context.Has || p.PageTokens.Has || p.MaxInput.Has || p.Version != "" {
		t.Errorf("%+v", p.Info)
	}
}

// A half-dead endpoint costs only its own sight, and what was known stays so.
func TestAnEndpointThatFailsCostsItsOwnSightAlone(t *testing.T) {
	good := attach.SGLang("null", 1008, 500, 16)
	before := look(t, good)
	for name, bad := range map[string]http.HandlerFunc{
		"hangs":    func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"hangs up": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"error":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		},
		"no JSON":    func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("[1]")) },
		"never ends": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, engineinfo.MaxAnswer+1)) },
	} {
		t.Run(name, func(t *testing.T) {
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/server_info" {
					bad(w, r)
					return
				}
				good.ServeHTTP(w, r)
			})
			cfg := engineinfo.Config{Timeout: time.Minute}
			if name == "hangs" {
				cfg.Timeout = 300 * time.Millisecond
			}
			p := ask(t, h, before, cfg)
			if p.Failed[engineinfo.ServerInfo] != 1 || p.OK[engineinfo.Models] != 2 || p.Fresh {
				t.Errorf("%+v %+v fresh %v", p.OK, p.Failed, p.Fresh)
			}
			is(t, "what was known", p.Pool, 1008)
			if p = ask(t, h, engineinfo.Poll{}, cfg); p.Kind != engineinfo.SGLang || !p.Fresh {
				t.Errorf("of one that never had it: %s, fresh %v", p.Kind, p.Fresh)
			}
			is(t, "from the metrics", p.Pool, 1008)
		})
	}
}

func TestTheKeyIsReadFromAFileAndShown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	for text, good := range map[string]bool{"secret\n": true, "": false, "a\nb": false, strings.Repeat("x", 5000): false} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		key, err := engineinfo.ReadKey(path)
		if (err == nil) != good || good && key != "secret" {
			t.Errorf("%.10q: %q, %v", text, key, err)
		}
	}
	a := attach.SGLang("null", 1008, 500, 16)
	a.Key = "secret"
	if p := ask(t, a, engineinfo.Poll{}, engineinfo.Config{}); p.Fresh {
		t.Error("answered without the key")
	}
	if p := ask(t, a, engineinfo.Poll{}, engineinfo.Config{Key: "secret", Timeout: time.Minute}); p.OK != [engineinfo.NumEndpoint]uint64{1, 1, 1} {
		t.Errorf("%v", p.Errors)
	}
}

func TestAnEngineAtHTTPSIsTrustedByItsAuthorityAlone(t *testing.T) {
	web := httptest.NewUnstartedServer(attach.SGLang("null", 1008, 500, 16))
	web.Config.ErrorLog = log.New(io.Discard, "", 0)
	web.StartTLS()
	defer web.Close()
	path := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})
	if err := os.WriteFile(path, block, 0o600); err != nil {
		t.Fatal(err)
	}
	for ca, fresh := range map[string]bool{"": false, path: true} {
		c, err := engineinfo.New(engineinfo.Config{URL: web.URL, CA: ca, Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if p := c.Ask(t.Context(), engineinfo.Poll{}); p.Fresh != fresh {
			t.Errorf("with authorities %q: %v", ca, p.Errors)
		}
	}
	if _, err := engineinfo.New(engineinfo.Config{URL: web.URL, CA: os.Args[0]}); err == nil {
		t.Error("a program is taken for certificates")
	}
	for _, url := range []string{"ftp://h", "h:1", "http://u:p@h/", ""} {
		if _, err := engineinfo.New(engineinfo.Config{URL: url}); !errors.Is(err, engineinfo.ErrURL) {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func TestSamplesAreFoundAmongAnything(t *testing.T) {
	a := attach.SGLang("null", 1008, 500, 16)
	a.ServerInfo, a.Models = nil, nil
	a.Metrics = strings.Repeat("y", 1<<20) + "\n\x00\xff{}{\nsglang:max_total_num_tokens{a=\"}\\\"\\n\",b=\"2\"} 7.04e2 1788800000\nsglang:page_size{ 16\nsglang:context_len NaN\nsglang:context_len 1e300"
	p := look(t, a)
	is(t, "pool", p.Pool, 704)
	if p.PageTokens.Has || p.Context.Has {
		t.Errorf("%+v", p.Info)
	}
}
