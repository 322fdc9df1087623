//go:build cuda

package cuda

import (
	"errors"
	"fmt"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/kernels"
)

const (
	// passRows is how many tokens go through all layers together.
	passRows = 512
	// appendThreads of a block, which stores the rows of one page.
	appendThreads = 256
	// splitPages is the least that a warp of a split reads, and MaxSplits bounds the
	// memory that splits are merged from.
	splitPages = 4
	maxSplits  = 64
)

// tables are the block tables of a batch as the GPU has them.
type tables struct {
	first                   []uint32 // of each sequence, among all entries
	blocks, faults, skipped kernels.Ptr
	fault                   []kernels.Fault
	bits                    []uint32
}

// Forward implements backend.Backend.
func (b *Backend) Forward(batch []backend.Sequence, results []backend.Result) error {
	if err := backend.CheckBatch(batch, results, b.spec, b.memory.pages, b.memory.layout.PageTokens); err != nil {
		return fmt.Errorf("forward: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.device.enter(); err != nil {
		return fmt.Errorf("forward: %w", err)
	}
	defer b.device.leave()
	b.upload(batch)
	err := b.batch.err
	if err == nil {
		err = b.pass.Forward(batch, results)
	}
	if err == nil {
		b.tables.flag(batch, results)
	} else {
		err = errors.Join(err, b.device.wait()) // what was queued still uses what is given back now
	}
	if err = errors.Join(err, b.batch.reset(), b.step.reset()); err != nil {
		return fmt.Errorf("forward: %w", err)
	}
	return nil
}

// upload lays out the block tables of a batch, and room for its faults.
func (b *Backend) upload(batch []backend.Sequence) {
	t := &b.tables
	t.first = t.first[:0]
	entries := 0
	for i := range batch {
		t.first = append(t.first, uint32(entries))
		entries += len(batch[i].Table)
	}
	blocks, at := take[kernels.Block](&b.batch, entries)
	t.blocks = at
	for i := range batch {
		for j, e := range batch[i].Table {
			blocks[int(t.first[i])+j] = kernels.Block{Page: e.Page, Tag: e.Tag}
		}
	}
	t.fault, t.faults = take[kernels.Fault](&b.batch, len(batch))
	t.bits, t.skipped = take[uint32](&b.batch, (entries+31)/32)
}

// flag tells the results of the faults that kernels recorded.
func (t *tables) flag(batch []backend.Sequence, results []backend.Result) {
	for i := range batch {
		f := &t.fault[i]
		if f.Claimed == 0 {
			continue
		}
		results[i].Flag(backend.Fault{
			Sequence: i, Layer: int(f.Layer), Head: int(f.Head), Block: int(f.Block), Page: int(f.Page),
			Expected: f.Expected, Seen: f.Seen, Moment: backend.Moment(f.Moment),
		})
		for j := range batch[i].Table {
			if at := int(t.first[i]) + j; t.bits[at/32]>>(at%32)&1 == 1 {
				results[i].Flag(backend.Fault{Block: j})
			}
		}
	}
}

func (b *Backend) passArgs(layer int) kernels.Pass {
	return kernels.Pass{
		Shape: b.memory.shape(), Layer: b.memory.layer(layer), Number: uint64(layer),
		Tables: b.tables.blocks, Faults: b.tables.faults, Skipped: b.tables.skipped,
	}
}

func number(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// append queues the storing of the rows' keys and values: a run of consecutive rows
// of one page at a time.
func (b *Backend) append(layer int, batch []backend.Sequence, _ []backend.Result) error {
	if err := b.step.reset(); err != nil {
		return err
	}
	k, tokens := &b.pass.Rows, b.memory.layout.PageTokens
	runs, at := take[kernels.Run](&b.step, k.N)
	n := 0
	for row := range k.N {
		i, position := k.Sequence[row], k.Positions[row]
		if n > 0 && position%tokens > 0 && runs[n-1].Sequence == uint32(i) {
			runs[n-1].Rows++
			continue
		}
		runs[n] = kernels.Run{
			Sequence: uint32(i), Table: b.tables.first[i], Block: uint32(position / tokens), Slot: uint32(position % tokens),
			First: uint32(row), Rows: 1, Unchecked: number(batch[i].Unchecked),
		}
		n++
	}
	args := put(&b.step, kernels.AppendArgs{Pass: b.passArgs(layer), Runs: at, Keys: pointerTo(k.Keys), Values: pointerTo(k.Values)})
	if b.step.err != nil {
		return b.step.err
	}
	return b.device.launch("kv_append", [3]int{n, 1, 1}, appendThreads, args)
}

// attend computes the rows' attended values, and waits for them.
func (b *Backend) attend(layer int, batch []backend.Sequence, _ []backend.Result) error {
	if b.pass.N == 0 {
		return b.device.wait()
	}
	k, spec := &b.pass.Rows, &b.spec.Layers[layer]
	tiles, at := take[kernels.Tile](&b.step, k.N)
	n, longest := b.tile(tiles, batch, spec.Window)
	group := b.spec.Heads / b.spec.KVHeads
	columns := b.spec.KVHeads * ((group + kernels.Queries - 1) / kernels.Queries)
	splits := b.splits(n*columns, longest)
	args := kernels.AttentionArgs{
		Pass: b.passArgs(layer), Tiles: at, Queries: pointerTo(k.Queries), Sinks: b.sinks[layer], Attended: pointerTo(k.Attended),
		Rows: uint64(k.N), Heads: uint32(b.spec.Heads), Window: uint32(spec.Window), Scale: b.spec.Scale,
	}
	dim := b.spec.HeadDim
	if splits > 1 {
		_, args.Partial = take[float32](&b.step, splits*k.N*b.spec.Heads*(dim+2))
	}
	merge := put(&b.step, kernels.MergeArgs{
		Partial: args.Partial, Sinks: args.Sinks, Attended: args.Attended,
		Rows: args.Rows, Heads: args.Heads, Dim: uint32(dim), Splits: uint32(splits),
	})
	attend := put(&b.step, args)
	if b.step.err != nil {
		return b.step.err
	}
	name := fmt.Sprintf("kv_attention_%v_%d", b.memory.layout.DType, dim)
	err := b.device.launch(name, [3]int{n, columns, splits}, kernels.Warps*kernels.Warp, attend)
	if err == nil && splits > 1 {
		err = b.device.launch("kv_merge", [3]int{k.N, b.spec.Heads, 1}, dim, merge)
	}
	return errors.Join(err, b.device.wait())
}

// tile groups the rows into tiles; it returns their number and the most pages that
// one of them reads.
func (b *Backend) tile(tiles []kernels.Tile, batch []backend.Sequence, window int) (n, longest int) {
	k, tokens := &b.pass.Rows, b.memory.layout.PageTokens
	rows := uint32(max(1, kernels.Queries/(b.spec.Heads/b.spec.KVHeads)))
	for row := range k.N {
		i, position := k.Sequence[row], k.Positions[row]
		if n > 0 {
			t := &tiles[n-1]
			if t.Sequence == uint32(i) && t.Rows < rows && t.Position+t.Rows == uint32(position) {
				t.Rows++
				continue
			}
		}
		tiles[n] = kernels.Tile{
			Sequence: uint32(i), Table: b.tables.first[i], First: uint32(row), Rows: 1,
			Position: uint32(position), Unchecked: number(batch[i].Unchecked),
		}
		n++
		read := position + 1
		if window > 0 {
			read = min(read, window)
		}
		longest = max(longest, read/tokens+1)
	}
	return n, longest
}

// splits is into how many parts a sequence's pages are divided, so that a few long
// ones keep the whole GPU busy.
func (b *Backend) splits(blocks, longest int) int {
	idle := 2 * b.device.processors / blocks
	return max(1, min(idle, longest/(kernels.Warps*splitPages), maxSplits))
}
