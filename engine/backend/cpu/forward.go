package cpu

import (
	"fmt"
	"runtime"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/kernels/reference"
)

// passRows is how many tokens go through all layers together.
const passRows = 128

// Forward implements backend.Backend.
func (b *Backend) Forward(batch []backend.Sequence, results []backend.Result) error {
	if err := backend.CheckBatch(batch, results, b.spec, b.memory.pages, b.memory.layout.PageTokens); err != nil {
		return fmt.Errorf("forward: %w", err)
	}
	return b.pass.Forward(batch, results)
}

// append stores the keys and values of the pass's rows. Before the first row of
// a page its tag is cleared, so that a reader of an older generation sees that the
// page changes, and after it the tag is set: from then on it grows by whole rows
// that only this sequence knows of.
func (b *Backend) append(layer int, batch []backend.Sequence, results []backend.Result) error {
	k, l := &b.pass.Rows, b.memory.layout
	width := l.KVHeads * l.HeadDim
	for row := range k.N {
		s := &batch[k.Sequence[row]]
		at, slot := k.Positions[row]/l.PageTokens, k.Positions[row]%l.PageTokens
		entry := s.Table[at]
		page := int(entry.Page)
		seen := b.memory.Written(layer, page)
		if !s.Unchecked && !reference.MayAppend(entry.Tag, seen, slot) {
			results[k.Sequence[row]].Flag(backend.Fault{
				Sequence: k.Sequence[row], Layer: layer, Block: at, Page: page,
				Expected: entry.Tag, Seen: seen, Moment: backend.BeforeAppend,
			})
			continue
		}
		if slot == 0 {
			b.memory.SetWritten(layer, page, 0)
		}
		l.Append(b.memory.part(layer, reference.PartK, page), slot, k.Keys[row*width:(row+1)*width])
		l.Append(b.memory.part(layer, reference.PartV, page), slot, k.Values[row*width:(row+1)*width])
		if slot == 0 {
			b.reach(rowStored, layer, 0, page)
			b.memory.SetWritten(layer, page, entry.Tag)
		}
	}
	return nil
}

// attend sets the attended values of the pass's rows.
func (b *Backend) attend(layer int, batch []backend.Sequence, results []backend.Result) error {
	for row := range b.pass.N {
		runtime.Gosched() // a GPU leaves the processors to others: who serves and tells has turns here
		b.attendRow(layer, row, batch, results)
	}
	return nil
}

// attendRow sets one token's attended values from the pages of its sequence's table.
func (b *Backend) attendRow(layer, row int, batch []backend.Sequence, results []backend.Result) {
	k, l, spec := &b.pass.Rows, b.memory.layout, &b.spec.Layers[layer]
	group := b.spec.Heads / b.spec.KVHeads
	to, from := k.Positions[row]+1, 0
	if spec.Window > 0 {
		from = max(0, to-spec.Window)
	}
	i := k.Sequence[row]
	for head := range l.KVHeads {
		first := (row*l.KVHeads + head) * group * l.HeadDim
		b.attention.Reset(k.Queries[first:first+group*l.HeadDim], b.spec.Scale)
		for at := from / l.PageTokens; at*l.PageTokens < to; at++ {
			r := read{
				layer: layer, head: head, block: at,
				from: max(from-at*l.PageTokens, 0), to: min(to-at*l.PageTokens, l.PageTokens),
			}
			b.readPage(r, i, &batch[i], &results[i])
		}
		b.attention.Finish(spec.Sinks[head*group:(head+1)*group], k.Attended[first:first+group*l.HeadDim])
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
		moment, seen = backend.AfterRead, b.memory.Rewritten(r.layer, page)
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
