package model

import "slices"

// matrix is a linear map. Weights that are computed in code are nearly all zero,
// so only the others are kept, by output row.
type matrix struct {
	outputs int
	rows    []matrixRow
	weights []weight
}

// matrixRow is the non-zero part of one output row: weights[from:to].
type matrixRow struct{ out, from, to int32 }

type weight struct {
	out, in int32
	w       float32
}

// newMatrix sorts the weights; those of the same place add up.
func newMatrix(outputs int, weights []weight) matrix {
	slices.SortFunc(weights, func(a, b weight) int {
		if a.out != b.out {
			return int(a.out - b.out)
		}
		return int(a.in - b.in)
	})
	m := matrix{outputs: outputs, weights: weights}
	for i, w := range weights {
		if i == 0 || weights[i-1].out != w.out {
			m.rows = append(m.rows, matrixRow{out: w.out, from: int32(i)})
		}
		m.rows[len(m.rows)-1].to = int32(i + 1)
	}
	return m
}

// apply sets y to the map of x.
func (m matrix) apply(x, y []float32) {
	clear(y[:m.outputs])
	m.add(x, y)
}

// add adds the map of x to y. It is left out of the race detector, which would make
// it ten times as slow: both are scratch of the one goroutine that calls.
//
//go:norace
func (m matrix) add(x, y []float32) {
	for _, r := range m.rows {
		var sum float32
		for _, w := range m.weights[r.from:r.to] {
			sum += w.w * x[w.in]
		}
		y[r.out] += sum
	}
}

// relu is the only non-linearity of the built-in network.
func relu(x []float32) {
	for i := range x {
		x[i] = max(x[i], 0)
	}
}
