package follow

import (
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// Whatever an engine answers, what is kept of it are numbers that can be and words
// of closed sets.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte(`{"max_total_num_tokens":680,"context_length":null,"instance":"i","kv_events":"ipc:///x","protections":{"page-tags":{"on":true,"ran":3}}}`), []byte(`{"data":[{"max_model_len":512}]}`))
	f.Add([]byte(`{"max_total_num_tokens":-1}`), []byte(`{"data":null}`))
	f.Fuzz(func(t *testing.T, info, list []byte) {
		var p Poll
		var s serverInfo
		if json.Unmarshal(info, &s) == nil {
			p.take(&s)
		}
		var m models
		if json.Unmarshal(list, &m) == nil {
			p.Effective = m.longest()
		}
		for _, n := range []lifecycle.Opt[int64]{p.PoolTokens, p.ContextTokens, p.Effective} {
			if n.V < 0 || n.V > lifecycle.MaxTokens || !n.Has && n.V != 0 {
				t.Fatalf("%+v", n)
			}
		}
		if len(p.instance) > lifecycle.MaxID {
			t.Fatalf("an instance of %d bytes", len(p.instance))
		}
		f := Follower{}
		if to, err := f.discovered(&p); err == nil && to.events != "" && to.replay == "" {
			t.Fatalf("%+v", to)
		}
	})
}
