package oracle

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// word picks one of a few names, so that facts meet.
func word(r *rand.Rand, words ...string) string { return words[r.IntN(len(words))] }

// number is small, or at an end of what a decoder lets through.
func number(r *rand.Rand, limit uint64) uint64 {
	if limit == 0 {
		return 0
	}
	switch r.IntN(40) {
	case 0:
		return limit
	case 1:
		return limit - min(limit, r.Uint64N(3))
	case 2:
		return r.Uint64N(limit)
	}
	return r.Uint64N(min(limit, 9) + 1)
}

func randomRuns(r *rand.Rand) string {
	var runs []string
	for range r.IntN(3) {
		first := number(r, lifecycle.MaxPages-1)
		count := uint64(1)
		if r.IntN(2) == 0 {
			count = 1 + number(r, lifecycle.MaxPages-first-1)
		}
		runs = append(runs, fmt.Sprintf("[%d,%d]", first, count))
	}
	return "[" + strings.Join(runs, ",") + "]"
}

// fields are values for every field that an event may carry; a decoder takes
// those that belong to it.
func fields(r *rand.Rand, ev string) []string {
	pages := randomRuns(r)
	from, to, status := `"prefill"`, `0`, word(r, `"ok"`, `"failed"`)
	op := word(r, "push", "pull")
	switch ev {
	case "pool_opened":
		pages = fmt.Sprint(number(r, lifecycle.MaxPages))
	case "pages_copied":
		from = `{"pool":"kv","pages":` + randomRuns(r) + `}`
		to = `{"pool":"kv","pages":` + randomRuns(r) + `}`
	case "stream_gap":
		low := number(r, 1<<62)
		from, to = fmt.Sprint(low), fmt.Sprint(low+number(r, 1<<62))
	case "bytes_moved":
		from, status, op = `"`+word(r, "prefill", "decode")+`"`, word(r, `"ok"`, `"posted"`, `"error"`), word(r, "write", "read")
	case "request_rejected", "request_finished":
		status = word(r, "200", "400")
	}
	return []string{
		`"pages":` + pages, `"from":` + from, `"to":` + to, `"status":` + status, `"op":"` + op + `"`,
		`"pool":"` + word(r, "kv", "swa") + `"`, `"req":"` + word(r, "a", "b", "c") + `"`, `"room":"` + word(r, "1", "2") + `"`,
		`"domain":"` + word(r, "", "A", "B") + `"`, `"key":"` + word(r, "k", "l") + `"`, `"holder":"cache"`,
		`"prompt_tokens":` + fmt.Sprint(number(r, lifecycle.MaxTokens)), `"prefix_tokens":` + fmt.Sprint(number(r, lifecycle.MaxTokens)),
		`"tokens":` + fmt.Sprint(number(r, lifecycle.MaxTokens)), `"synthetic":true`, `"finish":"` + word(r, "stop", "abort") + `"`,
		`"by":"` + word(r, "forward", "transfer", "reload", "copy") + `"`, `"xfer":"` + word(r, "x", "y") + `"`,
		`"side":"` + word(r, "receiver", "sender") + `"`, `"peer":"` + word(r, "prefill", "decode") + `"`, `"last":true`,
		`"addr":` + fmt.Sprint(number(r, math.MaxUint64-lifecycle.MaxBytes-1)), `"bytes":` + fmt.Sprint(number(r, lifecycle.MaxBytes)),
		`"base":` + fmt.Sprint(number(r, math.MaxUint64-lifecycle.MaxBytes-1)), `"from_addr":` + fmt.Sprint(number(r, math.MaxUint64)),
		`"digest":"` + word(r, "s", "t") + `"`, `"prompt_page":` + fmt.Sprint(number(r, lifecycle.MaxTokens)), `"name":"n","state":"ran"`,
		`"of":"` + word(r, "engine", "rdma", "wire", "tcp") + `"`, `"complete":` + word(r, "true", "true", "false"), `"count":3`,
		`"ns":` + fmt.Sprint(int64(number(r, lifecycle.MaxTime))), `"free":1,"cached":2,"held":` + fmt.Sprint(number(r, lifecycle.MaxPages)),
		`"gpu":"0","pid":` + fmt.Sprint(number(r, 9)), `"page_tokens":` + fmt.Sprint(1+number(r, lifecycle.MaxTokens-1)),
		`"page_bytes":` + fmt.Sprint(number(r, lifecycle.MaxBytes)), `"context_tokens":` + fmt.Sprint(number(r, lifecycle.MaxTokens)),
		`"null_ids":` + randomRuns(r), `"owes":"` + word(r, "all", "window", "state", "none") + `"`,
		`"window":` + fmt.Sprint(number(r, lifecycle.MaxTokens)), `"since":"` + word(r, "start", "attach") + `"`,
		`"path":"` + word(r, "direct", "direct", "staged") + `"`, `"layers":[0,4],"kv_heads":2`, `"pids":[7]`, `"role":"` + word(r, "kv", "host") + `"`,
		`"regions":[{"base":` + fmt.Sprint(number(r, 1<<62)) + `,"stride":8,"bytes":` + fmt.Sprint(1+r.IntN(8)) + `,"part":"` + word(r, "kv", "staging") + `"}]`,
	}
}

var eventNames = []string{
	"pool_opened", "pool_closed", "request_admitted", "request_rejected", "request_aborted", "request_finished",
	"pages_reserved", "pages_shared", "pages_written", "pages_copied", "pages_read", "pages_cached", "pages_released",
	"pages_evicted", "transfer_started", "transfer_completed", "transfer_drained", "peer_gone", "pool_audit",
	"region_registered", "region_deregistered", "bytes_moved", "content_digest", "protection", "vram_usage",
	"source_coverage", "stream_gap", "events_lost", "watermark", "clock_offset", "of_a_later_version",
}

// randomFact writes one fact that a decoder lets through, most of the time.
func randomFact(r *rand.Rand, t *int64) string {
	ev := eventNames[r.IntN(len(eventNames))]
	*t += int64(r.IntN(8)) * 1_000_000
	at := *t
	if r.IntN(20) == 0 {
		early, late := int64(number(r, lifecycle.MaxTime)), int64(number(r, lifecycle.MaxTime))
		at = late - early
	}
	line := fmt.Sprintf(`{"ev":%q,"t":%d,"inst":%q,"src":%q,"node":%q`, ev, at,
		word(r, "decode", "prefill"), word(r, "engine", "engine", "wire", "rdma", "sidecar", "http"), word(r, "n", "m"))
	for _, header := range []string{`"epoch":`, `"seq":`, `"step":`} {
		if r.IntN(5) == 0 {
			line += "," + header + fmt.Sprint(number(r, 1<<61))
		}
	}
	for _, field := range fields(r, ev) {
		if r.IntN(8) > 0 {
			line += "," + field
		}
	}
	return line + "}"
}

func TestNoDecodableFactsMakeItPanicAndTheSameFactsGiveTheSame(t *testing.T) {
	dec := lifecycle.NewJSONDecoder()
	decoded := 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		var all []*lifecycle.Fact
		at := int64(0)
		for len(all) < 80 {
			if f, err := dec.Decode([]byte(randomFact(r, &at))); err == nil {
				all = append(all, f)
			}
		}
		decoded += len(all)
		findings, verdicts := judgeOrSay(t, seed, all)
		again, verdictsAgain := Judge(all, Config{})
		if !reflect.DeepEqual(findings, again) || !reflect.DeepEqual(verdicts, verdictsAgain) {
			t.Fatalf("seed %d: the same facts give other findings or verdicts", seed)
		}
	}
	if decoded == 0 {
		t.Fatal("no fact was decodable")
	}
}

func FuzzJudgeNeverPanics(f *testing.F) {
	for _, name := range []string{"incident", "incident-observed", "break-write_after_release", "case-01-posted-and-failed", "near-early_release-restart"} {
		raw, err := os.ReadFile(filepath.Join("..", "traces", name+".jsonl"))
		if err != nil {
			f.Fatal(err)
		}
		lines := strings.SplitAfterN(string(raw), "\n", 10) // short ones: what is found is minimised
		f.Add([]byte(strings.Join(lines[:9], "")), uint64(1))
	}
	f.Fuzz(func(t *testing.T, lines []byte, seed uint64) {
		dec := lifecycle.NewJSONDecoder()
		r := rand.New(rand.NewPCG(seed, 2))
		at := int64(0)
		var all []*lifecycle.Fact
		for line := range strings.Lines(string(lines)) {
			if fact, err := dec.Decode([]byte(line)); err == nil {
				all = append(all, fact)
				at = fact.T
			}
			if fact, err := dec.Decode([]byte(randomFact(r, &at))); err == nil && r.IntN(4) == 0 {
				all = append(all, fact)
			}
			if len(all) > 200 {
				break
			}
		}
		Judge(all, Config{})
	})
}

func judgeOrSay(t *testing.T, seed uint64, all []*lifecycle.Fact) ([]finding.Finding, []finding.Verdict) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			t.Fatalf("seed %d: panic: %v\n%s", seed, p, debug.Stack())
		}
	}()
	return Judge(all, Config{})
}
