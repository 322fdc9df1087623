package llama

import "math"

// The elementwise loops. They are left out of the race detector (go:norace), with
// which they would take ten times as long: each works on its own part of scratch.

// rotations are the radians that each pair of a head's numbers turns a position.
func rotations(headDim int, base float64) []float64 {
	out := make([]float64, headDim/2)
	for i := range out {
		out[i] = math.Pow(base, -2*float64(i)/float64(headDim))
	}
	return out
}

// rotateRow turns neighbours together, in each head alike.
//
//go:norace
func rotateRow(x []float32, rotations []float64, position int) {
	for i, r := range rotations {
		s, c := math.Sincos(float64(position) * r)
		sin, cos := float32(s), float32(c)
		for at := 2 * i; at < len(x); at += 2 * len(rotations) {
			a, b := x[at], x[at+1]
			x[at], x[at+1] = a*cos-b*sin, a*sin+b*cos
		}
	}
}

//go:norace
func normalize(out, x, weights []float32, epsilon float64) {
	var sum float64
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	scale := float32(1 / math.Sqrt(sum/float64(len(x))+epsilon))
	for i, v := range x {
		out[i] = v * scale * weights[i]
	}
}

// swiglu multiplies up into gate, which is weighed by its own sigmoid.
//
//go:norace
func swiglu(gate, up []float32) {
	for i, g := range gate {
		gate[i] = g / float32(1+math.Exp(-float64(g))) * up[i]
	}
}

//go:norace
func add(to, x []float32) {
	for i, v := range x {
		to[i] += v
	}
}
