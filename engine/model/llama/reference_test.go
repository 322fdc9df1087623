package llama

import (
	"fmt"
	"math"

	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/engine/model/gguf"
	"github.com/kvwitness/kvwitness/engine/model/matrix"
	"github.com/kvwitness/kvwitness/test/model/ggufbuild"
)

// The small network by its definition: float64, no pages, no batches, weights by
// their names. Only the widening of stored numbers is that of the tested code, which
// matrix has tests of its own for.

type vector []float64

// definition is a file's weights, widened.
type definition struct{ f *gguf.File }

// times returns a named matrix times a vector.
func (d definition) times(name string, x vector, out int) vector {
	t, err := d.f.Tensor(name, len(x), out)
	if err != nil {
		panic(err)
	}
	m, err := matrix.New(t)
	if err != nil {
		panic(err)
	}
	y, row := make(vector, out), make([]float32, len(x))
	for o := range y {
		m.Row(o, row)
		for i, w := range row {
			y[o] += float64(w) * x[i]
		}
	}
	return y
}

// row returns a row of a named matrix, or (of one row) a named vector.
func (d definition) row(name string, row, n, rows int) vector {
	t, err := d.f.Tensor(name, n, rows)
	if rows == 1 {
		t, err = d.f.Tensor(name, n)
	}
	if err != nil {
		panic(err)
	}
	m, err := matrix.New(&gguf.Tensor{Name: name, Type: t.Type, Dims: []int{n, rows}, Data: t.Data})
	if err != nil {
		panic(err)
	}
	wide, out := make([]float32, n), make(vector, n)
	m.Row(row, wide)
	for i, w := range wide {
		out[i] = float64(w)
	}
	return out
}

func (d definition) norm(name string, x vector) vector {
	weights, out, squares := d.row(name, 0, len(x), 1), make(vector, len(x)), 0.0
	for _, v := range x {
		squares += v * v
	}
	for i, v := range x {
		out[i] = v / math.Sqrt(squares/float64(len(x))+float64(float32(1e-5))) * weights[i]
	}
	return out
}

// turn rotates each pair of each head as a complex number.
func turn(x vector, headDim, position int) vector {
	out := make(vector, len(x))
	for at := 0; at < len(x); at += 2 {
		angle := float64(position) / math.Pow(10000, float64(at%headDim)/float64(headDim))
		c := complex(x[at], x[at+1]) * complex(math.Cos(angle), math.Sin(angle))
		out[at], out[at+1] = real(c), imag(c)
	}
	return out
}

// logits of the last token of a text.
func (d definition) logits(text []model.Token) vector {
	const headDim = ggufbuild.Dim / ggufbuild.Heads
	var keys, values [ggufbuild.Layers][]vector
	var x vector
	for position, token := range text {
		x = d.row("token_embd.weight", int(token), ggufbuild.Dim, ggufbuild.VocabularySize())
		for l := range ggufbuild.Layers {
			of := fmt.Sprintf("blk.%d.", l)
			h := d.norm(of+"attn_norm.weight", x)
			keys[l] = append(keys[l], turn(d.times(of+"attn_k.weight", h, ggufbuild.KVHeads*headDim), headDim, position))
			values[l] = append(values[l], d.times(of+"attn_v.weight", h, ggufbuild.KVHeads*headDim))
			q := turn(d.times(of+"attn_q.weight", h, ggufbuild.Dim), headDim, position)
			x = sum(x, d.times(of+"attn_output.weight", attend(q, keys[l], values[l], headDim), ggufbuild.Dim))
			h = d.norm(of+"ffn_norm.weight", x)
			gate, up := d.times(of+"ffn_gate.weight", h, ggufbuild.Hidden), d.times(of+"ffn_up.weight", h, ggufbuild.Hidden)
			for i, g := range gate {
				up[i] *= g / (1 + math.Exp(-g))
			}
			x = sum(x, d.times(of+"ffn_down.weight", up, ggufbuild.Dim))
		}
	}
	return d.times("token_embd.weight", d.norm("output_norm.weight", x), ggufbuild.VocabularySize())
}

func sum(a, b vector) vector {
	out := make(vector, len(a))
	for i := range a {
		out[i] = a[i] + b[i]
	}
	return out
}

// attend weighs the values by the softmax of the scores, head by head.
func attend(q vector, keys, values []vector, headDim int) vector {
	out := make(vector, len(q))
	for head := range len(q) / headDim {
		from := head / (ggufbuild.Heads / ggufbuild.KVHeads) * headDim
		weights, total := make(vector, len(keys)), 0.0
		for t, k := range keys {
			score := 0.0
			for i := range headDim {
				score += q[head*headDim+i] * k[from+i]
			}
			weights[t] = math.Exp(score / math.Sqrt(float64(headDim)))
			total += weights[t]
		}
		for t, v := range values {
			for i := range headDim {
				out[head*headDim+i] += weights[t] / total * v[from+i]
			}
		}
	}
	return out
}
