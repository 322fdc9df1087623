package traces_test

import (
	"testing"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/test/traces"
)

func stale(t int64, req string, exposed ...finding.Party) finding.Finding {
	return finding.Finding{
		Kind: finding.StaleRead, T: t, Inst: "engine-0", Req: req, Pool: "kv",
		Pages: finding.Pages{{First: 4, Count: 2}, {First: 1, Count: 1}}, Exposed: exposed,
	}
}

// A comparison that overlooks a difference would make every trace worthless.
func TestDiffSeesEveryDifference(t *testing.T) {
	party := finding.Party{Inst: "engine-0", Req: "a-1", Domain: lifecycle.Some("d7f0a1")}
	base := func() []finding.Finding {
		blind := finding.Finding{Kind: finding.Blind, T: 2, Inst: "engine-0"}
		return []finding.Finding{stale(1, "r1", party), stale(2, "r2"), stale(2, "r3"), blind}
	}
	verdicts := []finding.Verdict{{Verdict: finding.Clean, Req: "r1", Inst: "engine-0"}, {Verdict: finding.Violated, Req: "r2", Inst: "engine-0"}}
	want := traces.Expect{Findings: traces.OfFindings(base()), Verdicts: traces.OfVerdicts(verdicts)}

	same := map[string]func(f []finding.Finding, v []finding.Verdict){
		"nothing":                 func([]finding.Finding, []finding.Verdict) {},
		"order of verdicts":       func(_ []finding.Finding, v []finding.Verdict) { v[0], v[1] = v[1], v[0] },
		"order of one time":       func(f []finding.Finding, _ []finding.Verdict) { f[1], f[2] = f[2], f[1] },
		"later said, earlier due": func(f []finding.Finding, _ []finding.Verdict) { f[0], f[3] = f[3], f[0] },
		"order of runs": func(f []finding.Finding, _ []finding.Verdict) {
			f[0].Pages = finding.Pages{{First: 1, Count: 1}, {First: 4, Count: 1}, {First: 5, Count: 1}}
		},
	}
	for what, change := range same {
		f, v := base(), append([]finding.Verdict(nil), verdicts...)
		change(f, v)
		if diff := want.Diff(traces.OfFindings(f), traces.OfVerdicts(v)); diff != "" {
			t.Errorf("%s: a difference where there is none:\n%s", what, diff)
		}
	}

	other := map[string]func(f []finding.Finding, v []finding.Verdict){
		"kind":           func(f []finding.Finding, _ []finding.Verdict) { f[0].Kind = finding.ForeignPage },
		"instance":       func(f []finding.Finding, _ []finding.Verdict) { f[0].Inst = "engine-1" },
		"request":        func(f []finding.Finding, _ []finding.Verdict) { f[0].Req = "r9" },
		"room":           func(f []finding.Finding, _ []finding.Verdict) { f[0].Room = "7" },
		"pool":           func(f []finding.Finding, _ []finding.Verdict) { f[0].Pool = "swa" },
		"pages":          func(f []finding.Finding, _ []finding.Verdict) { f[0].Pages = f[0].Pages[:1] },
		"nobody exposed": func(f []finding.Finding, _ []finding.Verdict) { f[0].Exposed = nil },
		"unknown domain": func(f []finding.Finding, _ []finding.Verdict) {
			f[0].Exposed = []finding.Party{{Inst: "engine-0", Req: "a-1"}}
		},
		"empty domain": func(f []finding.Finding, _ []finding.Verdict) {
			f[0].Exposed = []finding.Party{{Inst: "engine-0", Req: "a-1", Domain: lifecycle.Some("")}}
		},
		"order of times":      func(f []finding.Finding, _ []finding.Verdict) { f[0].T = 3 },
		"verdict":             func(_ []finding.Finding, v []finding.Verdict) { v[0].Verdict = finding.Unwitnessed },
		"verdict's request":   func(_ []finding.Finding, v []finding.Verdict) { v[0].Req = "r2" },
		"verdict's room":      func(_ []finding.Finding, v []finding.Verdict) { v[0].Room = "7" },
		"verdict's instance":  func(_ []finding.Finding, v []finding.Verdict) { v[0].Inst = "engine-1" },
		"the same said twice": func(f []finding.Finding, _ []finding.Verdict) { f[2] = f[1] },
	}
	for what, change := range other {
		f, v := base(), append([]finding.Verdict(nil), verdicts...)
		change(f, v)
		if want.Diff(traces.OfFindings(f), traces.OfVerdicts(v)) == "" {
			t.Errorf("%s: no difference seen", what)
		}
	}
	if want.Diff(traces.OfFindings(base()[:3]), traces.OfVerdicts(verdicts)) == "" {
		t.Error("a missing finding: no difference seen")
	}
	if want.Diff(traces.OfFindings(base()), traces.OfVerdicts(verdicts[:1])) == "" {
		t.Error("a missing verdict: no difference seen")
	}
}
