package model

// Suffix is how many of its last tokens the built-in network looks for.
const Suffix = 6

// MaxContext is the number of positions that the built-in network tells apart:
// beyond it, a match's place would outweigh a mismatch (see gap).
const MaxContext = 1 << 17

// The shape of the built-in network. Layer 0 has one head per distance back,
// layer 1 one head per length of suffix.
const (
	heads   = Suffix
	kvHeads = 2
	headDim = 64
	group   = heads / kvHeads

	codeBits = 9 // a token as +1 and -1, one for each bit of its number
	phases   = 8 // positions modulo 8: layer 0 reads a window of 8 tokens
	digits   = 3 // positions in base 256: exact even in bfloat16
)

// The residual stream.
const (
	atPhase    = 0                             // one-hot
	atDigit    = atPhase + phases              // least significant first
	atOne      = atDigit + digits              // constant 1
	atToken    = atOne + 1                     // code of this token, then of each of the Suffix before
	atFound    = atToken + (Suffix+1)*codeBits // per length: code of what followed, then 1 if found
	atChosen   = atFound + Suffix*foundWidth   // what followed the longest
	atSilent   = atChosen + codeBits           // 1: nothing was found
	atEnd      = atSilent + 1                  // 1: nothing was found after a newline
	dim        = atEnd + 1
	foundWidth = codeBits + 1
)

// Scores. All are whole multiples of earliness and below 2^24 times it, so that
// float32 sums are exact in any order, and each factor is exact in bfloat16.
const (
	// previous is the score of the token at the wanted distance; other distances
	// score 0, the sink half: exp(-32) of anything else disappears in a float32 sum.
	previous = 64
	// gap weighs one bit of a token's code. A whole match of n tokens scores 9n × gap,
	// less its place; any other at least 2 × gap less. The sink lies half-way.
	gap = 3 << 18
	// earliness is what each position costs: of two matches the earlier outweighs the
	// later by exp(4), and all later ones together by 53.
	earliness = 4
)

// Logits. Steps between tokens are at least 2 × sharpness × 0.96 (later matches
// leave a code of between 0.96 and 1), so that a temperature of 2 still answers alike.
const (
	sharpness = 16
	newline   = 100
	endOfText = 50
)

// Induction is the built-in network. It answers with what followed the first
// occurrence of the longest of its suffixes of Suffix, …, 2, 1 tokens; where none
// occurred before, with a newline, and after a newline with EOT. (The first and not
// the last: an answer that goes wrong then reads on in the text that it found, and
// does not meet its own beginning again.)
//
// Layer 0 has heads that attend to the token 1 to 6 before, by position, and copy
// its code: they leave at each token the codes of the tokens before it. In layer 1
// the key of a token is the codes before it, the query the codes up to and
// including it: they match where the same tokens came before, and the value is the
// token that followed there. A layer of relus chooses the longest match.
//
// A key carries the position at which it was computed, and position modulo 8
// stays the same on any page of a multiple of 8 tokens.
type Induction struct {
	spec    Spec
	queries [2]matrix
	keys    [2]matrix
	values  [2]matrix
	output  [2]matrix
	up      matrix // to the relus, which only the last layer has
	down    matrix
	logits  matrix
	hidden  []float32
}

// NewInduction computes the weights.
func NewInduction() *Induction {
	n := &Induction{spec: Spec{
		Name: "induction-bytes", Vocab: Vocab, Dim: dim, Heads: heads, KVHeads: kvHeads, HeadDim: headDim,
		MaxContext: MaxContext, Scale: 1,
		Layers: []LayerSpec{{Window: phases}, {}},
	}}
	n.previousTokens()
	n.matchSuffixes()
	n.chooseLongest()
	n.readOut()
	return n
}

// Spec returns the shape.
func (n *Induction) Spec() Spec { return n.spec }

// code returns bit b of a token's code, +1 or -1.
func code(t Token, b int) float32 { return float32(int(t)>>b&1*2 - 1) }

// previousTokens makes layer 0: head d-1 copies the code of the token d before.
func (n *Induction) previousTokens() {
	var q, k, v, o []weight
	for h := range int32(heads) {
		distance := h + 1
		n.spec.Layers[0].Sinks = append(n.spec.Layers[0].Sinks, previous/2)
		for p := range int32(phases) {
			wanted := (p - distance + phases) % phases
			q = append(q, weight{h*headDim + wanted, atPhase + p, previous})
		}
		for b := range int32(codeBits) {
			o = append(o, weight{atToken + distance*codeBits + b, h*headDim + b, 1})
		}
	}
	for h := range int32(kvHeads) {
		for p := range int32(phases) {
			k = append(k, weight{h*headDim + p, atPhase + p, 1})
		}
		for b := range int32(codeBits) {
			v = append(v, weight{h*headDim + b, atToken + b, 1})
		}
	}
	n.setLayer(0, q, k, v, o)
}

// matchSuffixes makes layer 1: head s-1 looks for the last s tokens. A kv head
// keeps as many codes as the longest suffix of its group asks for, position first,
// so that a short suffix has a short query.
func (n *Induction) matchSuffixes() {
	var q, k, v, o []weight
	for h := range int32(heads) {
		length := h + 1
		n.spec.Layers[1].Sinks = append(n.spec.Layers[1].Sinks, float32(codeBits*length-1)*gap)
		for d := range int32(digits) {
			q = append(q, weight{h*headDim + d, atOne, -earliness * float32(int(1)<<(8*d))})
		}
		for i := range length * codeBits {
			q = append(q, weight{h*headDim + digits + i, atToken + i, gap})
		}
		for i := range int32(foundWidth) {
			o = append(o, weight{atFound + h*foundWidth + i, h*headDim + i, 1})
		}
	}
	for h := range int32(kvHeads) {
		for d := range int32(digits) {
			k = append(k, weight{h*headDim + d, atDigit + d, 1})
		}
		for i := range (h + 1) * group * codeBits {
			k = append(k, weight{h*headDim + digits + i, atToken + codeBits + i, 1})
		}
		for b := range int32(codeBits) {
			v = append(v, weight{h*headDim + b, atToken + b, 1})
		}
		v = append(v, weight{h*headDim + codeBits, atOne, 1})
	}
	n.setLayer(1, q, k, v, o)
}

func (n *Induction) setLayer(layer int, q, k, v, o []weight) {
	n.queries[layer] = newMatrix(heads*headDim, q)
	n.keys[layer] = newMatrix(kvHeads*headDim, k)
	n.values[layer] = newMatrix(kvHeads*headDim, v)
	n.output[layer] = newMatrix(dim, o)
}

// chooseLongest makes the relus. With x a number of a found code and p 1 where the
// next longer suffix was found too, relu(x-p) - relu(-x-p) is x where it was not,
// else 0: of all lengths only the longest found remains.
func (n *Induction) chooseLongest() {
	var up, down []weight
	unit := int32(0)
	for length := range int32(Suffix) {
		for b := range int32(codeBits) {
			for _, sign := range []float32{1, -1} {
				up = append(up, weight{unit, atFound + length*foundWidth + b, sign})
				if length+1 < Suffix {
					up = append(up, weight{unit, atFound + (length+1)*foundWidth + codeBits, -1})
				}
				down = append(down, weight{atChosen + b, unit, sign})
				unit++
			}
		}
	}
	const found = atFound + codeBits // of one token, and so of any longer suffix
	up = append(up, weight{unit, atOne, 1}, weight{unit, found, -1})
	down = append(down, weight{atSilent, unit, 1})
	unit++
	// A code's product with its own is 9, with any other at most 7.
	up = append(up, weight{unit, atOne, -(codeBits - 1)}, weight{unit, found, -2})
	for b := range int32(codeBits) {
		up = append(up, weight{unit, atToken + b, code('\n', int(b))})
	}
	down = append(down, weight{atEnd, unit, 1})
	unit++
	n.up, n.down = newMatrix(int(unit), up), newMatrix(dim, down)
	n.hidden = make([]float32, unit)
}

// readOut makes the logits: the product of each token's code with the chosen one.
func (n *Induction) readOut() {
	var w []weight
	for t := range Token(Vocab) {
		for b := range codeBits {
			w = append(w, weight{int32(t), int32(atChosen + b), sharpness * code(t, b)})
		}
	}
	w = append(w, weight{'\n', atSilent, newline}, weight{'\n', atEnd, -2 * newline}, weight{int32(EOT), atSilent, endOfText})
	n.logits = newMatrix(Vocab, w)
}

// Embed implements Network.
func (n *Induction) Embed(tokens []Token, positions []int, x []float32) {
	for i, t := range tokens {
		row := x[i*dim : (i+1)*dim]
		clear(row)
		p := positions[i]
		row[atPhase+p%phases] = 1
		for d := range digits {
			row[atDigit+d] = float32(p >> (8 * d) & 255)
		}
		row[atOne] = 1
		for b := range codeBits {
			row[atToken+b] = code(t, b)
		}
	}
}

// Keys implements Network.
func (n *Induction) Keys(layer int, positions []int, x, keys, values []float32) {
	const width = kvHeads * headDim
	for i := range positions {
		row := x[i*dim : (i+1)*dim]
		n.keys[layer].apply(row, keys[i*width:(i+1)*width])
		n.values[layer].apply(row, values[i*width:(i+1)*width])
	}
}

// Queries implements Network.
func (n *Induction) Queries(layer int, positions []int, x, queries []float32) {
	const width = heads * headDim
	for i := range positions {
		n.queries[layer].apply(x[i*dim:(i+1)*dim], queries[i*width:(i+1)*width])
	}
}

// Combine implements Network.
func (n *Induction) Combine(layer int, x, attended []float32) {
	const width = heads * headDim
	for i := range len(x) / dim {
		row := x[i*dim : (i+1)*dim]
		n.output[layer].add(attended[i*width:(i+1)*width], row)
		if layer == len(n.spec.Layers)-1 {
			n.up.apply(row, n.hidden)
			relu(n.hidden)
			n.down.add(n.hidden, row)
		}
	}
}

// Logits implements Network.
func (n *Induction) Logits(x, logits []float32) {
	for i := range len(x) / dim {
		n.logits.apply(x[i*dim:(i+1)*dim], logits[i*Vocab:(i+1)*Vocab])
	}
}
