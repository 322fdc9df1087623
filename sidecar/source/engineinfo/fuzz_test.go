package engineinfo

import (
	"bytes"
	"testing"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// Whatever an engine answers, what is kept of it are numbers that can be and short
// words.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte(`{"max_total_num_tokens":680,"context_length":null,"internal_states":[{"memory_usage":{"token_capacity":3}}],"instance":"i","engine":"kvengine","protections":{"page-tags":{"on":true,"ran":-3}}}`),
		[]byte(`{"data":[{"max_model_len":512,"owned_by":"vllm"}]}`), []byte("vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"9\"} 1\n"))
	f.Add([]byte(`{"max_total_num_tokens":-1}`), []byte(`{"data":null}`), []byte("sglang_num_pages 1e17\nsglang_page_size 1e12"))
	f.Fuzz(func(t *testing.T, info, list, exposition []byte) {
		var p Poll
		p.server, _ = readServerInfo(info)
		p.models, _ = readModels(list)
		var err error
		if p.metrics, err = readMetrics(bytes.NewReader(exposition)); err != nil {
			t.Fatal(err)
		}
		p.sum()
		for _, n := range []lifecycle.Opt[int64]{p.Pool, p.PageTokens, p.Context, p.Effective, p.MaxInput, p.Started, p.Longest()} {
			if n.V < 0 || n.V > lifecycle.MaxTokens || !n.Has && n.V != 0 {
				t.Fatalf("%+v", p.Info)
			}
		}
		if len(p.Instance) > lifecycle.MaxID || len(p.Version) > maxWord || len(p.DType) > maxWord || p.Ranks > maxSamples || p.Null < 0 {
			t.Fatalf("%+v", p.Info)
		}
	})
}
