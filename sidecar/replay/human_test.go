package replay

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/ledger"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; if the change is meant, run go test ./sidecar/replay -update\ngot:\n%s", path, got)
	}
}

// night is what a tired person is shown: the incident's shape, a foreign write
// by a nameless writer, a finding about an instance, and warm-up traffic.
func night() *script {
	long := "transfer x-1 of room 1182734 is complete: ok, and nothing more of this room comes to this receiver; it said 1 token"
	return &script{
		at: map[int64][]finding.Finding{
			1_000_000_000: {{
				Kind: finding.Blind, Severity: finding.Warning, T: 1_000_000_000, Node: "n1", Inst: "decode-0/tp1",
				Observation: "12 events of rdma lost at stage ring",
			}},
			2_000_000_000: {{
				Kind: finding.StaleRead, Severity: finding.Critical, T: 2_000_150_000, Node: "n1", Inst: "decode-0/tp1",
				Req: "r-9", Room: "1182734", Pool: "kv", Pages: finding.Pages{{First: 9, Count: 7}},
				Claim: "attention read 8 pages", Observation: "7 of them were not written since they were handed out",
				Exposed: []finding.Party{
					{Inst: "decode-0/tp1", Req: "r-3", Domain: lifecycle.Some("9f86d081")},
					{Inst: "decode-0/tp1", Req: "r-4"},
				},
			}, {
				Kind: finding.ShortHandoff, Severity: finding.Critical, T: 2_000_100_000, Node: "n1", Inst: "decode-0/tp1",
				Req: "r-9", Room: "1182734", Pool: "kv", Pages: finding.Pages{{First: 9, Count: 7}},
				Claim: long, Observation: "1 of 8 owed pages was written",
				Exposed: []finding.Party{{Inst: "decode-0/tp1", Req: "r-3", Domain: lifecycle.Some("9f86d081")}, {Inst: "decode-0/tp1", Domain: lifecycle.Some("")}},
			}},
			3_000_000_000: {{
				Kind: finding.CapacityInversion, Severity: finding.High, T: 500, Node: "n2", Inst: "prefill-0", Pool: "kv",
				Claim: "context of 1048576 tokens", Observation: "the pool holds 681280 tokens",
			}, {
				Kind: finding.RejectedHandoff, Severity: finding.High, T: 3_000_000_000, Node: "n1", Inst: "decode-0/tp1",
				Req: "warm-up", Synthetic: true, Claim: "rejected with 400",
			}},
		},
		verdicts: []finding.Verdict{
			{Verdict: finding.Violated, Req: "r-9", Room: "1182734", Inst: "decode-0/tp1", Why: "short_handoff"},
			{Verdict: finding.Unwitnessed, Req: "r-10", Inst: "decode-0/tp1", Why: "nobody watched the bytes"},
		},
		stats: ledger.Stats{Late: 2, Duplicates: 1},
	}
}

const nightTrace = `{"ev":"trace","version":1,"node":"n1","wall":"2026-09-09T13:22:00Z"}
{"t":1000000000,"inst":"i","src":"engine","ev":"pages_pinned"}
{"t":1500000000,"src":"sidecar","ev":"events_lost","of":"rdma","count":12}
{"t":2000000000,"inst":"i","src":"engine","ev":"pool_closed","pool":"kv"}
{"t":3000000000,"inst":"i","src":"engine","ev":"pool_closed","pool":"kv"}
`

// show plays the night at a look.
func show(t *testing.T, judge *script, look Look) string {
	t.Helper()
	traces, err := Open([]string{file(t, "night.jsonl", nightTrace)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer traces.Close()
	var out bytes.Buffer
	look.Wall = traces.Wall
	if _, err := Run(traces, judge, NewText(&out, look)); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestATiredPersonCanReadIt(t *testing.T) {
	golden(t, "night-100.txt", show(t, night(), Look{Width: 100}))
	golden(t, "night-60.txt", show(t, night(), Look{Width: 60}))
	golden(t, "night-verdicts-color.txt", show(t, night(), Look{Width: 100, Color: true, Verdicts: true}))
}

func TestNoLineIsWiderThanAsked(t *testing.T) {
	for _, width := range []int{50, 64, 80, 100, 140} {
		for line := range strings.Lines(show(t, night(), Look{Width: width})) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > width {
				t.Errorf("%d of %d: %q", n, width, line)
			}
		}
	}
}

// A trace is hostile: a name must not move the cursor, colour or turn text.
func TestNoNameReachesTheTerminalAsAControl(t *testing.T) {
	const evil = "a\x1b[2J\rb\x00\u202ec\u009b\x7f\nd"
	judge := &script{
		atEnd: []finding.Finding{{
			Kind: finding.StaleRead, Inst: evil, Node: evil, Req: evil, Room: evil, Pool: evil, Claim: evil, Observation: evil,
			Exposed: []finding.Party{{Inst: evil, Req: evil, Domain: lifecycle.Some(evil)}},
		}},
		verdicts: []finding.Verdict{{Inst: evil, Req: evil, Room: evil, Why: evil}},
	}
	out := show(t, judge, Look{Width: 100, Verdicts: true})
	for _, r := range out {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Fatalf("%q in %q", r, out)
		}
	}
	var s Summary
	s.countUnknown(evil)
	if line := strings.Join(s.Lines(), ""); strings.ContainsAny(line, "\x1b\r\n\x00") {
		t.Errorf("%q", line)
	}
}

func TestManyIncidentsArePrintedAsTheyComeWithinBounds(t *testing.T) {
	var out bytes.Buffer
	text := NewText(&out, Look{Width: 100, Wall: func(string, int64) (w time.Time, known bool) { return w, false }})
	many := finding.Finding{Kind: finding.StaleRead, Inst: "i"}
	for i := range uint32(100) {
		many.Pages = append(many.Pages, lifecycle.Run{First: 2 * i, Count: 1})
		many.Exposed = append(many.Exposed, finding.Party{Inst: "i", Req: fmt.Sprint(i)})
	}
	for i := range 2 * maxHeld {
		many.Room = fmt.Sprint(i)
		if err := text.Finding(&many); err != nil {
			t.Fatal(err)
		}
		if text.held.held > maxHeld || i >= maxHeld && text.held.held > 0 {
			t.Fatalf("%d findings held after %d", text.held.held, i)
		}
		if i == 0 {
			in := text.held.all[0]
			if f := in.findings[0]; len(f.Pages) != maxRuns || f.pages != 100 || len(in.exposed) != maxExposed || in.unshown != 100-maxExposed {
				t.Fatalf("kept %d runs of %d pages, %d parties and %d", len(f.Pages), f.pages, len(in.exposed), in.unshown)
			}
			many.Pages, many.Exposed = many.Pages[:1], many.Exposed[:1]
		}
	}
	if err := text.End(&Summary{}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\nINCIDENT "); n != 2*maxHeld-1 {
		t.Errorf("%d incidents printed after the first", n)
	}
	if !strings.Contains(out.String(), "These were 10,000 findings.") {
		t.Error("it does not say that incidents are no longer put together")
	}
}

func TestJSONIsOneObjectALineAndNothingElse(t *testing.T) {
	var out, notes bytes.Buffer
	if _, err := play(t, night(), NewLines(&out, &notes, true), nightTrace); err != nil {
		t.Fatal(err)
	}
	golden(t, "night.jsonl", out.String())
	for line := range strings.Lines(out.String()) {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			t.Errorf("%v: %s", err, line)
		}
		_, isFinding := object["kind"]
		_, isVerdict := object["verdict"]
		if isFinding == isVerdict {
			t.Errorf("neither a finding nor a verdict: %s", line)
		}
	}
	if !strings.Contains(notes.String(), "5 findings") {
		t.Errorf("the summary is not among the notes: %s", notes.String())
	}
	out.Reset()
	if _, err := play(t, night(), NewLines(&out, &notes, false), nightTrace); err != nil || strings.Contains(out.String(), `"verdict"`) {
		t.Errorf("verdicts that nobody asked for, or %v", err)
	}
}

func TestTheSummaryCountsWhatTheJudgementLacks(t *testing.T) {
	s := Summary{Files: 2, Facts: 1234567, Lost: 9, Ledger: ledger.Stats{Late: 1, Duplicates: 3, Outdated: 4, Missing: 5, Forgotten: ledger.Forgotten{Pools: 6}}}
	for i := range maxUnknown + 5 {
		s.countUnknown(fmt.Sprint("ev", i))
	}
	text := strings.Join(s.Lines(), "\n")
	for _, want := range []string{
		"1,234,567 facts from 2 traces: no finding", "verdicts: 0 violated, 0 clean, 0 unwitnessed",
		"21 events that this version does not know (other 5, ev0 1", "1 fact that came too late", "3 facts that came twice",
		"4 facts of epochs that are over", "9 events that were lost", "5 sequence numbers that never came", "6 things forgotten",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	whole := Summary{Files: 1, Facts: 1}
	if text := strings.Join(whole.Lines(), "\n"); strings.Contains(text, "lacks") {
		t.Errorf("a whole judgement lacks something: %s", text)
	}
}
