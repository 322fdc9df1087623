// Package trial puts a backend to the test: the promises of engine/backend that any
// backend must keep, and the least bookkeeping that a test of one needs. It imports
// engine/backend, engine/model and kernels/reference.
package trial

import (
	"math/rand/v2"
	"testing"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/kernels/reference"
)

// Pool is a backend whose pages are handed out in a random order, each time with a
// new generation.
type Pool struct {
	backend.Backend
	T          testing.TB
	R          *rand.Rand
	Free       []int
	generation map[int]uint64
}

// Open opens a backend of the built-in network.
type Open func(t testing.TB, pages, pageTokens int, d reference.DType) *Pool

// NewPool wraps a backend, which it closes at the test's end; a failure prints the
// seed.
func NewPool(t testing.TB, b backend.Backend) *Pool {
	seed := rand.Uint64()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	r := rand.New(rand.NewPCG(seed, 3))
	return &Pool{b, t, r, r.Perm(b.Memory().Pages()), map[int]uint64{}}
}

// HandOut reserves pages for so many tokens.
func (p *Pool) HandOut(tokens int, domain uint32) []backend.Block {
	p.T.Helper()
	size := p.Memory().Layout().PageTokens
	n := (tokens + size - 1) / size
	if n > len(p.Free) {
		p.T.Fatalf("%d pages wanted, %d free", n, len(p.Free))
	}
	table := make([]backend.Block, n)
	for i := range table {
		page := p.Free[0]
		p.Free = p.Free[1:]
		p.generation[page]++
		table[i] = backend.Block{Page: int32(page), Tag: reference.NewTag(p.generation[page], domain)}
	}
	return table
}

// Release gives pages back, unscrubbed; they are the next to be handed out.
func (p *Pool) Release(table []backend.Block) {
	var pages []int
	for _, b := range table {
		pages = append(pages, int(b.Page))
	}
	p.Free = append(pages, p.Free...)
}

// Pass runs a batch that must be valid.
func (p *Pool) Pass(batch ...backend.Sequence) []backend.Result {
	p.T.Helper()
	results := make([]backend.Result, len(batch))
	if err := p.Forward(batch, results); err != nil {
		p.T.Fatal(err)
	}
	return results
}

// Part returns a page of one layer's keys or values.
func (p *Pool) Part(layer int, part reference.Part, page int) []byte {
	return p.Memory().Regions()[2*layer+int(part-reference.PartK)].Page(page)
}

// Contents is every byte of the pool, tags included.
func (p *Pool) Contents() []byte {
	var out []byte
	for _, regions := range [][]backend.Region{p.Memory().Regions(), p.Memory().Tags()} {
		for i := range regions {
			out = append(out, regions[i].Bytes...)
		}
	}
	return out
}

// Request is one text in the making.
type Request struct {
	Text   []model.Token // prompt, then answer
	Prompt int
	Limit  int
	Table  []backend.Block
	Done   int // tokens that are in the pages
	Ended  bool
}

// NewRequest has a prompt and a limit of its answer, and no pages yet.
func NewRequest(prompt []model.Token, limit int) *Request {
	return &Request{Text: append([]model.Token(nil), prompt...), Prompt: len(prompt), Limit: limit}
}

// Written returns a request whose prompt is in the pages, up to its last token.
func Written(p *Pool, tokens int) *Request {
	q := NewRequest(p.Text(tokens), 1)
	q.Table = p.HandOut(tokens, 5)
	p.Pass(backend.Sequence{Tokens: q.Text[:tokens-1], Table: q.Table})
	q.Done = tokens - 1
	return q
}

// Answer is what came after the prompt.
func (q *Request) Answer() []model.Token { return q.Text[q.Prompt:] }

// Next is the request's next chunk, of at most so many tokens.
func (q *Request) Next(chunk int) backend.Sequence {
	n := min(chunk, len(q.Text)-q.Done)
	return backend.Sequence{
		Tokens: q.Text[q.Done : q.Done+n], Start: q.Done, Table: q.Table, Logits: q.Done+n == len(q.Text),
	}
}

// Take takes the result of a chunk: a token where it was the last of the text.
func (q *Request) Take(t testing.TB, s backend.Sequence, result *backend.Result) {
	t.Helper()
	if f, bad := result.Fault(); bad {
		t.Fatalf("false alarm: %+v", f)
	}
	q.Done += len(s.Tokens)
	if !s.Logits {
		return
	}
	token, err := result.Sample(model.NewSampler(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	if token == model.EOT {
		q.Ended = true
		return
	}
	q.Text = append(q.Text, token)
	q.Ended = len(q.Answer()) == q.Limit
}

// Run answers one request alone.
func (p *Pool) Run(q *Request, chunk int) {
	p.T.Helper()
	for !q.Ended {
		s := q.Next(chunk)
		q.Take(p.T, s, &p.Pass(s)[0])
	}
}

// Text returns random bytes of a small alphabet, so that suffixes repeat.
func (p *Pool) Text(n int) []model.Token {
	alphabet := 2 + p.R.IntN(30)
	out := make([]model.Token, n)
	for i := range out {
		out[i] = model.Token('a' + p.R.IntN(alphabet))
		if p.R.IntN(40) == 0 {
			out[i] = []model.Token{model.EOT, '\n', ' ', 0}[p.R.IntN(4)]
		}
	}
	return out
}
