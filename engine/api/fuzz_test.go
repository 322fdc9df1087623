package api

import (
	"testing"
	"unicode/utf8"

	"github.com/kvwitness/kvwitness/engine/model"
)

// Promise: no body panics, and what is accepted is within the bounds and of the
// vocabulary.
func FuzzParseBody(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"prompt":"x","max_tokens":3,"stop":["a","b"],"stream":true}`, `{"prompt":[1,2,257]}`, `{"prompt":["x"]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"temperature":1.5,"seed":-1}`,
		`{"bootstrap_room":18446744073709551615}`, `{"n":1e300}`, `[]`, `null`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, e := ParseBody(raw)
		if e != nil {
			if e.Status != 400 {
				t.Errorf("status %d", e.Status)
			}
			return
		}
		if n, e := b.maxTokens(); e == nil && n < 1 {
			t.Errorf("%d tokens", n)
		}
		if stops, e := b.stops(); e == nil {
			_ = model.CheckStops(stops)
		}
		for _, prompt := range []func(model.Vocabulary) ([]model.Token, *Error){b.completionPrompt, b.chatPrompt} {
			tokens, e := prompt(model.Bytes{})
			if e == nil && len(tokens) == 0 {
				t.Error("an empty prompt was accepted")
			}
			for _, token := range tokens {
				if token < 0 || token >= model.Vocab {
					t.Errorf("token %d", token)
				}
			}
		}
	})
}

// Promise: no abort panics, and one that is accepted names a request or all of them.
func FuzzParseAbort(f *testing.F) {
	for _, s := range []string{`{}`, `{"rid":"a"}`, `{"abort_all":true}`, `{"rid":["a"]}`, `null`, `{"rid":"","abort_all":null}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, e := ParseAbort(raw)
		if (b == nil) == (e == nil) || e != nil && e.Status != 400 {
			t.Errorf("%+v, %v", b, e)
		}
		if b != nil && (b.RID == "" && !b.All || len(b.RID) > MaxRIDBytes) {
			t.Errorf("accepted %+v", b)
		}
	})
}

// Promise: no key file panics, and a domain never shows its tenant.
func FuzzParseKeys(f *testing.F) {
	f.Add([]byte("alpha key-a\n# x\n\nbeta key-b"))
	f.Fuzz(func(t *testing.T, text []byte) {
		k, err := ParseKeys(text)
		if err == nil && (len(k.tenants) == 0 || len(k.Domain("tenant", "")) != 2*domainLen || k.Domain("ab", "c") == k.Domain("a", "bc")) {
			t.Errorf("%+v", k)
		}
	})
}

// Promise: a stream cut anywhere gives the same text as the whole.
func FuzzRunes(f *testing.F) {
	f.Add([]byte("aß€😀"), 3)
	f.Add([]byte{0xff, 0xe2, 0x82}, 1)
	f.Fuzz(func(t *testing.T, text []byte, at int) {
		if at < 0 || at > len(text) {
			return
		}
		var r runes
		got := r.take(text[:at], false) + r.take(text[at:], true)
		if got != string(text) || at > 0 && utf8.Valid(text) && !utf8.ValidString(r.take(nil, true)) {
			t.Errorf("%q cut at %d is %q", text, at, got)
		}
	})
}
