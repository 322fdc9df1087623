package engineinfo

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

const (
	// maxSample bounds one line of an exposition; what is longer is passed over.
	maxSample = 16 << 10
	// maxSamples bounds how many samples of interest are read.
	maxSamples = 4096
	maxLabels  = 64
)

// metrics is what is kept of an exposition.
type metrics struct {
	kind            Kind
	pool            lifecycle.Opt[int64] // tokens, of the rank with the least
	null            int64                // tokens of it that are never handed out
	pages           lifecycle.Opt[int64]
	page            lifecycle.Opt[int64]
	context         lifecycle.Opt[int64]
	sub             []SubPool
	started         lifecycle.Opt[int64]
	dtype           string
	ranks           int
	protect         [NumProtection]Protection
	preempted, held lifecycle.Opt[int64]
	usage           lifecycle.Opt[float64] // vLLM's, of the fullest engine

	blocks  lifecycle.Opt[int64] // vLLM's, over all ranks
	samples int
}

// prefixes of the names, and whose they are; both spellings occur.
var prefixes = []struct {
	prefix string
	kind   Kind
}{
	{"sglang:", SGLang}, {"sglang_", SGLang}, {"vllm:", VLLM}, {"vllm_", VLLM}, {"kvengine_", Kvengine},
}

// readMetrics reads the lines of an exposition that are of interest; the others may
// be anything.
func readMetrics(in io.Reader) (m metrics, err error) {
	lines := bufio.NewReaderSize(in, maxSample)
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			if err = skipLine(lines); err == nil {
				continue
			}
			line = nil
		}
		m.line(strings.TrimSpace(string(line)))
		if errors.Is(err, io.EOF) {
			return m.finish(), nil
		}
		if err != nil {
			return m, fmt.Errorf("read metrics: %w", err)
		}
	}
}

// skipLine reads on to the end of a line that is too long.
func skipLine(in *bufio.Reader) error {
	for {
		_, err := in.ReadSlice('\n')
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

func (m *metrics) line(line string) {
	if line == "" || line[0] == '#' || m.samples >= maxSamples {
		return
	}
	if rest, is := strings.CutPrefix(line, "process_start_time_seconds "); is {
		if v, ok := value(rest); ok && v > 0 {
			m.started = tokens(int64(v), true)
		}
		return
	}
	for _, p := range prefixes {
		if rest, is := strings.CutPrefix(line, p.prefix); is {
			if name, labels, v, ok := sample(rest); ok {
				m.kind = p.kind
				m.take(name, labels, v)
			}
			return
		}
	}
}

// take keeps a sample that is of interest.
func (m *metrics) take(name string, labels map[string]string, v float64) {
	n := tokens(int64(v), v == math.Trunc(v))
	switch name {
	case "max_total_num_tokens":
		m.pool = least(m.pool, n)
		m.ranks = max(m.ranks, rankOf(labels["dp_rank"]))
	case "max_total_num_tokens_swa", "swa_max_total_num_tokens":
		m.subPool("swa", n)
	case "page_size":
		m.page = n
	case "num_pages":
		m.pages = least(m.pages, n)
	case "context_len", "context_tokens":
		m.context = n
	case "cache_config_info":
		m.vllm(labels)
	case "requests_preempted_total", "num_preemptions_total", "num_retracted_requests_total":
		m.preempted = plus(m.preempted, n)
	case "pages":
		if labels["state"] == "held" || labels["state"] == "pending_drain" {
			m.held = plus(m.held, n)
		}
	case "num_used_tokens":
		m.held = plus(m.held, n)
	case "kv_cache_usage_perc", "gpu_cache_usage_perc": // a share of 1, in spite of the name
		m.usage = lifecycle.Some(max(m.usage.V, min(max(v, 0), 1)))
	case "protection_ran_total":
		m.ran(labels["protection"], v)
	default:
		return
	}
	m.samples++
}

// plus is the sum of what was said.
func plus(a, b lifecycle.Opt[int64]) lifecycle.Opt[int64] {
	if !b.Has {
		return a
	}
	return tokens(a.V+b.V, true)
}

func (m *metrics) ran(name string, v float64) {
	for i, known := range Protections {
		if known == name && v >= 0 {
			m.protect[i].Ran = uint64(min(v, math.MaxInt32))
		}
	}
}

// rankOf is how many ranks there are at least, if one has that number.
func rankOf(label string) int {
	n, err := strconv.Atoi(label)
	if err != nil || n < 0 || n >= maxRanks {
		return 0
	}
	return n + 1
}

func (m *metrics) subPool(name string, n lifecycle.Opt[int64]) {
	if !n.Has {
		return
	}
	for i := range m.sub {
		if m.sub[i].Name == name {
			m.sub[i].Tokens = min(m.sub[i].Tokens, n.V)
			return
		}
	}
	m.sub = append(m.sub, SubPool{name, n.V})
}

// vllm reads cache_config_info: one series an engine core. num_gpu_blocks is summed
// over them, kv_cache_size_tokens is of one.
func (m *metrics) vllm(labels map[string]string) {
	number := func(label string) lifecycle.Opt[int64] {
		n, err := strconv.ParseInt(labels[label], 10, 64)
		return tokens(n, err == nil)
	}
	m.page = number("block_size")
	m.pool = least(m.pool, number("kv_cache_size_tokens"))
	m.blocks = least(m.blocks, number("num_gpu_blocks"))
	if d := labels["cache_dtype"]; len(d) <= maxWord {
		m.dtype = printable(d)
	}
	m.ranks++
}

// finish says what the pool is once all series are read. Block 0 of vLLM is the
// null block: it counts in the pool and is never handed out.
func (m metrics) finish() metrics {
	switch {
	case m.kind == VLLM && m.page.Has:
		if !m.pool.Has && m.blocks.Has {
			m.pool = tokens(m.blocks.V/int64(max(m.ranks, 1))*m.page.V, true)
		}
		if m.pool.Has {
			m.null = min(m.page.V, m.pool.V)
			m.pool.V -= m.null
		}
		if m.usage.Has && m.pool.Has {
			m.held = lifecycle.Some(int64(math.Ceil(m.usage.V * float64(m.pool.V))))
		}
	case m.pages.Has && m.page.Has && m.page.V > 0 && m.pages.V <= lifecycle.MaxTokens/m.page.V:
		m.pool = least(m.pool, lifecycle.Some(m.pages.V*m.page.V))
	}
	return m
}

// sample reads NAME{LABELS} VALUE, where {LABELS} may be missing and a time may
// follow the value.
func sample(line string) (name string, labels map[string]string, v float64, ok bool) {
	end := strings.IndexAny(line, "{ ")
	if end < 0 {
		return "", nil, 0, false
	}
	name, rest := line[:end], line[end:]
	if rest[0] == '{' {
		if labels, rest, ok = readLabels(rest[1:]); !ok {
			return "", nil, 0, false
		}
	}
	v, ok = value(strings.TrimSpace(rest))
	return name, labels, v, ok
}

func value(text string) (float64, bool) {
	text, _, _ = strings.Cut(text, " ")
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil && !math.IsNaN(v) && math.Abs(v) < 1<<60
}

// readLabels reads name="value",… up to and with the closing brace.
func readLabels(text string) (labels map[string]string, rest string, ok bool) {
	labels = map[string]string{}
	for {
		text = strings.TrimLeft(text, " ,")
		if after, closed := strings.CutPrefix(text, "}"); closed {
			return labels, after, true
		}
		name, after, found := strings.Cut(text, `="`)
		if !found || len(labels) >= maxLabels {
			return nil, "", false
		}
		v, after, closed := quoted(after)
		if !closed {
			return nil, "", false
		}
		labels[name], text = v, after
	}
}

// quoted reads a value up to and with its closing quote.
func quoted(text string) (v, rest string, closed bool) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return b.String(), text[i+1:], true
		case c == '\\' && i+1 < len(text):
			i++
			if text[i] == 'n' {
				b.WriteByte('\n')
			} else {
				b.WriteByte(text[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}
