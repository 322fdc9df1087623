package engineinfo

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// Bounds of what is read of an answer.
const (
	maxModels = 64
	maxRanks  = 4096
	maxWord   = 64
)

// fields is a JSON object whose values are read one by one, so that one of the
// wrong type costs itself alone.
type fields map[string]jsontext.Value

// readObject reads an object; it must be one.
func readObject(raw []byte) (f fields, err error) {
	if err := json.Unmarshal(raw, &f, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		return nil, fmt.Errorf("not a JSON object: %w", err)
	}
	return f, nil
}

func read[T any](f fields, key string) (v T, said bool) {
	raw, there := f[key]
	if !there || raw.Kind() == 'n' || json.Unmarshal(raw, &v) != nil {
		var none T
		return none, false
	}
	return v, true
}

// integer is a whole number, however it is written.
func (f fields) integer(key string) (int64, bool) {
	if n, said := read[int64](f, key); said {
		return n, true
	}
	x, said := read[float64](f, key)
	if !said || x != float64(int64(x)) {
		return 0, false
	}
	return int64(x), true
}

func (f fields) tokens(key string) lifecycle.Opt[int64] { return tokens(f.integer(key)) }
func (f fields) truth(key string) (on, said bool)       { return read[bool](f, key) }

// word is a short text of printable ASCII, else "".
func (f fields) word(key string) string {
	text, _ := read[string](f, key)
	if len(text) > maxWord {
		return ""
	}
	return printable(text)
}

func printable(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		return ""
	}
	return text
}

func (f fields) object(key string) fields {
	o, _ := read[fields](f, key)
	return o
}

func (f fields) objects(key string) []fields {
	all, _ := read[[]fields](f, key)
	return all
}

// serverInfo is what is kept of server_info: SGLang's keys, and kvengine's own.
type serverInfo struct {
	kind        Kind
	version     string
	role        Role
	pool        lifecycle.Opt[int64]
	page        lifecycle.Opt[int64]
	context     lifecycle.Opt[int64]
	maxInput    lifecycle.Opt[int64]
	ranks       int
	dtype       string
	drill       string
	protections [NumProtection]Protection

	instance, events string
}

var modes = map[string]Role{"null": Unified, "": Unified, "prefill": Prefill, "decode": Decode}

func readServerInfo(raw []byte) (s serverInfo, err error) {
	f, err := readObject(raw)
	if err != nil {
		return s, err
	}
	s = serverInfo{
		version: f.word("version"), pool: f.tokens("max_total_num_tokens"), page: f.tokens("page_size"),
		context: f.tokens("context_length"), maxInput: f.tokens("max_req_input_len"), dtype: f.word("kv_cache_dtype"),
	}
	if s.pool.Has {
		s.kind = SGLang
	}
	if n, said := f.integer("dp_size"); said && n > 0 && n <= maxRanks {
		s.ranks = int(n)
	}
	for i, rank := range f.objects("internal_states") {
		if i < maxRanks {
			s.pool = least(s.pool, rank.object("memory_usage").tokens("token_capacity"))
		}
	}
	if s.pool.Has || f["disaggregation_mode"] != nil {
		s.kind = SGLang
		s.role = modes[f.word("disaggregation_mode")]
	}
	if name, _ := read[string](f, "instance"); len(name) <= lifecycle.MaxID {
		s.instance = name
	}
	s.events, _ = read[string](f, "kv_events")
	if f.word("engine") != "kvengine" {
		s.protections = ofSGLang(f)
		return s, nil
	}
	s.kind, s.drill, s.protections = Kvengine, f.word("drill"), ofKvengine(f)
	if s.drill == "none" {
		s.drill = ""
	}
	return s, nil
}

// models is what is kept of v1/models.
type models struct {
	longest lifecycle.Opt[int64]
	kind    Kind
}

var owners = map[string]Kind{"sglang": SGLang, "vllm": VLLM, "kvengine": Kvengine}

func readModels(raw []byte) (m models, err error) {
	f, err := readObject(raw)
	if err != nil {
		return m, err
	}
	for i, model := range f.objects("data") {
		if i >= maxModels {
			break
		}
		if n := model.tokens("max_model_len"); n.Has && n.V > m.longest.Or(-1) {
			m.longest = n
		}
		if m.kind == UnknownKind {
			m.kind = owners[model.word("owned_by")]
		}
	}
	return m, nil
}
