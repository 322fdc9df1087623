package cpu

import (
	"math/rand/v2"
	"testing"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/kernels/reference"
)

// pool is a backend with the least bookkeeping that a test needs: pages are handed
// out in a random order, each time with a new generation.
type pool struct {
	*Backend
	t          testing.TB
	r          *rand.Rand
	free       []int
	generation map[int]uint64
}

// newPool opens a pool whose seed is printed by a failure.
func newPool(t testing.TB, pages, pageTokens int, d reference.DType) *pool {
	seed := rand.Uint64()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	b, err := New(model.NewInduction(), Config{Pages: pages, PageTokens: pageTokens, DType: d})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	r := rand.New(rand.NewPCG(seed, 3))
	return &pool{b, t, r, r.Perm(pages), map[int]uint64{}}
}

// handOut reserves pages for so many tokens.
func (p *pool) handOut(tokens int, domain uint32) []backend.Block {
	n := (tokens + p.memory.layout.PageTokens - 1) / p.memory.layout.PageTokens
	if n > len(p.free) {
		p.t.Fatalf("%d pages wanted, %d free", n, len(p.free))
	}
	table := make([]backend.Block, n)
	for i := range table {
		page := p.free[0]
		p.free = p.free[1:]
		p.generation[page]++
		table[i] = backend.Block{Page: int32(page), Tag: reference.NewTag(p.generation[page], domain)}
	}
	return table
}

// release gives pages back, unscrubbed; they are the next to be handed out.
func (p *pool) release(table []backend.Block) {
	var pages []int
	for _, b := range table {
		pages = append(pages, int(b.Page))
	}
	p.free = append(pages, p.free...)
}

// forward runs a batch that must be valid.
func (p *pool) forward(batch ...backend.Sequence) []backend.Result {
	results := make([]backend.Result, len(batch))
	if err := p.Forward(batch, results); err != nil {
		p.t.Fatal(err)
	}
	return results
}

// request is one text in the making.
type request struct {
	text   []model.Token // prompt, then answer
	prompt int
	limit  int
	table  []backend.Block
	done   int // tokens that are in the pages
	ended  bool
}

func newRequest(prompt []model.Token, limit int) *request {
	return &request{text: append([]model.Token(nil), prompt...), prompt: len(prompt), limit: limit}
}

func (q *request) answer() []model.Token { return q.text[q.prompt:] }

// next is the request's next chunk, of at most so many tokens.
func (q *request) next(chunk int) backend.Sequence {
	n := min(chunk, len(q.text)-q.done)
	return backend.Sequence{
		Tokens: q.text[q.done : q.done+n], Start: q.done, Table: q.table, Logits: q.done+n == len(q.text),
	}
}

// take takes the result of a chunk: a token where it was the last of the text.
func (q *request) take(t testing.TB, s backend.Sequence, result *backend.Result) {
	if f, bad := result.Fault(); bad {
		t.Fatalf("false alarm: %+v", f)
	}
	q.done += len(s.Tokens)
	if !s.Logits {
		return
	}
	token, err := result.Sample(model.NewSampler(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	if token == model.EOT {
		q.ended = true
		return
	}
	q.text = append(q.text, token)
	q.ended = len(q.answer()) == q.limit
}

// run answers one request alone.
func (p *pool) run(q *request, chunk int) {
	for !q.ended {
		s := q.next(chunk)
		q.take(p.t, s, &p.forward(s)[0])
	}
}

// text returns random bytes of a small alphabet, so that suffixes repeat.
func (p *pool) text(n int) []model.Token {
	alphabet := 2 + p.r.IntN(30)
	out := make([]model.Token, n)
	for i := range out {
		out[i] = model.Token('a' + p.r.IntN(alphabet))
		if p.r.IntN(40) == 0 {
			out[i] = []model.Token{model.EOT, '\n', ' ', 0}[p.r.IntN(4)]
		}
	}
	return out
}
