package llama

import (
	"fmt"
	"math"

	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/engine/model/gguf"
)

const architecture = "llama"

// shape is what the metadata says of the network.
type shape struct {
	name               string
	depth, dim, hidden int
	heads, kvHeads     int
	headDim            int
	context            int
	epsilon            float64 // of the norms
	base               float64 // of the rotary positions
}

// reader reads keys and keeps the first error.
type reader struct {
	f   *gguf.File
	err error
}

func (r *reader) number(key string, most uint64) int {
	if r.err != nil {
		return 0
	}
	n, err := r.f.Uint(key)
	if err == nil && (n < 1 || n > most) {
		err = fmt.Errorf("%w: %s is %d, want 1 to %d", ErrModel, key, n, most)
	}
	r.err = err
	return int(n)
}

// numberOr is number for a key that may be missing.
func (r *reader) numberOr(key string, fallback int, most uint64) int {
	if !r.f.Has(key) {
		return fallback
	}
	return r.number(key, most)
}

func (r *reader) float(key string) float64 {
	if r.err != nil {
		return 0
	}
	x, err := r.f.Float(key)
	if err == nil && !(x > 0 && x <= math.MaxFloat32) {
		err = fmt.Errorf("%w: %s is %g, want a number above zero", ErrModel, key, x)
	}
	r.err = err
	return x
}

// readShape reads the shape and checks that its parts fit together.
func readShape(f *gguf.File) (s shape, err error) {
	name, err := f.Text("general.architecture")
	if err != nil {
		return s, err
	}
	if name != architecture {
		return s, fmt.Errorf("%w: its architecture is %.64q, only %s is supported", ErrModel, name, architecture)
	}
	if s.name, err = f.Text("general.name"); err != nil {
		s.name = architecture
	}
	r := reader{f: f}
	s.depth = r.number("llama.block_count", MaxLayers)
	s.dim = r.number("llama.embedding_length", MaxSide)
	s.hidden = r.number("llama.feed_forward_length", MaxSide)
	s.heads = r.number("llama.attention.head_count", MaxHeads)
	s.kvHeads = r.numberOr("llama.attention.head_count_kv", s.heads, MaxHeads)
	s.headDim = r.numberOr("llama.attention.key_length", s.dim/max(s.heads, 1), MaxSide)
	s.context = min(r.number("llama.context_length", math.MaxInt32), model.MaxContext)
	s.epsilon = r.float("llama.attention.layer_norm_rms_epsilon")
	s.base = 10000
	if f.Has("llama.rope.freq_base") {
		s.base = r.float("llama.rope.freq_base")
	}
	if r.err != nil {
		return s, r.err
	}
	return s, s.check(&r)
}

// check refuses what would be computed wrongly.
func (s *shape) check(r *reader) error {
	rotated := r.numberOr("llama.rope.dimension_count", s.headDim, MaxSide)
	values := r.numberOr("llama.attention.value_length", s.headDim, MaxSide)
	experts := r.numberOr("llama.expert_count", 1, MaxSide)
	switch {
	case r.err != nil:
		return r.err
	case s.heads%s.kvHeads != 0:
		return fmt.Errorf("%w: %d heads for %d heads of keys", ErrModel, s.heads, s.kvHeads)
	case s.headDim < 2 || s.headDim%2 != 0 || rotated != s.headDim || values != s.headDim:
		return fmt.Errorf("%w: heads of %d numbers, of which %d are rotated, and values of %d: all must be equal, and even",
			ErrModel, s.headDim, rotated, values)
	case experts != 1:
		return fmt.Errorf("%w: it has %d experts, only one is supported", ErrModel, experts)
	}
	for _, key := range []string{"llama.rope.scaling.type", "llama.rope.scale_linear"} {
		if v, err := r.f.Text(key); r.f.Has(key) && (err != nil || v != "none") {
			return fmt.Errorf("%w: %s is set: scaled positions are not supported", ErrModel, key)
		}
	}
	return nil
}

// spec is what a backend must know. No head has a sink.
func (s *shape) spec(vocabulary int) model.Spec {
	none := make([]float32, s.heads)
	for i := range none {
		none[i] = float32(math.Inf(-1))
	}
	spec := model.Spec{
		Name: s.name, Vocab: vocabulary, Dim: s.dim, Heads: s.heads, KVHeads: s.kvHeads, HeadDim: s.headDim,
		MaxContext: s.context, Scale: float32(1 / math.Sqrt(float64(s.headDim))),
	}
	for range s.depth {
		spec.Layers = append(spec.Layers, model.LayerSpec{Sinks: none})
	}
	return spec
}
