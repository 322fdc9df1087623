package demo

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/model"
)

func finding(kind, room string, delay float64, exposed ...party) (f found) {
	f.Said.Kind, f.Said.Room, f.Said.Exposed, f.Delay = kind, room, exposed, delay
	return f
}

func TestWhatIsNotAsItShouldBeIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		row  row
		says string
	}{
		"a status":  {row{Status: map[int]int{500: 2}, Verdict: "violated", Leaked: true}, "2 answers with HTTP 500"},
		"no leak":   {row{Status: map[int]int{200: 1}, Verdict: "violated"}, "a secret in another's answer: false"},
		"a verdict": {row{Status: map[int]int{200: 1}, Verdict: "clean", Why: "luck", Leaked: true}, "the verdict is clean (luck)"},
		"a finding": {row{Status: map[int]int{200: 1}, Verdict: "violated", Leaked: true, found: []found{finding("double_hold", "1", 0)}}, "double_hold"},
	} {
		r := c.row
		r.expect(200, true, "violated")
		r.allow("stale_read")
		if len(r.Wrong) != 1 || !strings.Contains(r.Wrong[0], c.says) {
			t.Errorf("%s: %q", name, r.Wrong)
		}
	}
	good := row{Status: map[int]int{200: 1}, Verdict: "violated", Leaked: true, found: []found{finding("stale_read", "1", 0)}}
	good.expect(200, true, "violated")
	if good.allow("stale_read"); good.Wrong != nil {
		t.Errorf("%q", good.Wrong)
	}
}

func TestARowSumsUpItsFindings(t *testing.T) {
	a := party{"d", "1", "0123456789"}
	r := row{room: "7", token: time.Unix(100, 0), found: []found{
		finding("capacity_inversion", "", 0.5), finding("stale_read", "7", 0.004, a), finding("stale_read", "7", 0.009, a), finding("short_handoff", "7", 0.006, a),
	}}
	for i := range r.found {
		r.found[i].At = time.Unix(100, 0).Add(time.Duration(i-3) * time.Millisecond)
	}
	r.summarize()
	if r.Findings["stale_read"] != 2 || len(r.Exposed) != 1 || r.Delay["stale_read"] != 4 || r.Delay["short_handoff"] != 6 || len(r.Delay) != 2 {
		t.Errorf("%+v", r)
	}
	if r.First == nil || *r.First != 2 {
		t.Errorf("the first finding of the room came %v ms before the token", r.First)
	}
	if r.after() != "6.0 ms" || r.exposed() != "req 1 of 01234567…" || r.kinds() != "capacity_inversion short_handoff stale_read" {
		t.Errorf("%s, %s, %s", r.after(), r.exposed(), r.kinds())
	}
}

// Promise: whatever secrets are drawn, A is answered with its own, and what decode
// then finds in its pages gives it away to B.
func TestEverySecretCanLeak(t *testing.T) {
	const prompt = 200 // of A
	unwritten := func(n int) (all []model.Token) {
		for i := range n {
			all = append(all, -1-model.Token(i))
		}
		return all
	}
	for _, written := range []int{prompt, pageTokens} { // all of it, and a liar's page
		for range 3000 {
			a := newTenants("a", "b", "c")[0]
			pages := model.Encode(bytes.Repeat([]byte("-"+question+a.secret+"\n"), prompt))[:prompt]
			first, _ := model.ExpectTokens(pages, 1)
			pages = append(append(pages[:written:written], unwritten(prompt-written)...), first...)
			answer, _ := model.ExpectTokens(pages, contextTokens-prompt-1)
			if pages = append(pages, answer...); len(pages) != contextTokens {
				t.Fatalf("secret %q: A is answered %d tokens", a.secret, len(pages)-prompt)
			}
			if !strings.Contains(string(model.Decode(pages[prompt:])), a.secret) {
				t.Fatalf("secret %q: A is answered %q", a.secret, model.Decode(pages[prompt:]))
			}
			b := model.Encode([]byte(strings.Repeat(filler, promptTokens-len(question)) + question))
			first, _ = model.ExpectTokens(b, 1)
			seen := append(append(b[:pageTokens:pageTokens], pages[pageTokens:promptTokens]...), first...)
			if answer, _ = model.ExpectTokens(seen, answerTokens-1); !leaks(string(model.Decode(answer)), a.secret) {
				t.Fatalf("secret %q, %d tokens of A's prompt written: B is answered %q", a.secret, written, model.Decode(answer))
			}
		}
	}
}

func TestASecretLeaksByHalfOfIt(t *testing.T) {
	const secret = "0123456789abcdef"
	for text, want := range map[string]bool{"x 01234567 y": true, "89abcdef": true, "345678": false, "": false, secret: true} {
		if leaks(text, secret) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

func TestTheEnvironmentOfADemoIsItsOwn(t *testing.T) {
	got := clean([]string{"PATH=/bin", "KVENGINE_DRILL=none", "KVWITNESS_SETTLE=1s", "HOME=/"})
	if len(got) != 2 || got[0] != "PATH=/bin" || got[1] != "HOME=/" {
		t.Errorf("%v", got)
	}
}
