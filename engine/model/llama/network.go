package llama

import (
	"fmt"

	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/engine/model/gguf"
	"github.com/kvwitness/kvwitness/engine/model/matrix"
	"github.com/kvwitness/kvwitness/engine/team"
)

// leastNumbers is how many numbers of an elementwise loop are worth another goroutine.
const leastNumbers = 1 << 13

// Network implements model.Network.
type Network struct {
	shape
	*weights
	described model.Spec
	rotations []float64 // per pair of a head's numbers: radians a position
	team      *team.Team
	multiply  *matrix.Multiplier

	// Scratch, as long as the largest batch so far needs it.
	normed, added, gate, up []float32
}

var _ model.Network = (*Network)(nil)

// New reads the network of a file whose vocabulary has so many tokens. Errors: as of
// Open.
func New(f *gguf.File, vocabulary int) (*Network, error) {
	if vocabulary < 1 || vocabulary > MaxSide {
		return nil, fmt.Errorf("%w: a vocabulary of %d, want 1 to %d", ErrModel, vocabulary, MaxSide)
	}
	s, err := readShape(f)
	if err != nil {
		return nil, err
	}
	w, err := readWeights(f, &s, vocabulary)
	if err != nil {
		return nil, err
	}
	n := &Network{shape: s, weights: w, described: s.spec(vocabulary), rotations: rotations(s.headDim, s.base), team: team.New()}
	n.multiply = matrix.NewMultiplier(n.team, max(s.dim, s.hidden, s.heads*s.headDim))
	return n, nil
}

// Close ends the network's goroutines.
func (n *Network) Close() { n.team.Close() }

// Spec returns the shape.
func (n *Network) Spec() model.Spec { return n.described }

// Embed implements model.Network.
func (n *Network) Embed(tokens []model.Token, _ []int, x []float32) {
	for i, t := range tokens {
		n.embedding.Row(int(t), x[i*n.dim:(i+1)*n.dim])
	}
}

// Keys implements model.Network.
func (n *Network) Keys(layer int, positions []int, x, keys, values []float32) {
	l, rows := &n.layers[layer], len(positions)
	h := n.norm(l.attentionNorm, x, rows)
	n.multiply.Multiply(l.key, h, rows, keys)
	n.multiply.Multiply(l.value, h, rows, values)
	n.rotate(keys, n.kvHeads, positions)
}

// Queries implements model.Network.
func (n *Network) Queries(layer int, positions []int, x, queries []float32) {
	l, rows := &n.layers[layer], len(positions)
	n.multiply.Multiply(l.query, n.norm(l.attentionNorm, x, rows), rows, queries)
	n.rotate(queries, n.heads, positions)
}

// Combine implements model.Network.
func (n *Network) Combine(layer int, x, attended []float32) {
	l, rows := &n.layers[layer], len(x)/n.dim
	added := room(&n.added, rows*n.dim)
	n.multiply.Multiply(l.output, attended, rows, added)
	add(x, added)
	h := n.norm(l.hiddenNorm, x, rows)
	gate, up := room(&n.gate, rows*n.hidden), room(&n.up, rows*n.hidden)
	n.multiply.Multiply(l.hiddenGate, h, rows, gate)
	n.multiply.Multiply(l.hiddenUp, h, rows, up)
	n.team.Share(len(gate), leastNumbers, func(_, from, to int) { swiglu(gate[from:to], up[from:to]) })
	n.multiply.Multiply(l.down, gate, rows, added)
	add(x, added)
}

// Logits implements model.Network.
func (n *Network) Logits(x, logits []float32) {
	rows := len(x) / n.dim
	n.multiply.Multiply(n.logits, n.norm(n.lastNorm, x, rows), rows, logits)
}

// norm returns each row of x divided by the root of its mean square, times the
// weights. It is valid until the next.
func (n *Network) norm(weights, x []float32, rows int) []float32 {
	out := room(&n.normed, rows*n.dim)
	n.team.Share(rows, leastNumbers/n.dim+1, func(_, from, to int) {
		for i := from; i < to; i++ {
			normalize(out[i*n.dim:(i+1)*n.dim], x[i*n.dim:(i+1)*n.dim], weights, n.epsilon)
		}
	})
	return out
}

// rotate turns each row's heads by its position.
func (n *Network) rotate(x []float32, heads int, positions []int) {
	width := heads * n.headDim
	n.team.Share(len(positions), leastNumbers/width+1, func(_, from, to int) {
		for i := from; i < to; i++ {
			rotateRow(x[i*width:(i+1)*width], n.rotations, positions[i])
		}
	})
}

// room returns scratch of n numbers.
func room(at *[]float32, n int) []float32 {
	if cap(*at) < n {
		*at = make([]float32, n)
	}
	return (*at)[:n]
}
