package model

// Network is the arithmetic around attention. A backend owns the pages and the
// attention over them; for each layer it asks for keys and values, appends them,
// asks for queries, attends, and hands the result back.
//
// x is the residual stream: rows × Spec.Dim numbers, changed in place. positions
// has one entry a row. Rows do not depend on one another, so that a backend may
// leave out rows whose result nobody needs. A method may be called from one
// goroutine at a time.
type Network interface {
	Spec() Spec
	// Embed sets x for the tokens, which are in the vocabulary, at their positions.
	Embed(tokens []Token, positions []int, x []float32)
	// Keys sets keys and values: rows × KVHeads × HeadDim numbers each.
	Keys(layer int, positions []int, x, keys, values []float32)
	// Queries sets queries: rows × Heads × HeadDim numbers.
	Queries(layer int, positions []int, x, queries []float32)
	// Combine adds to x what the layer makes of the attended values (rows × Heads ×
	// HeadDim numbers).
	Combine(layer int, x, attended []float32)
	// Logits sets rows × Vocab numbers.
	Logits(x, logits []float32)
}

// Spec is what a backend must know of a network. Query head h reads kv head
// h ÷ (Heads ÷ KVHeads).
type Spec struct {
	Name       string
	Vocab      int
	Dim        int // of the residual stream
	Heads      int
	KVHeads    int
	HeadDim    int
	MaxContext int     // positions run from 0 to MaxContext-1
	Scale      float32 // multiplies each score
	Layers     []LayerSpec
}

// LayerSpec is what differs between layers.
type LayerSpec struct {
	Window int       // a token reads itself and Window-1 before it; 0: all
	Sinks  []float32 // per head: one more score, of a value of zero; -Inf: none
}
