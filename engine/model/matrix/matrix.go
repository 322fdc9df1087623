package matrix

import (
	"fmt"

	"github.com/kvwitness/kvwitness/engine/model/gguf"
	"github.com/kvwitness/kvwitness/engine/team"
)

// lanes is how many numbers the inner loops take at once: rows are a multiple of it.
const lanes = 8

// quad is how many products are computed side by side.
const quad = 4

// leastWork is how many multiplications are worth waking another goroutine for.
const leastWork = 1 << 16

// Matrix is a linear map from In to Out numbers.
type Matrix struct {
	In, Out int

	data   []byte
	stride int // bytes of a row
	widen  func(dst []float32, src []byte)
}

// New views a tensor of a model file. Errors: gguf.ErrTensor for a shape that cannot
// be multiplied by.
func New(t *gguf.Tensor) (*Matrix, error) {
	if len(t.Dims) != 2 || t.Dims[0]%lanes != 0 {
		return nil, fmt.Errorf("%w: %s is of shape %v, want two dimensions and rows of a multiple of %d", gguf.ErrTensor, t.Name, t.Dims, lanes)
	}
	return &Matrix{In: t.Dims[0], Out: t.Dims[1], data: t.Data, stride: t.RowBytes(), widen: widener(t.Type)}, nil
}

// Row sets dst, of In numbers, to one row.
func (m *Matrix) Row(row int, dst []float32) {
	m.widen(dst[:m.In], m.data[row*m.stride:(row+1)*m.stride])
}

// Multiplier is scratch to multiply with. It is for one goroutine at a time.
type Multiplier struct {
	team *team.Team
	rows [][]float32 // per worker: quad rows of the matrix, widened
	out  [][quad]float32
}

// NewMultiplier makes scratch for matrices of at most so many numbers a row.
func NewMultiplier(t *team.Team, in int) *Multiplier {
	m := &Multiplier{team: t, out: make([][quad]float32, t.Size())}
	for range t.Size() {
		m.rows = append(m.rows, make([]float32, quad*in))
	}
	return m
}

// Multiply sets y, n × Out numbers, to the maps of x, n × In numbers.
func (s *Multiplier) Multiply(m *Matrix, x []float32, n int, y []float32) {
	quads := (m.Out + quad - 1) / quad
	least := leastWork / (max(n, 1) * quad * m.In)
	s.team.Share(quads, least+1, func(worker, from, to int) {
		for at := from * quad; at < min(to*quad, m.Out); at += quad {
			s.multiplyRows(worker, m, at, min(quad, m.Out-at), x, n, y)
		}
	})
}

// multiplyRows computes the products of count rows from first on.
func (s *Multiplier) multiplyRows(worker int, m *Matrix, first, count int, x []float32, n int, y []float32) {
	rows, out := s.rows[worker], &s.out[worker]
	for i := range count {
		m.Row(first+i, rows[i*m.In:(i+1)*m.In])
	}
	at := 0
	for ; n-at >= quad; at += quad {
		for i := range count {
			dots(out, rows[i*m.In:(i+1)*m.In], x[at*m.In:(at+quad)*m.In])
			for j, v := range out {
				y[(at+j)*m.Out+first+i] = v
			}
		}
	}
	for ; at < n; at++ { // what is in rows beyond count is multiplied and not used
		dots(out, x[at*m.In:(at+1)*m.In], rows[:quad*m.In])
		copy(y[at*m.Out+first:], out[:count])
	}
}
