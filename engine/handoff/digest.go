package handoff

import (
	"fmt"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/engine/kvcache"
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

// Check compares what lies in the owed pages with what each rank said it sent. An
// error, of the backend's Digest, says that nothing is known: then nothing matches.
func (m *Memory) Check(o Owed, slot kvcache.PageID) (Checked, error) {
	c := Checked{Ran: true, Match: true}
	for rank := range m.ranks {
		r := m.Record(slot, rank)
		if !r.HasDigest {
			return Checked{}, nil
		}
		sum, err := m.digest(o, r.Key, rank)
		if err != nil {
			return Checked{Ran: true}, fmt.Errorf("compare the digest of %d pages with that of rank %d: %w", len(o.Pages), rank, err)
		}
		c.Match = c.Match && sum == r.Digest
		c.Sum += sum
	}
	return c, nil
}

// digest sums the digests of a rank's layers of the owed pages, as they lie here.
func (m *Memory) digest(o Owed, key [2]uint64, rank int) (uint64, error) {
	var pages []backend.DigestPage
	for i, p := range o.Pages {
		tokens := o.tokensIn(i, m.Pages.Layout().PageTokens)
		if tokens <= 0 {
			break
		}
		pages = append(pages, backend.DigestPage{Page: int(p), Position: o.Position + i, Tokens: tokens, Generation: uint64(o.Gens[i])})
	}
	first, end := layersOf(rank, m.ranks, len(m.Pages.Tags()))
	m.Lock()
	defer m.Unlock()
	return m.backend.Digest(key, pages, first, end)
}
