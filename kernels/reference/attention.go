package reference

import "math"

// weightless is how far below the largest score a score counts as nothing:
// exp(-104) is less than half of the smallest float32.
const weightless = -104

// Attention is the running softmax of one token's query over pages, for the query
// heads that share one kv head. Each page is computed aside and joined by Commit
// only when the page's tag still holds, so that a page which changed while it was
// read leaves no trace.
//
// Use: Reset, then for each page Page and (if the tag holds) Commit, then Finish.
// Not safe for concurrent use; Reset makes it new.
//
// The inner loops are left out of the race detector (go:norace): they touch the
// scratch of one Attention and the pages, which may lie where the detector does not
// look and are guarded by tags; with it they would take twenty times as long.
type Attention struct {
	layout Layout
	heads  int
	scale  float32

	query []float32 // heads × HeadDim
	used  []int     // per head: numbers up to the last one that is not zero

	whole, page state
	scores      []float32 // heads × PageTokens
	wide        []float32 // one row, widened
}

// state is a softmax in progress: the sum of exp(score-max) and of the values
// weighted by it. max is -Inf while nothing was added.
type state struct {
	max, sum []float32 // per head
	values   []float32 // heads × HeadDim
}

func newState(heads, dim int) state {
	return state{make([]float32, heads), make([]float32, heads), make([]float32, heads*dim)}
}

func (s *state) reset() {
	for i := range s.max {
		s.max[i] = float32(math.Inf(-1))
	}
	clear(s.sum)
	clear(s.values)
}

// NewAttention returns scratch for groups of heads query heads a kv head.
func NewAttention(l Layout, heads int) *Attention {
	return &Attention{
		layout: l, heads: heads,
		query: make([]float32, heads*l.HeadDim), used: make([]int, heads),
		whole: newState(heads, l.HeadDim), page: newState(heads, l.HeadDim),
		scores: make([]float32, heads*l.PageTokens), wide: make([]float32, l.HeadDim),
	}
}

// Reset begins a new query: heads × HeadDim numbers; scale multiplies each score.
//
//go:norace
func (a *Attention) Reset(query []float32, scale float32) {
	copy(a.query, query)
	a.scale = scale
	for h := range a.heads {
		q := a.query[h*a.layout.HeadDim : (h+1)*a.layout.HeadDim]
		n := len(q)
		for n > 0 && q[n-1] == 0 {
			n--
		}
		a.used[h] = n
	}
	a.whole.reset()
}

// Page attends to rows from up to (not including) to of one kv head of one page;
// k and v are that head's HeadBytes. The result stands aside until Commit.
//
//go:norace
func (a *Attention) Page(k, v []byte, from, to int) {
	a.page.reset()
	a.score(a.rows(k), from, to)
	values, n, dim := a.rows(v), a.layout.PageTokens, a.layout.HeadDim
	for h := range a.heads {
		scores := a.scores[h*n : (h+1)*n]
		top := float32(math.Inf(-1))
		for _, s := range scores[from:to] {
			top = max(top, s)
		}
		out, sum := a.page.values[h*dim:(h+1)*dim], float32(0)
		for t := from; t < to; t++ {
			d := scores[t] - top
			if d < weightless {
				continue
			}
			w := exp(d)
			sum += w
			addScaled(out, values.row(t), w)
		}
		a.page.max[h], a.page.sum[h] = top, sum
	}
}

// score fills scores with query · key × scale for the rows from up to to. Leading
// numbers of a query that end in zeros are all that its product needs.
//
//go:norace
func (a *Attention) score(keys rows, from, to int) {
	n, dim := a.layout.PageTokens, a.layout.HeadDim
	for t := from; t < to; t++ {
		key := keys.row(t)
		for h := range a.heads {
			u := a.used[h]
			a.scores[h*n+t] = a.scale * dot(a.query[h*dim:h*dim+u], key[:u])
		}
	}
}

// rows reads the rows of one kv head of a page as float32.
type rows struct {
	single []float32 // stored as float32
	half   []uint16  // stored as 16 bits, of this type
	dtype  DType
	wide   []float32 // HeadDim long: where a 16-bit row is widened to
}

func (a *Attention) rows(head []byte) rows {
	if a.layout.DType == Float32 {
		return rows{single: floats(head), wide: a.wide}
	}
	return rows{half: halves(head), dtype: a.layout.DType, wide: a.wide}
}

// row is valid until the next.
//
//go:norace
func (r rows) row(t int) []float32 {
	dim := len(r.wide)
	if r.half == nil {
		return r.single[t*dim : (t+1)*dim]
	}
	widen(r.dtype, r.wide, r.half[t*dim:(t+1)*dim])
	return r.wide
}

// Commit joins the page that Page computed last.
func (a *Attention) Commit() {
	dim := a.layout.HeadDim
	for h := range a.heads {
		if a.page.sum[h] == 0 {
			continue
		}
		top := max(a.whole.max[h], a.page.max[h])
		before, added := exp(a.whole.max[h]-top), exp(a.page.max[h]-top)
		whole := a.whole.values[h*dim : (h+1)*dim]
		if before != 1 {
			scaleBy(whole, before)
		}
		if added != 0 {
			addScaled(whole, a.page.values[h*dim:(h+1)*dim], added)
		}
		a.whole.sum[h] = a.whole.sum[h]*before + a.page.sum[h]*added
		a.whole.max[h] = top
	}
}

// Finish writes heads × HeadDim numbers: the weighted mean of the values. A sink
// is one more score per head whose value is zero (-Inf: none). Where nothing was
// attended to and there is no sink, the result is zero and not a division by it.
func (a *Attention) Finish(sinks, out []float32) {
	dim := a.layout.HeadDim
	for h := range a.heads {
		o := out[h*dim : (h+1)*dim]
		top := max(a.whole.max[h], sinks[h])
		if a.whole.sum[h] == 0 {
			clear(o)
			continue
		}
		weight := exp(a.whole.max[h] - top)
		sum := a.whole.sum[h]*weight + exp(sinks[h]-top)
		copy(o, a.whole.values[h*dim:(h+1)*dim])
		scaleBy(o, weight/sum)
	}
}

// exp of a difference to the maximum, which is at most 0.
func exp(d float32) float32 {
	switch {
	case d == 0:
		return 1
	case d < weightless:
		return 0
	}
	return float32(math.Exp(float64(d)))
}

// dot is unrolled by four sums: the additions need not wait for one another.
//
//go:norace
func dot(a, b []float32) float32 {
	var s0, s1, s2, s3 float32
	b = b[:len(a)]
	i := 0
	for ; i+4 <= len(a); i += 4 {
		x, y := a[i:i+4:i+4], b[i:i+4:i+4]
		s0 += x[0] * y[0]
		s1 += x[1] * y[1]
		s2 += x[2] * y[2]
		s3 += x[3] * y[3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return (s0 + s1) + (s2 + s3)
}

//go:norace
func addScaled(dst, src []float32, w float32) {
	src = src[:len(dst)]
	for i := range dst {
		dst[i] += w * src[i]
	}
}

//go:norace
func scaleBy(dst []float32, w float32) {
	for i := range dst {
		dst[i] *= w
	}
}
