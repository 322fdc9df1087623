package logs

import (
	"math/bits"
	"strconv"
	"strings"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

const (
	// maxPageTokens is how many tokens a page is taken to have where a log says how
	// large a pool is, and not how large its pages are.
	maxPageTokens = 64
	// maxPoolPages bounds the pages of a pool that a log tells of.
	maxPoolPages = 1 << 21
	maxName      = lifecycle.MaxID
)

// Line is a kind of line that is known.
type Line uint8

// The lines that are known; Other is any that is not, and Unread those that could not be
// read: too long, in no form that is known, or dropped by who should have kept them.
const (
	Other Line = iota
	Rejected
	TimeStats
	CanaryViolation
	Checksum
	DeferredRelease
	Corruption
	Pool
	Unread
	NumLine
)

var lineNames = [NumLine]string{"other", "rejected", "time_stats", "canary", "checksum", "deferred_release", "corruption", "pool", "unread"}

func (l Line) String() string { return lineNames[l] }

// marks are what a line of each kind holds.
var marks = []struct {
	text string
	line Line
}{
	{"exceeds the maximum allowed length", Rejected},
	{"exceeds the maximum number of tokens", Rejected},
	{"ReqTimeStats(", TimeStats},
	{"kv_canary violation", CanaryViolation},
	{"KV checksum mismatch", Checksum},
	{"Deferred KV release for room", DeferredRelease},
	{"Context corruption detected", Corruption},
	{"max_total_num_tokens=", Pool},
	{"KV cache size:", Pool}, // after GPU or CPU
	{"Maximum concurrency for", Pool},
}

// Parser reads the lines of one engine's log. It is for one goroutine.
type Parser struct {
	// Emit takes the facts of a line, without time, node and instance.
	Emit func(*lifecycle.Fact)

	Count [NumLine]uint64

	pool, context, page int64
	opened              [2]int64 // what was told of the pool and the context
	ran                 map[string]bool
}

// Read reads one line.
func (p *Parser) Read(line string) {
	kind := Other
	for _, m := range marks {
		if strings.Contains(line, m.text) {
			kind = m.line
			break
		}
	}
	p.Count[kind]++
	switch kind {
	case Rejected:
		p.rejected(line)
	case TimeStats:
		p.timeStats(line)
	case CanaryViolation:
		p.protection("canary")
	case Checksum:
		p.protection("checksum")
	case DeferredRelease:
		p.protection("deferred-release")
	case Pool:
		p.size(line)
	}
}

// rejected: "Input length (N tokens) exceeds the maximum allowed length (M tokens)…,
// self.rid='…'", and of a door "Request RID exceeds the maximum number of tokens: N > M".
func (p *Parser) rejected(line string) {
	f := lifecycle.Fact{Ev: lifecycle.RequestRejected, HTTPStatus: 400, Reason: "the input is longer than the log says is allowed"}
	f.Req, f.Room = name(line, "rid="), room(line)
	if at := strings.Index(line, "Request "); f.Req == "" && at >= 0 {
		f.Req = name(line[at:], "Request ")
	}
	if f.Req != "" || f.Room != "" {
		if f.Req == "" {
			f.Req = "room-" + f.Room
		}
		p.Emit(&f)
	}
}

// timeStats: "ReqTimeStats(rid=…, bootstrap_room=…, input_len=…": what this half of a
// request took its prompt's length for.
func (p *Parser) timeStats(line string) {
	_, fields, _ := strings.Cut(line, "ReqTimeStats(")
	f := lifecycle.Fact{Ev: lifecycle.RequestAdmitted, Req: name(fields, "rid="), Room: room(fields)}
	if n, said := number(fields, "input_len="); said && n <= lifecycle.MaxTokens {
		f.PromptTokens = lifecycle.Some(n)
	}
	if f.Req == "" || f.Room == "" || !f.PromptTokens.Has {
		return
	}
	f.Synthetic = f.Room == "0" // a warm-up or health request of SGLang's
	end := lifecycle.Fact{Ev: lifecycle.RequestFinished, Req: f.Req, Room: f.Room}
	p.Emit(&f)
	p.Emit(&end)
}

// protection: a line that only a protection that runs writes.
func (p *Parser) protection(name string) {
	if p.ran[name] {
		return
	}
	if p.ran == nil {
		p.ran = map[string]bool{}
	}
	p.ran[name] = true
	p.Emit(&lifecycle.Fact{Ev: lifecycle.Protection, Protection: name, State: lifecycle.StateRan})
}

// size: SGLang "max_total_num_tokens=N, …, context_len=M"; vLLM "GPU KV cache size: N
// tokens" and "Maximum concurrency for M tokens per request".
func (p *Parser) size(line string) {
	for _, s := range []struct {
		before string
		at     *int64
	}{
		{"max_total_num_tokens=", &p.pool},
		{"KV cache size: ", &p.pool},
		{"context_len=", &p.context},
		{"Maximum concurrency for ", &p.context},
		{"page_size=", &p.page},
	} {
		if n, said := number(line, s.before); said && n > 0 && n <= lifecycle.MaxTokens {
			*s.at = n
		}
	}
	now := [2]int64{p.pool, p.context}
	if p.pool == 0 || p.context == 0 || now == p.opened {
		return
	}
	page := p.page
	if page == 0 || p.pool%page != 0 {
		page = min(maxPageTokens, int64(1)<<bits.TrailingZeros64(uint64(p.pool)))
	}
	if p.pool/page > maxPoolPages {
		return
	}
	p.opened = now
	p.Emit(&lifecycle.Fact{Ev: lifecycle.PoolOpened, Pool: "kv", Spec: &lifecycle.PoolSpec{
		Pages: uint32(p.pool / page), PageTokens: page, Role: "kv", ContextTokens: lifecycle.Some(p.context), Since: lifecycle.SinceAttach,
	}})
}

// Lose counts lines that could not be read.
func (p *Parser) Lose(lines uint64) { p.Count[Unread] += lines }

// Forget is for an engine that was started anew: what its protections and pools were is
// of before.
func (p *Parser) Forget() { p.ran, p.opened = nil, [2]int64{} }

// number is the whole number after a text, with or without commas in it.
func number(line, before string) (n int64, said bool) {
	_, rest, found := strings.Cut(line, before)
	if !found {
		return 0, false
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return (r < '0' || r > '9') && r != ',' })
	if end < 0 {
		end = len(rest)
	}
	digits := strings.ReplaceAll(strings.TrimRight(rest[:end], ","), ",", "")
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil
}

// room is the room that a line names, as digits.
func room(line string) string {
	for _, before := range []string{"bootstrap_room=", "for room ", "room="} {
		if _, rest, found := strings.Cut(line, before); found {
			end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
			if end < 0 {
				end = len(rest)
			}
			if end > 0 && end <= 20 {
				return rest[:end]
			}
		}
	}
	return ""
}

// name is a request's, of the characters that names have.
func name(line, before string) string {
	_, rest, found := strings.Cut(line, before)
	if !found {
		return ""
	}
	rest = strings.TrimLeft(rest, `'"`)
	end := strings.IndexFunc(rest, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' || r == ':')
	})
	if end < 0 {
		end = len(rest)
	}
	return rest[:min(end, maxName)]
}
