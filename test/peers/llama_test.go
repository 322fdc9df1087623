package peers

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/engine/backend/cpu"
	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/engine/model/llama"
	"github.com/kvwitness/kvwitness/kernels/reference"
	realmodel "github.com/kvwitness/kvwitness/test/model"
)

// loaded is the model here and at the peer.
func loaded(t *testing.T) (*model.Model, *program) {
	t.Helper()
	path, err := realmodel.File(t.Context(), "../model")
	must(t, err)
	m, err := llama.Open(path)
	must(t, err)
	t.Cleanup(func() { must(t, m.Close()) })
	peer := start(t, "requirements-llama.txt", "llama_peer.py", "OPENBLAS_NUM_THREADS=1")
	peer.ask(map[string]any{"op": "load", "path": path}, nil)
	return m, peer
}

// Promise: a text's tokens are those of the tokenizers package, in all scripts and
// whatever stands side by side; a chat's are those of the file's own template.
func TestTheModelsTokensAreThoseOfTokenizers(t *testing.T) {
	m, peer := loaded(t)
	texts := []string{
		"Hello world, it's 12345 days; they've said  we'll   see\n\n\nx\t y", "def f(x):\n    return x**2  # ½ ² ٣ ५\n",
		"ÄÖÜ ß naïve Ελλάδα Привет мир 你好，世界 こんにちは 한국어 שלום مرحبا", "👩‍👩‍👧 e\u0301 \u00a0\u2003\u3000x\u0085y \u200b", "'S 'LL 're''ve", " ", "\n",
	}
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 4))
	pool := []rune(" \n\t'abcstrevmld12²٣.,;<|>_\u00a0é你👩\u0301\x01")
	for range 150 {
		var b strings.Builder
		for range 1 + r.IntN(30) {
			b.WriteRune(pool[r.IntN(len(pool))])
		}
		texts = append(texts, b.String())
	}
	var got struct{ Tokens []model.Token }
	for _, text := range texts {
		peer.ask(map[string]any{"op": "encode", "text": text}, &got)
		if here := m.Encode([]byte(text)); !slices.Equal(here, got.Tokens) {
			t.Errorf("seed %d: %q: %v, want %v", seed, text, here, got.Tokens)
		}
	}
	for _, chat := range [][]model.Message{
		{{Role: "user", Content: "What is the capital of France?"}},
		{{Role: "system", Content: "Be brief."}, {Role: "user", Content: "1 + 1"}, {Role: "assistant", Content: "2\n"}, {Role: "user", Content: " and 2?"}},
	} {
		var messages []map[string]string
		for _, c := range chat {
			messages = append(messages, map[string]string{"role": c.Role, "content": c.Content})
		}
		peer.ask(map[string]any{"op": "chat", "messages": messages}, &got)
		if here, err := m.EncodeChat(chat); err != nil || !slices.Equal(here, got.Tokens) {
			t.Errorf("%v: %v (%v), want %v", chat, here, err, got.Tokens)
		}
	}
}

// logitsAgree is how far a logit may be off, of the largest.
const logitsAgree = 1e-5

// Promise: on fixed prompts the logits are those of numpy in float64, and so is the
// token that is chosen.
func TestTheModelsLogitsAreThoseOfNumpy(t *testing.T) { compareLogits(t, "logits") }

// Promise: and they are those of llama.cpp.
func TestTheModelsLogitsAreThoseOfLlamaCpp(t *testing.T) { compareLogits(t, "llama.cpp") }

// compareLogits compares the logits of some prompts' last tokens with the peer's.
func compareLogits(t *testing.T, op string) {
	m, peer := loaded(t)
	chat, err := m.EncodeChat([]model.Message{{Role: "user", Content: "What is the capital of France?"}})
	must(t, err)
	texts := [][]model.Token{
		chat, m.Encode([]byte("my secret is 5f2a99c1\nmy secret is 5f2a99c1\nmy secret is")), m.Encode([]byte("def add(a, b):")),
	}
	var got struct{ Logits []string }
	peer.ask(map[string]any{"op": op, "texts": texts}, &got)
	be, err := cpu.New(m.Network, cpu.Config{Pages: 1 + 3*len(texts), PageTokens: 16, DType: reference.Float32})
	must(t, err)
	defer be.Close()
	for i, text := range texts {
		raw, err := base64.StdEncoding.DecodeString(got.Logits[i])
		must(t, err)
		want := make([]float64, m.Size())
		must(t, binary.Read(bytes.NewReader(raw), binary.LittleEndian, want))
		here := lastLogits(t, be, text, 1+3*i)
		largest, worst, at, atHere := 0.0, 0.0, 0, 0
		for j, w := range want {
			largest, worst = max(largest, math.Abs(w)), max(worst, math.Abs(w-float64(here[j])))
			if w > want[at] {
				at = j
			}
			if here[j] > here[atHere] {
				atHere = j
			}
		}
		t.Logf("text %d: a logit is off by at most %.2g, the largest is %.3g", i, worst, largest)
		if !(worst <= logitsAgree*largest) || at != atHere {
			t.Errorf("text %d: off by %g of %g; token %d, want %d", i, worst, largest, atHere, at)
		}
	}
}

// lastLogits computes a text into three pages from one on, and returns the logits of
// its last token.
func lastLogits(t *testing.T, be backend.Backend, text []model.Token, page int) []float32 {
	t.Helper()
	var table []backend.Block
	for i := range 3 {
		table = append(table, backend.Block{Page: int32(page + i), Tag: reference.NewTag(1, 0)})
	}
	results := make([]backend.Result, 1)
	must(t, be.Forward([]backend.Sequence{{Tokens: text, Table: table, Logits: true}}, results))
	logits, err := results[0].Logits()
	must(t, err)
	return logits
}
