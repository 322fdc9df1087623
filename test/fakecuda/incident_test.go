package fakecuda

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/test/live"
)

// The incident to scale, as test/e2e plays it: pages of 64 tokens, eight on decode and
// four on prefill, a context of 512, and a prompt of B that owes eight pages.
const (
	pageTokens = 64
	owed       = 8
	promptOfB  = owed*pageTokens - pageTokens/2
	secret     = "amber-harbor-42"
)

// node is the processes of the incident: router, prefill and decode, whose pages are
// those of the stand-in for a GPU, and a sidecar.
type node struct {
	t               *testing.T
	prefill, decode *live.Process
	router          *live.Process
	sidecar         *live.Sidecar
	record          string // the trace of what decode says
}

// shape is what differs between nodes.
type shape struct {
	prefill string   // its backend
	pages   int      // of prefill
	more    []string // settings of both
}

// drilled is the shape of the incident, with more settings of the drill.
func drilled(more ...string) shape {
	return shape{"cuda", owed / 2, append([]string{"--drill", scheduler.RejectedHandoff.String()}, more...)}
}

// begin starts the processes.
func begin(t *testing.T, s shape) *node {
	t.Helper()
	env := environment(t, "12")
	dir, err := live.ShortDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	bin := commands(t, env)
	for _, e := range env {
		if key, value, _ := strings.Cut(e, "="); key == "LD_LIBRARY_PATH" {
			t.Setenv(key, value)
		}
	}
	keys := filepath.Join(dir, "keys")
	if err := os.WriteFile(keys, []byte("alpha key-a\nbeta key-b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	bootstrap, err := live.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, record: filepath.Join(dir, "decode.jsonl")}
	common := append([]string{
		"serve", "--port", "0", "--key-file", keys, "--events-dir", filepath.Join(dir, "ev"), "--dtype", "bfloat16",
		"--page-tokens", fmt.Sprint(pageTokens), "--context-tokens", fmt.Sprint(owed * pageTokens),
	}, s.more...)
	engine := filepath.Join(bin, "kvengine")
	n.prefill = n.start(engine, "serving", append(slices.Clone(common), "--role", "prefill", "--backend", s.prefill, "--pages", fmt.Sprint(s.pages+1), "--bootstrap-port", bootstrap)...)
	n.decode = n.start(engine, "serving", append(slices.Clone(common), "--role", "decode", "--backend", "cuda", "--pages", fmt.Sprint(owed+1), "--prefill", "127.0.0.1:"+bootstrap, "--events-record", n.record)...)
	n.router = n.start(engine, "routing", "router", "--port", "0", "--prefill", n.prefill.Said["url"], "--decode", n.decode.Said["url"])
	n.sidecar, err = live.StartSidecar(filepath.Join(bin, "kvwitness"), "prefill="+n.prefill.Said["url"]+",decode="+n.decode.Said["url"], live.Unhurried...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.sidecar.Kill)
	err = live.Await("an answer", func() bool {
		status, _ := n.ask("key-a", "hello", 1, false)
		return status == http.StatusOK
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *node) start(path, word string, args ...string) *live.Process {
	n.t.Helper()
	p, err := live.Start(path, word, args...)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(p.Kill)
	return p
}

func (n *node) ask(key, prompt string, tokens int, stream bool) (status int, raw string) {
	n.t.Helper()
	return ask(n.t, n.router.Said["url"], key, prompt, tokens, stream)
}

// ask asks for a completion.
func ask(t *testing.T, url, key, prompt string, tokens int, stream bool) (status int, raw string) {
	t.Helper()
	body, _ := json.Marshal(map[string]any{"prompt": prompt, "max_tokens": tokens, "stream": stream})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/completions", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

// fill has tenant A's text lie in all of decode's pages.
func (n *node) fill() {
	n.t.Helper()
	prompt := strings.Repeat("my secret is "+secret+"\n", 10)[:200]
	if status, raw := n.ask("key-a", prompt, owed*pageTokens-len(prompt), false); status != http.StatusOK || !strings.Contains(raw, secret) {
		n.t.Fatalf("A is answered %d %s", status, raw)
	}
}

// metric is a number of decode's.
func (n *node) metric(name string) string {
	n.t.Helper()
	resp, err := http.Get(n.decode.Said["url"] + "/metrics")
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, is := strings.CutPrefix(line, name+" "); is {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Promise: what a prefill computed and digested on a CPU is, on the GPU of a decode,
// the same: the answer is right, with the digest compared and the tags checked.
func TestPagesOfACPUAreGoodOnCUDA(t *testing.T) {
	n := begin(t, shape{"cpu", owed, nil})
	prompt := strings.Repeat("to be or not to be, that is the question\n", 7)
	status, raw := n.ask("key-a", prompt, 40, false)
	var got struct{ Choices []struct{ Text string } }
	if err := json.Unmarshal([]byte(raw), &got); err != nil || status != http.StatusOK || len(got.Choices) != 1 {
		t.Fatalf("%d %s", status, raw)
	}
	if want := string(model.Expect([]byte(prompt), 40)); got.Choices[0].Text != want {
		t.Errorf("answer %q, want %q", got.Choices[0].Text, want)
	}
	for _, p := range []scheduler.Protection{scheduler.HandoffDigest, scheduler.PageTags} {
		if ran := n.metric(fmt.Sprintf("kvengine_protection_ran_total{protection=%q}", p)); ran == "" || ran == "0" {
			t.Errorf("%v ran %q times", p, ran)
		}
	}
}

// Promise: the incident is the same with the pages on a GPU: through router and
// sockets B is answered 200, with A's secret.
func TestTheIncidentOfProcessesOnCUDA(t *testing.T) {
	n := begin(t, drilled())
	for _, p := range []*live.Process{n.prefill, n.decode} {
		if !strings.Contains(p.Notes(), "fakecuda (a CPU)") {
			t.Fatalf("the pages lie elsewhere: %s", p.Notes())
		}
	}
	n.fill()
	if status, raw := n.ask("key-b", strings.Repeat("b", promptOfB), pageTokens/2, false); status != http.StatusOK || !strings.Contains(raw, secret) {
		t.Errorf("B is answered %d %s", status, raw)
	}
}

// Promise: page tags stop it with every other protection off: eight pages are handed
// out, one is written, seven fault, and no token leaves, streamed or not, of an answer
// of one token either. The error, the event and the finding name the page.
func TestPageTagsAloneStopTheIncidentOfProcessesOnCUDA(t *testing.T) {
	var off []string
	for p := range scheduler.NumProtections {
		if p != scheduler.PageTags {
			off = append(off, p.String())
		}
	}
	n := begin(t, drilled("--drill-keep", scheduler.PageTags.String(), "--drill-off", strings.Join(off, ",")))
	n.fill()
	const asked = 3
	for i, c := range [asked]struct {
		tokens int
		stream bool
	}{{pageTokens / 2, false}, {pageTokens / 2, true}, {1, true}} {
		status, raw := n.ask("key-b", strings.Repeat("b", promptOfB), c.tokens, c.stream)
		if status != http.StatusInternalServerError || strings.Contains(raw, "data:") || strings.Contains(raw, `"text"`) ||
			!strings.Contains(raw, `"page_tag"`) || !strings.Contains(raw, "page 8 (entry 7 of the block table)") {
			t.Errorf("B is answered %d %s", status, raw)
		}
		if got, want := n.metric("kvengine_page_tag_faults_total"), fmt.Sprint((i+1)*(owed-1)); got != want {
			t.Errorf("%s faults, want %s", got, want)
		}
	}
	n.checkFindings(asked)
	n.checkEvents(asked)
}

// checkFindings wants the sidecar to name the seven pages that did not come, and those
// of them that were read and not written, for each request. Decode appends to the
// eighth page itself, and claims so: only that it did not come is said of it.
func (n *node) checkFindings(asked int) {
	n.t.Helper()
	found, err := n.sidecar.Rest(0)
	if err != nil {
		n.t.Fatal(err)
	}
	for kind, pages := range map[string][2]uint32{"short_handoff": {2, owed - 1}, "stale_read": {2, owed - 2}} {
		named := 0
		for _, f := range found {
			if f.Said.Kind == kind && slices.Equal(f.Said.Pages, [][2]uint32{pages}) {
				named++
			}
		}
		if named != asked {
			n.t.Errorf("%d findings %s name the pages %v, want %d: %+v", named, kind, pages, asked, found)
		}
	}
}

// checkEvents wants decode to have said which page it was, for each request.
func (n *node) checkEvents(asked int) {
	n.t.Helper()
	if _, err := n.decode.Stop(); err != nil {
		n.t.Fatal(err)
	}
	in, err := os.Open(n.record)
	if err != nil {
		n.t.Fatal(err)
	}
	defer in.Close()
	r := lifecycle.NewReader(in, n.record)
	named := 0
	var f *lifecycle.Fact
	for f, err = r.Next(); err == nil; f, err = r.Next() {
		if f.Ev == lifecycle.RequestAborted && strings.Contains(f.Reason, "page 8 (entry 7 of the block table)") {
			named++
		}
	}
	if !errors.Is(err, io.EOF) {
		n.t.Fatal(err)
	}
	if named != asked {
		n.t.Errorf("%d events name the page, want %d", named, asked)
	}
}
