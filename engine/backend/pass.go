package backend

import (
	"fmt"

	"github.com/kvwitness/kvwitness/engine/model"
)

// Pass takes batches through the layers of a network, some rows at a time; for
// backends, which bring the two steps that touch pages. It allocates nothing once it
// has seen the largest batch.
type Pass struct {
	Rows
	network model.Network
	spec    model.Spec
	steps   Steps
	logits  []float32
}

// Steps is what a backend does for one layer and the present rows. An error ends
// the Forward.
type Steps struct {
	// Append stores the rows' Keys and Values in their pages.
	Append func(layer int, batch []Sequence, results []Result) error
	// Attend sets the rows' Attended from their Queries.
	Attend func(layer int, batch []Sequence, results []Result) error
}

// Rows are up to a fixed number of tokens, of any sequences, that go through a layer
// together: enough to share work among them, few enough to stay near.
type Rows struct {
	N         int
	Sequence  []int // index in the batch
	Positions []int
	tokens    []model.Token
	wanted    []bool // its logits were asked for

	X            []float32 // N × Dim: the residual stream
	Keys, Values []float32 // N × KVHeads × HeadDim
	Queries      []float32 // N × Heads × HeadDim
	Attended     []float32 // N × Heads × HeadDim
}

// NewPass makes room for so many rows; what a device must reach comes from allocate.
func NewPass(network model.Network, rows int, allocate func(numbers int) []float32, steps Steps) *Pass {
	s := network.Spec()
	p := &Pass{network: network, spec: s, steps: steps}
	p.Sequence, p.Positions = make([]int, rows), make([]int, rows)
	p.tokens, p.wanted = make([]model.Token, rows), make([]bool, rows)
	p.X = make([]float32, rows*s.Dim)
	p.Keys, p.Values = allocate(rows*s.KVHeads*s.HeadDim), allocate(rows*s.KVHeads*s.HeadDim)
	p.Queries, p.Attended = allocate(rows*s.Heads*s.HeadDim), allocate(rows*s.Heads*s.HeadDim)
	return p
}

// Forward computes a batch that was checked.
func (p *Pass) Forward(batch []Sequence, results []Result) error {
	if need := len(batch) * p.spec.Vocab; cap(p.logits) < need {
		p.logits = make([]float32, need)
	}
	p.N = 0
	for i := range batch {
		s := &batch[i]
		results[i].Begin(len(s.Table))
		for j, t := range s.Tokens {
			p.Sequence[p.N], p.tokens[p.N], p.Positions[p.N] = i, t, s.Start+j
			p.wanted[p.N] = s.Logits && j == len(s.Tokens)-1
			if p.N++; p.N == len(p.tokens) {
				if err := p.run(batch, results); err != nil {
					return err
				}
			}
		}
	}
	return p.run(batch, results)
}

// run takes the rows through all layers and empties them.
func (p *Pass) run(batch []Sequence, results []Result) error {
	if p.N == 0 {
		return nil
	}
	last, dim := len(p.spec.Layers)-1, p.spec.Dim
	p.network.Embed(p.tokens[:p.N], p.Positions[:p.N], p.X)
	for layer := range p.spec.Layers {
		p.network.Keys(layer, p.Positions[:p.N], p.X, p.Keys, p.Values)
		if err := p.steps.Append(layer, batch, results); err != nil {
			return fmt.Errorf("append to layer %d: %w", layer, err)
		}
		if layer == last {
			p.keepWanted()
		}
		p.network.Queries(layer, p.Positions[:p.N], p.X, p.Queries)
		if err := p.steps.Attend(layer, batch, results); err != nil {
			return fmt.Errorf("attend to layer %d: %w", layer, err)
		}
		p.network.Combine(layer, p.X[:p.N*dim], p.Attended)
	}
	for row := range p.N {
		i := p.Sequence[row]
		logits := p.logits[i*p.spec.Vocab : (i+1)*p.spec.Vocab]
		p.network.Logits(p.X[row*dim:(row+1)*dim], logits)
		results[i].SetLogits(logits)
	}
	p.N = 0
	return nil
}

// keepWanted moves the rows whose logits were asked for to the front and drops the
// others: after the last layer's keys and values nobody needs them.
func (p *Pass) keepWanted() {
	n, dim := 0, p.spec.Dim
	for row := range p.N {
		if !p.wanted[row] {
			continue
		}
		p.Sequence[n], p.Positions[n] = p.Sequence[row], p.Positions[row]
		copy(p.X[n*dim:(n+1)*dim], p.X[row*dim:(row+1)*dim])
		n++
	}
	p.N = n
}
