package gate

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/canary"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/source/engineinfo"
	"github.com/kvwitness/kvwitness/test/attach"
)

// engine is what a running engine that gives these answers says of itself.
func engine(t *testing.T, name string, role engineinfo.Role, a *attach.Answers) Engine {
	t.Helper()
	web := httptest.NewServer(a)
	defer web.Close()
	c, err := engineinfo.New(engineinfo.Config{URL: web.URL, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	p := c.Ask(t.Context(), engineinfo.Poll{})
	if role == engineinfo.UnknownRole {
		role = p.Role
	}
	return Engine{Name: name, Role: role, Info: p.Info}
}

func decide(t *testing.T, section string, p *Picture) Report {
	t.Helper()
	s, err := Select(section)
	if err != nil {
		t.Fatal(err)
	}
	return Decide(s, p)
}

// failed are the names of the checks with that status.
func with(r Report, s Status) (names []string) {
	for _, c := range r.Checks {
		if c.Status == s && !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
	}
	return names
}

func changed(a *attach.Answers, change func(*attach.Answers)) *attach.Answers {
	change(a)
	return a
}

func TestPoolsAreHeldAgainstContexts(t *testing.T) {
	const million = 1048576
	underscored := func(a *attach.Answers) { a.Metrics = strings.ReplaceAll(a.Metrics, "sglang:", "sglang_") }
	nullContext := func(a *attach.Answers) { a.ServerInfo["context_length"] = nil }
	for name, c := range map[string]struct {
		prefill, decode *attach.Answers
		exit            int
		names           []string // of what did not pass
	}{
		"the incident":          {attach.SGLang("prefill", 681280, million, 64), attach.SGLang("decode", 2040000, million, 64), 3, []string{"pool.context", "pool.peer_context", "pool.peer_size"}},
		"the incident, metrics": {changed(attach.SGLang("prefill", 681280, million, 64), func(a *attach.Answers) { underscored(a); a.ServerInfo, a.Models = nil, nil }), attach.SGLang("decode", 2097152, million, 64), 3, []string{"pool.context", "pool.peer_context", "pool.peer_size"}},
		"sglang 30233":          {attach.SGLang("prefill", 284928, million, 64), attach.SGLang("decode", 284928, million, 64), 3, []string{"pool.context", "pool.peer_context"}},
		"decode is larger":      {attach.SGLang("prefill", 256000, 200000, 64), attach.SGLang("decode", 512000, 300032, 64), 3, []string{"pool.peer_context", "pool.peer_size"}},
		"twice the context":     {attach.SGLang("prefill", 2*million, million, 64), attach.SGLang("decode", 2*million, million, 64), 0, nil},
		"as repaired":           {changed(attach.SGLang("prefill", 2097152, million, 64), underscored), changed(attach.SGLang("decode", 4194304, million, 64), nullContext), 0, nil},
		"null context":          {changed(attach.SGLang("prefill", 681280, million, 64), func(a *attach.Answers) { nullContext(a); a.Metrics = "" }), attach.SGLang("decode", 681280, 681280, 64), 3, []string{"pool.context", "pool.peer_context"}},
		"context on one alone":  {attach.SGLang("prefill", 200000, 131072, 64), attach.SGLang("decode", 200000, 262144, 64), 3, []string{"pool.context", "pool.peer_context"}},
		"pages differ":          {attach.SGLang("prefill", 128000, 65536, 64), attach.SGLang("decode", 128000, 65536, 32), 3, []string{"pool.layout"}},
		"types differ":          {changed(attach.SGLang("prefill", 128000, 65536, 64), func(a *attach.Answers) { a.ServerInfo["kv_cache_dtype"] = "fp8_e4m3" }), attach.SGLang("decode", 128000, 65536, 64), 3, []string{"pool.layout"}},
		"vLLM holds it":         {attach.VLLM(1001, 16, 16016, 16000, 1), attach.VLLM(1001, 16, 16016, 16000, 1), 0, nil},
		"short by null pages":   {attach.VLLM(1000, 16, 16000, 16000, 1), attach.VLLM(1001, 16, 16016, 16000, 1), 3, []string{"pool.context", "pool.peer_context", "pool.peer_size"}},
		"old, by null pages":    {attach.VLLM(1000, 16, 0, 16000, 1), attach.VLLM(1000, 16, 0, 16000, 1), 3, []string{"pool.context", "pool.peer_context"}},
		"nothing is said":       {&attach.Answers{}, attach.SGLang("decode", 2*million, million, 64), 4, []string{"pool.context", "pool.peer_context", "pool.peer_size", "pool.layout"}},
		"vLLM without metrics":  {changed(attach.VLLM(1001, 16, 0, 16000, 1), func(a *attach.Answers) { a.Metrics = "" }), attach.VLLM(1001, 16, 0, 16000, 1), 4, []string{"pool.context", "pool.peer_context", "pool.peer_size", "pool.layout"}},
		"an empty sub-pool":     {changed(attach.SGLang("prefill", 128000, 65536, 64), func(a *attach.Answers) { a.Metrics += "sglang:max_total_num_tokens_swa 0\n" }), attach.SGLang("decode", 128000, 65536, 64), 3, []string{"pool.sub"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Picture{Engines: []Engine{engine(t, "p", engineinfo.Prefill, c.prefill), engine(t, "d", engineinfo.Decode, c.decode)}}
			r := decide(t, "pool", p)
			status := []Status{Pass, Pass, Pass, Fail, Unchecked}[c.exit]
			if r.Exit() != c.exit || c.exit != 0 && !slices.Equal(with(r, status), c.names) {
				t.Errorf("exit %d, %v: %v", r.Exit(), with(r, status), r)
			}
			for _, check := range r.Checks {
				if (check.Status == Pass) == (check.Mend != "") || check.Asked == "" || check.Expected == "" || check.Found == "" {
					t.Errorf("%+v", check)
				}
			}
		})
	}
	if r := decide(t, "pool", &Picture{}); r.Exit() != 4 {
		t.Errorf("no engine: %d", r.Exit())
	}
}

// good is a picture in which all is well.
func good() *Picture {
	p := &Picture{Trials: map[Trial]Outcome{}, Preempted: lifecycle.Some(int64(3)), Witness: &Witness{Findings: map[string]int{}, Why: map[string]int{}, Clean: 9, HungUp: 2, Interrupted: 1}}
	for _, role := range []engineinfo.Role{engineinfo.Prefill, engineinfo.Decode} {
		e := Engine{Name: role.String(), Role: role, Held: lifecycle.Some(int64(0))}
		e.Info.Pool, e.Info.Context, e.Info.PageTokens = lifecycle.Some(int64(2000)), lifecycle.Some(int64(1000)), lifecycle.Some(int64(16))
		for i := range e.Info.Protections {
			e.Info.Protections[i] = engineinfo.Protection{Said: true, On: true, Ran: 5}
		}
		p.Engines = append(p.Engines, e)
	}
	for trial := range NumTrial {
		o := Outcome{Want: canary.Recalled}
		if trial == OverContext || trial == OverPool {
			o.Want = canary.Refused
		}
		o.Got[o.Want] = 2
		p.Trials[trial] = o
	}
	return p
}

func TestWhatIsWellPasses(t *testing.T) {
	if r := decide(t, "all", good()); r.Exit() != 0 {
		t.Errorf("%v %v", with(r, Fail), with(r, Unchecked))
	}
}

func TestWhatIsWrongIsNamedAndWhatWasNotSeenIsNoPass(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *Picture)
		status Status
		check  string
	}{
		"lost": {func(p *Picture) { o := p.Trials[Valid]; o.Got[canary.Lost] = 1; p.Trials[Valid] = o }, Fail, "admission.valid"},
		"answered": {func(p *Picture) {
			p.Trials[OverPool] = Outcome{Want: canary.Refused, Got: [canary.NumOutcome]int{canary.Recalled: 2}}
		}, Fail, "admission.over_pool"},
		"an error": {func(p *Picture) {
			p.Trials[OverContext] = Outcome{Want: canary.Refused, Got: [canary.NumOutcome]int{canary.Failed: 1}}
		}, Fail, "admission.over_context"},
		"not tried":      {func(p *Picture) { delete(p.Trials, Holding) }, Unchecked, "admission.holding"},
		"none preempted": {func(p *Picture) { p.Preempted = lifecycle.Some(int64(0)) }, Unchecked, "admission.preempted"},
		"pages are left": {func(p *Picture) { p.Engines[1].Held = lifecycle.Some(int64(4)) }, Fail, "admission.released"},
		"no sidecar":     {func(p *Picture) { p.Witness = nil }, Unchecked, "transfer.witnessed"},
		"a deaf sidecar": {func(p *Picture) { p.Witness.Problem = "refused" }, Unchecked, "lifetime.early_release"},
		"nothing clean":  {func(p *Picture) { p.Witness.Clean = 0 }, Unchecked, "transfer.short_handoff"},
		"half seen":      {func(p *Picture) { p.Witness.Unseen("a gap") }, Unchecked, "transfer.witnessed"},
		"not completed":  {func(p *Picture) { p.Witness.Interrupted = 3 }, Unchecked, "transfer.witnessed"},
		"violated":       {func(p *Picture) { p.Witness.Violated = 1 }, Fail, "transfer.witnessed"},
		"off":            {func(p *Picture) { p.Engines[0].Info.Protections[engineinfo.DeferredRelease].On = false }, Fail, "lifetime.deferred_release"},
		"on, never ran": {func(p *Picture) {
			for i := range p.Engines {
				p.Engines[i].Info.Protections[engineinfo.Checksum].Ran = 0
			}
		}, Unchecked, "transfer.checksum"},
		"not said": {func(p *Picture) {
			for i := range p.Engines {
				p.Engines[i].Info.Protections[engineinfo.Canary] = engineinfo.Protection{}
			}
		}, Unchecked, "transfer.canary"},
		"a disconnect tears": {func(p *Picture) { p.Witness.Findings["early_release"] = 1 }, Fail, "lifetime.disconnect"},
	} {
		p := good()
		c.change(p)
		if r := decide(t, "all", p); !slices.Contains(with(r, c.status), c.check) || r.Status != c.status {
			t.Errorf("%s: %s, failed %v, unchecked %v", name, r.Status, with(r, Fail), with(r, Unchecked))
		}
	}
	p := good()
	p.Engines[0].Info.Protections[engineinfo.Checksum].On = false
	p.Without = map[string]bool{"checksum": true}
	if r := decide(t, "all", p); r.Exit() != 0 {
		t.Errorf("what is done without: %v", with(r, Fail))
	}
}

// A kind of finding that no check asks for would pass unseen.
func TestEveryKindOfFindingFailsACheckOfItsName(t *testing.T) {
	for k := range finding.NumKind {
		p := good()
		p.Witness.Findings[k.String()] = 1
		p.Witness.Examples = map[string]string{k.String(): "an example"}
		r := decide(t, "all", p)
		named := slices.ContainsFunc(with(r, Fail), func(name string) bool { return strings.HasSuffix(name, "."+k.String()) })
		if named != (k != finding.Blind) {
			t.Errorf("%s: %v", k, with(r, Fail))
		}
	}
}

func TestReportsAreReadByMachines(t *testing.T) {
	p := good()
	p.Engines[0].Info.Pool = lifecycle.Some(int64(5))
	p.Engines[0].Name = `<a & "b">`
	p.Preempted = lifecycle.Opt[int64]{}
	r := decide(t, "all", p)
	var out bytes.Buffer
	if err := r.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Status string
		Checks []struct{ Name, On, Status, Mend string }
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got.Status != "fail" || len(got.Checks) != len(r.Checks) || got.Checks[0].Status != "fail" || got.Checks[0].Mend == "" {
		t.Errorf("%v: %s", err, out.String())
	}
	out.Reset()
	if err := r.WriteJUnit(&out); err != nil {
		t.Fatal(err)
	}
	var junit suite
	if err := xml.Unmarshal(out.Bytes(), &junit); err != nil || junit.Tests != len(r.Checks) || junit.Failures != len(all(r, Fail)) || junit.Errors != 1 || junit.Failures == 0 {
		t.Errorf("%v: %+v", err, junit)
	}
	if c := junit.Cases[0]; c.Name != `pool.context <a & "b">` || c.Failure == nil || !strings.Contains(c.Failure.Text, "mend: ") {
		t.Errorf("%+v", c)
	}
	out.Reset()
	if err := r.WriteText(&out); err != nil || !strings.Contains(out.String(), "FAIL       pool.context") || !strings.Contains(out.String(), "1 could not be checked") {
		t.Errorf("%v: %s", err, out.String())
	}
}

func all(r Report, s Status) (n []Check) {
	for _, c := range r.Checks {
		if c.Status == s {
			n = append(n, c)
		}
	}
	return n
}
