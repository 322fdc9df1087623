package bpe

import (
	"container/heap"

	"github.com/kvwitness/kvwitness/engine/model"
)

// merge is what becomes of a pair of neighbours. The lower rank goes first.
type merge struct {
	rank int
	to   model.Token
}

// candidate is a pair that may be merged: the piece at index at with its next one.
// It is out of date once one of the two has been merged otherwise.
type candidate struct {
	merge
	at          int
	left, right model.Token
}

// candidates is a heap: the lowest rank, of those the first place.
type candidates []candidate

func (c candidates) Len() int { return len(c) }
func (c candidates) Less(i, j int) bool {
	return c[i].rank < c[j].rank || c[i].rank == c[j].rank && c[i].at < c[j].at
}
func (c candidates) Swap(i, j int) { c[i], c[j] = c[j], c[i] }
func (c *candidates) Push(x any)   { *c = append(*c, x.(candidate)) }

func (c *candidates) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}

// gone stands for a piece that was merged into the one before, and for a byte that
// has no token.
const gone = model.Token(-1)

// pieces is a word while its pairs are merged: a list of tokens, linked by index.
type pieces struct {
	t          *Tokenizer
	token      []model.Token
	prev, next []int
	open       candidates
}

// mergeWord appends the tokens of a word. Bytes that have no token are left out, as
// those who trained such a vocabulary do it.
func (t *Tokenizer) mergeWord(word []byte, out []model.Token) []model.Token {
	p := pieces{t: t}
	for _, b := range word {
		if id := t.bytes[b]; id != gone {
			n := len(p.token)
			p.token, p.prev, p.next = append(p.token, id), append(p.prev, n-1), append(p.next, n+1)
		}
	}
	for i := range p.token {
		p.consider(i)
	}
	for len(p.open) > 0 {
		p.take(heap.Pop(&p.open).(candidate))
	}
	for i := 0; i < len(p.token); i = p.next[i] {
		out = append(out, p.token[i])
	}
	return out
}

// consider adds the pair that begins at a piece, if it can be merged.
func (p *pieces) consider(at int) {
	if at < 0 || p.next[at] >= len(p.token) {
		return
	}
	left, right := p.token[at], p.token[p.next[at]]
	if m, ok := p.t.merges[[2]model.Token{left, right}]; ok {
		heap.Push(&p.open, candidate{m, at, left, right})
	}
}

// take merges a pair that is still there.
func (p *pieces) take(c candidate) {
	if p.token[c.at] != c.left {
		return
	}
	second := p.next[c.at]
	if second >= len(p.token) || p.token[second] != c.right {
		return
	}
	p.token[c.at], p.token[second] = c.to, gone
	p.next[c.at] = p.next[second]
	if after := p.next[second]; after < len(p.token) {
		p.prev[after] = c.at
	}
	p.consider(p.prev[c.at])
	p.consider(c.at)
}
