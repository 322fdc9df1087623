package model

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Promise: the rule of the built-in network, by examples.
func TestExpectFollowsTheLongestSuffixFromItsFirstPlace(t *testing.T) {
	for _, c := range []struct {
		name, prompt string
		max          int
		want         string
	}{
		{"continues what came before", "the key is 4711; the key is", 5, " 4711"},
		{"the first of two", " x=1 x=2 x=", 1, "1"},
		{"a longer match beats an earlier one", "zzcd2 abcd1 abcd", 1, "1"},
		{"six tokens are the longest that count", "8abcdefg2 7abcdefg1 7abcdefg", 1, "2"},
		{"a token that never came before: newline, then end", "abc", 5, "\n"},
		{"end at once after a newline", "abc\n", 5, ""},
		{"a run continues itself", "aa", 3, "aaa"},
		{"the limit", "abab", 3, "aba"},
		{"nothing asked", "abab", 0, ""},
		{"an empty prompt", "", 5, "\n"},
	} {
		if got := string(Expect([]byte(c.prompt), c.max)); got != c.want {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

// Promise: the answer in a chat ends where the earlier message ended.
func TestAnAnswerEndsWhereTheEarlierTurnEnded(t *testing.T) {
	prompt := EncodeTurns([]byte("the password is swordfish"), []byte("the password is"))
	answer, ended := ExpectTokens(prompt, 100)
	if string(Decode(answer)) != " swordfish" || !ended {
		t.Fatalf("got %q, ended %v", Decode(answer), ended)
	}
}

// Promise: text goes through tokens unchanged, and no byte makes a special.
func TestEncodeKeepsEveryByte(t *testing.T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	tokens := Encode(all)
	if got := Decode(tokens); !slices.Equal(got, all) {
		t.Fatalf("got %v", got)
	}
	if slices.Contains(tokens, EOT) || slices.Contains(tokens, BOS) {
		t.Fatal("a byte became a special")
	}
	if got := Encode(nil); !slices.Equal(got, []Token{BOS}) {
		t.Fatalf("empty text: %v", got)
	}
	if got := EncodeTurns(); !slices.Equal(got, []Token{BOS}) {
		t.Fatalf("empty chat: %v", got)
	}
}

// answerInFloat64 runs the network over a whole text with attention in float64 and
// no pages, and returns the logits of its last token.
func answerInFloat64(n Network, text []Token) []float32 {
	s := n.Spec()
	positions := make([]int, len(text))
	for i := range positions {
		positions[i] = i
	}
	x := make([]float32, len(text)*s.Dim)
	n.Embed(text, positions, x)
	q, o := make([]float32, len(text)*s.Heads*s.HeadDim), make([]float32, len(text)*s.Heads*s.HeadDim)
	k, v := make([]float32, len(text)*s.KVHeads*s.HeadDim), make([]float32, len(text)*s.KVHeads*s.HeadDim)
	for layer, spec := range s.Layers {
		n.Keys(layer, positions, x, k, v)
		n.Queries(layer, positions, x, q)
		for i := range text {
			first := 0
			if spec.Window > 0 {
				first = max(0, i-spec.Window+1)
			}
			for h := range s.Heads {
				at := (i*s.Heads + h) * s.HeadDim
				attendOne(s, q[at:at+s.HeadDim], k, v, h/(s.Heads/s.KVHeads), first, i, float64(spec.Sinks[h]), o[at:at+s.HeadDim])
			}
		}
		n.Combine(layer, x, o)
	}
	logits := make([]float32, s.Vocab)
	n.Logits(x[(len(text)-1)*s.Dim:], logits)
	return logits
}

func attendOne(s Spec, q, k, v []float32, kvHead, first, last int, sink float64, out []float32) {
	scores, top := make([]float64, last+1), sink
	row := func(kv []float32, t int) []float32 { return kv[(t*s.KVHeads+kvHead)*s.HeadDim:][:s.HeadDim] }
	for t := first; t <= last; t++ {
		for i, x := range row(k, t) {
			scores[t] += float64(q[i]) * float64(x)
		}
		scores[t] *= float64(s.Scale)
		top = max(top, scores[t])
	}
	sum, acc := math.Exp(sink-top), make([]float64, s.HeadDim)
	for t := first; t <= last; t++ {
		w := math.Exp(scores[t] - top)
		sum += w
		for i, x := range row(v, t) {
			acc[i] += w * float64(x)
		}
	}
	for i := range out {
		out[i] = float32(acc[i] / sum)
	}
}

// Promise: the weights do what the string comparison says, for texts in which
// suffixes of every length, and none, are found; and by a margin that a
// temperature of 2 cannot blur.
func TestWeightsAgreeWithTheOracle(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 2))
	n := NewInduction()
	for range 100 {
		alphabet := 1 + r.IntN(40)
		text := make([]Token, 1+r.IntN(60))
		for i := range text {
			text[i] = Token(r.IntN(alphabet))
			if r.IntN(20) == 0 {
				text[i] = []Token{EOT, BOS, '\n', 255}[r.IntN(4)]
			}
		}
		logits := answerInFloat64(n, text)
		got, _ := NewSampler(0, 0).Pick(logits)
		if want := follow(text); got != want {
			t.Fatalf("seed %d: %v is followed by %d, want %d", seed, text, got, want)
		}
		for i, l := range logits {
			if Token(i) != got && logits[got]-l < 30 {
				t.Fatalf("seed %d: %v: token %d at %g is close to %d at %g", seed, text, i, l, got, logits[got])
			}
		}
	}
}
