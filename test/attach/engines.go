package attach

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Answers are what an engine says over HTTP. An answer that is nil, or a text that
// is empty, is an endpoint that is not there.
type Answers struct {
	ServerInfo map[string]any
	Old        bool   // server_info is called get_server_info
	Version    string // of vLLM, at an endpoint of its own
	Models     map[string]any
	Metrics    string
	Key        string // wanted as a bearer token; "": none
	// Completions answers what is asked for; nil: there is no such endpoint.
	Completions http.HandlerFunc
}

// ServeHTTP answers as that engine does.
func (a *Answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	info := "/server_info"
	if a.Old {
		info = "/get_server_info"
	}
	switch {
	case a.Key != "" && r.Header.Get("Authorization") != "Bearer "+a.Key:
		w.WriteHeader(http.StatusUnauthorized)
	case r.URL.Path == info && a.ServerInfo != nil:
		_ = json.NewEncoder(w).Encode(a.ServerInfo)
	case r.URL.Path == "/version" && a.Version != "":
		_ = json.NewEncoder(w).Encode(map[string]string{"version": a.Version})
	case r.URL.Path == "/v1/models" && a.Models != nil:
		_ = json.NewEncoder(w).Encode(a.Models)
	case r.URL.Path == "/metrics" && a.Metrics != "":
		_, _ = w.Write([]byte(a.Metrics))
	case strings.HasSuffix(r.URL.Path, "/completions") && a.Completions != nil:
		a.Completions(w, r)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// Models is the answer of v1/models; length 0 is none said.
func Models(owner string, length int) map[string]any {
	model := map[string]any{"id": "m", "object": "model", "owned_by": owner}
	if length > 0 {
		model["max_model_len"] = length
	}
	return map[string]any{"object": "list", "data": []any{model}}
}

// SGLang is a running SGLang of that role, "null" for one that does it all.
func SGLang(role string, pool, context, page int) *Answers {
	return &Answers{
		ServerInfo: map[string]any{
			"model_path": "m", "version": "0.5.20", "max_total_num_tokens": pool, "max_req_input_len": min(context, pool) - 6,
			"page_size": page, "dp_size": 1, "context_length": context, "disaggregation_mode": role, "disaggregation_bootstrap_port": 8998,
			"kv_cache_dtype": "auto", "kv_events": nil, "mem_fraction_static": 0.87, "cuda_graph_bs": []int{1, 2, 4},
			"internal_states": []any{map[string]any{"memory_usage": map[string]any{"weight": 70.5, "kvcache": 20.1, "token_capacity": pool}}},
		},
		Models: Models("sglang", context),
		Metrics: sglangMetrics("sglang:", pool, context, page) +
			"process_start_time_seconds 1.7888e+09\n",
	}
}

func sglangMetrics(prefix string, pool, context, page int) string {
	labels := `{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"}`
	var b strings.Builder
	for _, s := range []struct {
		name  string
		value int
	}{
		{"num_running_reqs", 3}, {"max_total_num_tokens", pool}, {"page_size", page}, {"num_pages", pool / page}, {"context_len", context},
	} {
		fmt.Fprintf(&b, "# HELP %[1]s%[2]s It.\n# TYPE %[1]s%[2]s gauge\n%[1]s%[2]s%[3]s %.1[4]f\n", prefix, s.name, labels, float64(s.value))
	}
	fmt.Fprintf(&b, "%[1]stime_to_first_token_seconds_bucket{le=\"+Inf\",model_name=\"a \\\"b\\\" }\"} 12\n", prefix)
	return b.String()
}

// VLLM is a running vLLM. blocks are of all engine cores together, and size the
// tokens of one; 0: that version does not say it.
func VLLM(blocks, blockTokens, size, context, cores int) *Answers {
	var b strings.Builder
	b.WriteString("# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig\n# TYPE vllm:cache_config_info gauge\n")
	for core := range cores {
		fmt.Fprintf(&b, `vllm:cache_config_info{block_size="%d",cache_dtype="auto",enable_prefix_caching="True",engine="%d",num_gpu_blocks="%d",`, blockTokens, core, blocks)
		if size > 0 {
			fmt.Fprintf(&b, `kv_cache_size_tokens="%d",`, size)
		}
		b.WriteString(`sliding_window="None"} 1.0` + "\n")
	}
	b.WriteString("vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"m\"} 0.01\n")
	return &Answers{Models: Models("vllm", context), Metrics: b.String(), Version: "0.32.0"}
}
