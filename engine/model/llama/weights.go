package llama

import (
	"errors"
	"fmt"

	"github.com/kvwitness/kvwitness/engine/model/gguf"
	"github.com/kvwitness/kvwitness/engine/model/matrix"
)

// layer is one layer's weights, by the names of the file.
type layer struct {
	attentionNorm, hiddenNorm  []float32
	query, key, value, output  *matrix.Matrix
	hiddenGate, hiddenUp, down *matrix.Matrix
}

// weights are all of them.
type weights struct {
	embedding, logits *matrix.Matrix // the same, where the file has no other
	lastNorm          []float32
	layers            []layer
}

// taker takes tensors out of a file and counts them: one that is left over belongs
// to a network that would be computed wrongly.
type taker struct {
	f     *gguf.File
	taken map[string]bool
	err   error
}

func (t *taker) tensor(name string, dims ...int) *gguf.Tensor {
	x, err := t.f.Tensor(name, dims...)
	t.err = errors.Join(t.err, err)
	t.taken[name] = true
	return x
}

func (t *taker) matrix(name string, in, out int) *matrix.Matrix {
	x := t.tensor(name, in, out)
	if t.err != nil {
		return nil
	}
	m, err := matrix.New(x)
	t.err = err
	return m
}

// vector is a tensor of one row, widened.
func (t *taker) vector(name string, n int) []float32 {
	x := t.tensor(name, n)
	if t.err != nil {
		return nil
	}
	m, err := matrix.New(&gguf.Tensor{Name: name, Type: x.Type, Dims: []int{n, 1}, Data: x.Data})
	if t.err = err; err != nil {
		return nil
	}
	out := make([]float32, n)
	m.Row(0, out)
	return out
}

func readWeights(f *gguf.File, s *shape, vocabulary int) (*weights, error) {
	t := &taker{f: f, taken: map[string]bool{}}
	w := &weights{lastNorm: t.vector("output_norm.weight", s.dim)}
	w.embedding = t.matrix("token_embd.weight", s.dim, vocabulary)
	w.logits = w.embedding
	for _, name := range f.Names() {
		if name == "output.weight" {
			w.logits = t.matrix(name, s.dim, vocabulary)
		}
	}
	queries, keys := s.heads*s.headDim, s.kvHeads*s.headDim
	for i := 0; i < s.depth && t.err == nil; i++ {
		of := fmt.Sprintf("blk.%d.", i)
		w.layers = append(w.layers, layer{
			attentionNorm: t.vector(of+"attn_norm.weight", s.dim), hiddenNorm: t.vector(of+"ffn_norm.weight", s.dim),
			query: t.matrix(of+"attn_q.weight", s.dim, queries), key: t.matrix(of+"attn_k.weight", s.dim, keys),
			value: t.matrix(of+"attn_v.weight", s.dim, keys), output: t.matrix(of+"attn_output.weight", queries, s.dim),
			hiddenGate: t.matrix(of+"ffn_gate.weight", s.dim, s.hidden), hiddenUp: t.matrix(of+"ffn_up.weight", s.dim, s.hidden),
			down: t.matrix(of+"ffn_down.weight", s.hidden, s.dim),
		})
	}
	if t.err != nil {
		return nil, t.err
	}
	for _, name := range f.Names() {
		if !t.taken[name] {
			return nil, fmt.Errorf("%w: tensor %.64q is of no %s that is known here", ErrModel, name, architecture)
		}
	}
	return w, nil
}
