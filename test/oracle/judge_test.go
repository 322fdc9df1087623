package oracle

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// A trace in these tests is JSON Lines with what repeats left out: the letter
// before a line is its instance, of which it is a fact of src engine unless the
// line says otherwise, and lines are a millisecond apart unless they say t.
var instances = map[byte]string{'d': "decode", 'p': "prefill", 'q': "prefill2", 'e': "engine", '-': ""}

// facts decodes a trace.
func facts(t *testing.T, trace string) (all []*lifecycle.Fact) {
	t.Helper()
	dec := lifecycle.NewJSONDecoder()
	ms := 0
	for line := range strings.Lines(trace) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		ms++
		head := ""
		if inst := instances[line[0]]; inst != "" {
			head += fmt.Sprintf(`"inst":%q,`, inst)
		}
		if !strings.Contains(line, `"src":`) {
			head += `"src":"engine",`
		}
		if !strings.Contains(line, `"t":`) {
			head += fmt.Sprintf(`"t":%d,`, ms*1_000_000)
		}
		f, err := dec.Decode([]byte("{" + head + strings.TrimSpace(line[1:])[1:]))
		if err != nil {
			t.Fatalf("line %d: %v\n%s", ms, err, line)
		}
		all = append(all, f)
	}
	return all
}

// told writes a finding as the tests do: "stale_read engine r1 kv 0-1 of a".
func told(f finding.Finding) string {
	words := []string{f.Kind.String(), f.Inst, f.Req, f.Pool, lifecycle.Runs(f.Pages).String()}
	for n, p := range f.Exposed {
		if n == 0 {
			words = append(words, "of")
		}
		words = append(words, p.Req+p.Domain.Or("?"))
	}
	words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
	return strings.Join(words, " ")
}

// expect holds the findings of a trace against those that it must give, one a
// line, in any order.
func expect(t *testing.T, trace string, want ...string) []finding.Verdict {
	t.Helper()
	findings, verdicts := Judge(facts(t, trace), Config{})
	var got []string
	for _, f := range findings {
		got = append(got, told(f))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
	return verdicts
}

// outcome is the verdict on a room at an instance, or on a request of no room.
func outcome(t *testing.T, verdicts []finding.Verdict, room, inst, req string) string {
	t.Helper()
	for _, v := range verdicts {
		if v.Room == room && v.Inst == inst && (room != "" || v.Req == req) {
			return v.Verdict.String()
		}
	}
	t.Fatalf("no verdict on room %q, request %q at %s", room, req, inst)
	return ""
}

// Beginnings that many traces share.
const (
	// engine opens one pool of its own.
	engine = `e {"ev":"pool_opened","pool":"kv","pages":64,"page_tokens":64}
	`
	// two requests of two tenants.
	tenants = `e {"ev":"request_admitted","req":"a","domain":"A"}
	e {"ev":"request_admitted","req":"b","domain":"B"}
	`
	// halves opens the pools of a prefill and a decode instance.
	halves = `d {"ev":"pool_opened","pool":"kv","pages":64,"page_tokens":64}
	p {"ev":"pool_opened","pool":"kv","pages":64,"page_tokens":64}
	`
	// watched is the same with two pages of 4 KiB a region, all writes seen.
	watched = `d {"ev":"pool_opened","pool":"kv","pages":64,"page_tokens":64,"regions":[{"base":65536,"stride":4096,"bytes":4096}]}
	p {"ev":"pool_opened","pool":"kv","pages":64,"page_tokens":64}
	d {"ev":"source_coverage","src":"sidecar","of":"rdma","complete":true}
	`
	// reserve names two pages on decode for a prompt of two pages.
	reserve = `d {"ev":"request_admitted","req":"r","room":"1","prompt_tokens":128}
	d {"ev":"pages_reserved","req":"r","pool":"kv","pages":[[0,2]]}
	d {"ev":"transfer_started","xfer":"x","room":"1","side":"receiver","pool":"kv","pages":[[0,2]],"peer":"prefill"}
	`
	// send admits on prefill, computes and sends.
	send = `p {"ev":"request_admitted","req":"r","room":"1","prompt_tokens":128}
	` + push
	push = `p {"ev":"pages_reserved","req":"r","pool":"kv","pages":[[8,2]]}
	p {"ev":"pages_written","req":"r","pool":"kv","pages":[[8,2]],"by":"forward"}
	p {"ev":"transfer_started","xfer":"x","room":"1","side":"sender","pool":"kv","pages":[[8,2]],"peer":"decode"}
	`
	arrived = `d {"ev":"pages_written","req":"r","pool":"kv","pages":[[0,2]],"by":"transfer"}
	`
	bytes = `d {"ev":"bytes_moved","src":"rdma","addr":65536,"bytes":8192,"from":"prefill","xfer":"x"}
	`
	complete = `d {"ev":"transfer_completed","xfer":"x","room":"1","peer":"prefill","status":"ok","last":true}
	`
	read = `d {"ev":"pages_read","req":"r","pool":"kv","pages":[[0,2]]}
	`
	success = `d {"ev":"request_finished","req":"r","room":"1","status":200,"finish":"stop"}
	`
	// filled: a reserves and fills two pages of the engine.
	filled = `e {"ev":"pages_reserved","req":"a","pool":"kv","pages":[[0,2]]}
	e {"ev":"pages_written","req":"a","pool":"kv","pages":[[0,2]],"by":"forward"}
	`
	// cached: the cache takes them, a gives them up.
	cached = filled + `e {"ev":"pages_cached","req":"a","pool":"kv","pages":[[0,2]],"key":"k"}
	e {"ev":"pages_released","req":"a","pool":"kv","pages":[[0,2]]}
	`
	// handed: a gives its pages up, b gets them.
	handed = filled + `e {"ev":"pages_released","req":"a","pool":"kv","pages":[[0,2]]}
	e {"ev":"pages_reserved","req":"b","pool":"kv","pages":[[0,2]]}
	`
)
