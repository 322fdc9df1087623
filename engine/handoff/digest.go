package handoff

import (
	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/kernels/reference"
)

// Owed is what a handoff must have brought: pages with their generations, the
// first of them the Position-th of the prompt, and the tokens in all of them.
type Owed struct {
	Pages    []kvcache.PageID
	Gens     []kvcache.Gen
	Position int
	Tokens   int
}

func (o Owed) tokensIn(i, size int) int { return min(size, o.Tokens-i*size) }

// Checked is what a comparison of digests says. Ran is false where a rank sent
// none; then nothing else is said. Sum is over all ranks: where there are several,
// what each of them sent adds up to it if all is well.
type Checked struct {
	Ran, Match bool
	Sum        uint64
}

// Check compares what lies in the owed pages with what each rank said it sent.
func (m *Memory) Check(o Owed, slot kvcache.PageID) Checked {
	c := Checked{Ran: true, Match: true}
	for rank := range m.ranks {
		r := m.Record(slot, rank)
		if !r.HasDigest {
			return Checked{}
		}
		sum := m.digest(o, r.Key, rank)
		c.Match = c.Match && sum == r.Digest
		c.Sum += sum
	}
	return c
}

// digest sums the digests of a rank's layers of the owed pages, as they lie here.
func (m *Memory) digest(o Owed, key [2]uint64, rank int) (sum uint64) {
	m.Lock()
	defer m.Unlock()
	l, regions := m.Pages.Layout(), m.Pages.Regions()
	first, end := layersOf(rank, m.ranks, len(m.Pages.Tags()))
	for i, p := range o.Pages {
		tokens := o.tokensIn(i, l.PageTokens)
		if tokens <= 0 {
			break
		}
		for j := range regions {
			if r := &regions[j]; r.Layer >= first && r.Layer < end {
				sum += l.Digest(r.Page(int(p)), tokens, reference.Binding{
					Key: key, Position: o.Position + i, Layer: r.Layer, Part: r.Part, Generation: uint64(o.Gens[i]),
				})
			}
		}
	}
	return sum
}
