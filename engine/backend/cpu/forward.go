package cpu

import (
	"fmt"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/kernels/reference"
)

// blockRows is how many tokens go through all layers together: enough to share
// work among them, few enough for their numbers to stay in the cache.
const blockRows = 128

// block is the scratch of up to blockRows tokens, of any sequences.
type block struct {
	n         int
	sequence  [blockRows]int
	wanted    [blockRows]bool // its logits were asked for
	tokens    [blockRows]model.Token
	positions [blockRows]int

	x, keys, values, queries, attended []float32
}

func newBlock(s model.Spec) block {
	return block{
		x:        make([]float32, blockRows*s.Dim),
		keys:     make([]float32, blockRows*s.KVHeads*s.HeadDim),
		values:   make([]float32, blockRows*s.KVHeads*s.HeadDim),
		queries:  make([]float32, blockRows*s.Heads*s.HeadDim),
		attended: make([]float32, blockRows*s.Heads*s.HeadDim),
	}
}

// Forward implements backend.Backend.
func (b *Backend) Forward(batch []backend.Sequence, results []backend.Result) error {
	l := b.memory.layout
	if err := backend.CheckBatch(batch, results, b.spec, b.memory.pages, l.PageTokens); err != nil {
		return fmt.Errorf("forward: %w", err)
	}
	if need := len(batch) * b.spec.Vocab; cap(b.logits) < need {
		b.logits = make([]float32, need)
	}
	b.block.n = 0
	for i := range batch {
		s := &batch[i]
		results[i].Begin(len(s.Table))
		for j, t := range s.Tokens {
			n := b.block.n
			b.block.sequence[n], b.block.tokens[n], b.block.positions[n] = i, t, s.Start+j
			b.block.wanted[n] = s.Logits && j == len(s.Tokens)-1
			if b.block.n++; b.block.n == blockRows {
				b.run(batch, results)
			}
		}
	}
	b.run(batch, results)
	return nil
}

// run takes the block's tokens through all layers and empties it.
func (b *Backend) run(batch []backend.Sequence, results []backend.Result) {
	k := &b.block
	b.network.Embed(k.tokens[:k.n], k.positions[:k.n], k.x)
	for layer := range b.spec.Layers {
		b.network.Keys(layer, k.positions[:k.n], k.x, k.keys, k.values)
		b.append(layer, batch, results)
		if layer == len(b.spec.Layers)-1 {
			k.keepWanted(b.spec.Dim)
		}
		b.network.Queries(layer, k.positions[:k.n], k.x, k.queries)
		for row := range k.n {
			b.attend(layer, row, batch, results)
		}
		b.network.Combine(layer, k.x[:k.n*b.spec.Dim], k.attended)
	}
	for row := range k.n {
		i := k.sequence[row]
		logits := b.logits[i*b.spec.Vocab : (i+1)*b.spec.Vocab]
		b.network.Logits(k.x[row*b.spec.Dim:(row+1)*b.spec.Dim], logits)
		results[i].SetLogits(logits)
	}
	k.n = 0
}

// keepWanted moves the rows whose logits were asked for to the front and drops the
// others: after the last layer's keys and values nobody needs them.
func (k *block) keepWanted(dim int) {
	n := 0
	for row := range k.n {
		if !k.wanted[row] {
			continue
		}
		k.sequence[n], k.positions[n] = k.sequence[row], k.positions[row]
		copy(k.x[n*dim:(n+1)*dim], k.x[row*dim:(row+1)*dim])
		n++
	}
	k.n = n
}

// append stores the keys and values of the block's tokens. Before the first row of
// a page its tag is cleared, so that a reader of an older generation sees that the
// page changes, and after it the tag is set: from then on it grows by whole rows
// that only this sequence knows of.
func (b *Backend) append(layer int, batch []backend.Sequence, results []backend.Result) {
	k, l := &b.block, b.memory.layout
	width := l.KVHeads * l.HeadDim
	for row := range k.n {
		s := &batch[k.sequence[row]]
		at, slot := k.positions[row]/l.PageTokens, k.positions[row]%l.PageTokens
		entry := s.Table[at]
		page := int(entry.Page)
		seen := b.memory.Written(layer, page)
		if !s.Unchecked && !reference.MayAppend(entry.Tag, seen, slot) {
			results[k.sequence[row]].Flag(backend.Fault{
				Sequence: k.sequence[row], Layer: layer, Block: at, Page: page,
				Expected: entry.Tag, Seen: seen, Moment: backend.BeforeAppend,
			})
			continue
		}
		if slot == 0 {
			b.memory.SetWritten(layer, page, 0)
		}
		l.Append(b.memory.part(layer, reference.PartK, page), slot, k.keys[row*width:(row+1)*width])
		l.Append(b.memory.part(layer, reference.PartV, page), slot, k.values[row*width:(row+1)*width])
		if slot == 0 {
			b.reach(rowStored, layer, 0, page)
			b.memory.SetWritten(layer, page, entry.Tag)
		}
	}
}

// attend sets one token's attended values from the pages of its sequence's table.
func (b *Backend) attend(layer, row int, batch []backend.Sequence, results []backend.Result) {
	k, l, spec := &b.block, b.memory.layout, &b.spec.Layers[layer]
	group := b.spec.Heads / b.spec.KVHeads
	to, from := k.positions[row]+1, 0
	if spec.Window > 0 {
		from = max(0, to-spec.Window)
	}
	i := k.sequence[row]
	for head := range l.KVHeads {
		first := (row*l.KVHeads + head) * group * l.HeadDim
		b.attention.Reset(k.queries[first:first+group*l.HeadDim], b.spec.Scale)
		for at := from / l.PageTokens; at*l.PageTokens < to; at++ {
			r := read{
				layer: layer, head: head, block: at,
				from: max(from-at*l.PageTokens, 0), to: min(to-at*l.PageTokens, l.PageTokens),
			}
			b.readPage(r, i, &batch[i], &results[i])
		}
		b.attention.Finish(spec.Sinks[head*group:(head+1)*group], k.attended[first:first+group*l.HeadDim])
	}
}

// read is a range of rows of one kv head of one block.
type read struct{ layer, head, block, from, to int }

// readPage attends to a page between two checks of its tag; with either one failed
// the page is left out and the sequence flagged.
func (b *Backend) readPage(r read, sequence int, s *backend.Sequence, result *backend.Result) {
	entry := s.Table[r.block]
	page := int(entry.Page)
	moment, seen := backend.BeforeRead, b.memory.Written(r.layer, page)
	if s.Unchecked || reference.Readable(entry.Tag, seen) {
		l := b.memory.layout
		b.attention.Page(l.Head(b.memory.part(r.layer, reference.PartK, page), r.head),
			l.Head(b.memory.part(r.layer, reference.PartV, page), r.head), r.from, r.to)
		b.reach(pageRead, r.layer, r.head, page)
		moment, seen = backend.AfterRead, b.memory.rewritten(r.layer, page)
		if s.Unchecked || reference.Readable(entry.Tag, seen) {
			b.attention.Commit()
			return
		}
	}
	result.Flag(backend.Fault{
		Sequence: sequence, Layer: r.layer, Head: r.head, Block: r.block, Page: page,
		Expected: entry.Tag, Seen: seen, Moment: moment,
	})
}
