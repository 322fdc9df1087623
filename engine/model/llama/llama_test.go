package llama

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/engine/backend/cpu"
	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/engine/model/gguf"
	"github.com/kvwitness/kvwitness/kernels/reference"
	"github.com/kvwitness/kvwitness/test/model/ggufbuild"
)

const pageTokens = 16

func random(t testing.TB) *rand.Rand {
	seed := rand.Uint64()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 1))
}

func parsed(t testing.TB, b *ggufbuild.Builder) *gguf.File {
	t.Helper()
	f, err := gguf.Parse(b.File())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// pages is a backend whose pages are handed out once, in a random order.
type pages struct {
	backend.Backend
	free []int
}

func open(t testing.TB, r *rand.Rand, n model.Network, count int) *pages {
	t.Helper()
	b, err := cpu.New(n, cpu.Config{Pages: count, PageTokens: pageTokens})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return &pages{b, r.Perm(count)}
}

// logits computes a text in chunks, into pages of its own.
func (p *pages) logits(t testing.TB, text []model.Token, chunk int) []float32 {
	t.Helper()
	var table []backend.Block
	for range (len(text) + pageTokens - 1) / pageTokens {
		table = append(table, backend.Block{Page: int32(p.free[0]), Tag: reference.NewTag(1, 0)})
		p.free = p.free[1:]
	}
	results := make([]backend.Result, 1)
	for at := 0; at < len(text); at += chunk {
		end := min(at+chunk, len(text))
		s := backend.Sequence{Tokens: text[at:end], Start: at, Table: table, Logits: end == len(text)}
		if err := p.Forward([]backend.Sequence{s}, results); err != nil {
			t.Fatal(err)
		}
	}
	out, err := results[0].Logits()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(out)
}

// Promise: for every type of weights the logits are those of the definition in
// float64, through pages in any order; and the same to the last bit however the text
// is cut into chunks, down to one token at a time.
func TestLogitsAreThoseOfTheDefinition(t *testing.T) {
	r := random(t)
	for _, kind := range []gguf.Type{gguf.F32, gguf.F16, gguf.BF16, gguf.Q4_1, gguf.Q8_0} {
		var b ggufbuild.Builder
		f := parsed(t, b.Network(r, uint32(kind)))
		n, err := New(f, ggufbuild.VocabularySize())
		if err != nil {
			t.Fatal(err)
		}
		text := make([]model.Token, 50)
		for i := range text {
			text[i] = model.Token(r.IntN(ggufbuild.VocabularySize()))
		}
		p := open(t, r, n, 40)
		want, got := definition{f}.logits(text), p.logits(t, text, len(text))
		var size, worst float64
		for i, w := range want {
			size, worst = max(size, math.Abs(w)), max(worst, math.Abs(w-float64(got[i])))
		}
		if !(worst < 1e-5*size) {
			t.Errorf("%v: a logit is off by %g, the largest is %g", kind, worst, size)
		}
		for _, chunk := range []int{1, 7, 32} {
			if again := p.logits(t, text, chunk); !slices.Equal(again, got) {
				t.Errorf("%v: in chunks of %d the logits differ", kind, chunk)
			}
		}
		n.Close()
	}
}

// whole is a file with vocabulary and network.
func whole(r *rand.Rand) *ggufbuild.Builder {
	var b ggufbuild.Builder
	return b.Vocabulary().Network(r, uint32(gguf.Q8_0))
}

func write(t testing.TB, b *ggufbuild.Builder) (path string) {
	path = filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, b.File(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Promise: Open gives network and vocabulary of one size, and Close gives them back.
func TestOpenGivesAModel(t *testing.T) {
	m, err := Open(write(t, whole(random(t))))
	if err != nil {
		t.Fatal(err)
	}
	s := m.Spec()
	if s.Name != "tiny" || s.Vocab != m.Size() || s.MaxContext != ggufbuild.Context || len(s.Layers) != ggufbuild.Layers {
		t.Errorf("%+v, %d tokens", s, m.Size())
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// Promise: what would be computed wrongly is refused before anything is computed.
func TestWhatIsNotUnderstoodIsRefused(t *testing.T) {
	r := random(t)
	for name, b := range map[string]*ggufbuild.Builder{
		"scaled positions":     whole(r).Key("llama.rope.scaling.type", "yarn"),
		"linear positions":     whole(r).Key("llama.rope.scale_linear", float32(2)),
		"half of a head turns": whole(r).Key("llama.rope.dimension_count", uint32(8)),
		"longer values":        whole(r).Key("llama.attention.value_length", uint32(32)),
		"experts":              whole(r).Key("llama.expert_count", uint32(8)),
		"a bias":               whole(r).Tensor("blk.0.attn_q.bias", 0, make([]byte, 4*ggufbuild.Dim), ggufbuild.Dim),
		"another layer":        whole(r).Tensor("blk.2.attn_norm.weight", 0, make([]byte, 4*ggufbuild.Dim), ggufbuild.Dim),
		"a logit too many":     whole(r).Tensor("output.weight", 0, make([]byte, 4*ggufbuild.Dim), ggufbuild.Dim, 1),
		"heads of other sizes": whole(r).Key("llama.attention.key_length", uint32(32)),
	} {
		if _, err := Open(write(t, b)); !errors.Is(err, ErrModel) && !errors.Is(err, gguf.ErrTensor) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for key, value := range map[string]any{
		"general.architecture": "qwen2", "llama.block_count": uint32(MaxLayers + 1), "llama.embedding_length": uint64(1) << 40,
		"llama.attention.head_count": uint32(0), "llama.attention.head_count_kv": uint32(3), "llama.context_length": int32(-1),
		"llama.attention.layer_norm_rms_epsilon": float32(math.NaN()),
	} {
		var b ggufbuild.Builder
		if _, err := New(parsed(t, shapeWith(b.Key(key, value), key)), 3); !errors.Is(err, ErrModel) && !errors.Is(err, gguf.ErrKey) {
			t.Errorf("%s = %v: %v", key, value, err)
		}
	}
}

// shapeWith adds the keys of a shape, less one.
func shapeWith(b *ggufbuild.Builder, less string) *ggufbuild.Builder {
	for key, value := range map[string]any{
		"general.architecture": "llama", "llama.block_count": uint32(1), "llama.embedding_length": uint32(64),
		"llama.feed_forward_length": uint32(64), "llama.attention.head_count": uint32(4), "llama.attention.head_count_kv": uint32(2),
		"llama.context_length": uint32(64), "llama.attention.layer_norm_rms_epsilon": float32(1e-5),
	} {
		if key != less {
			b.Key(key, value)
		}
	}
	return b
}

// Promise: no byte of a file that is changed makes opening or computing panic.
func FuzzOpen(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	file := whole(r).File()
	f.Add(uint32(0), byte(0))
	f.Add(uint32(24+8), byte('x'))
	f.Add(uint32(len(file)-1), byte(255))
	f.Fuzz(func(t *testing.T, at uint32, change byte) {
		data := slices.Clone(file)
		data[int(at)%len(data)] ^= change
		g, err := gguf.Parse(data)
		if err != nil {
			return
		}
		m, err := load(g)
		if err != nil {
			return
		}
		defer m.Close()
		x, logits := make([]float32, m.Spec().Dim), make([]float32, m.Spec().Vocab)
		m.Embed([]model.Token{1}, []int{0}, x)
		m.Logits(x, logits)
	})
}
