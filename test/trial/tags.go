package trial

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/kernels/reference"
)

// wrongTags are the ways in which a written tag can differ from the one handed out.
func wrongTags(right backend.Tag) []backend.Tag {
	return []backend.Tag{
		0, right - 1, right + 1, ^right,
		reference.NewTag(right.Generation(), right.Domain()+1),
		reference.NewTag(right.Generation(), right.Domain()^1<<23),
	}
}

// EverySingleWrongTagIsSeen promises: each single wrong tag, in any page and layer that the pass reads, is
// seen every time, named exactly, and stops the sequence and no other; the same
// pass with right tags raises no alarm.
func EverySingleWrongTagIsSeen(t *testing.T, open Open, d reference.DType, times int) {
	p := open(t, 40, 16, d)
	victim, other := Written(p, 150), Written(p, 90)
	want, _ := model.ExpectTokens(other.Text, 1)
	for i := range times {
		layer, at := 1, p.R.IntN(len(victim.Table))
		if p.R.IntN(4) == 0 {
			layer, at = 0, len(victim.Table)-1
		}
		block := victim.Table[at]
		wrong := wrongTags(block.Tag)
		seen := wrong[p.R.IntN(len(wrong))]
		p.Memory().SetWritten(layer, int(block.Page), seen)
		results := p.Pass(other.Next(1), victim.Next(1))
		p.Memory().SetWritten(layer, int(block.Page), block.Tag)

		expect := backend.Fault{
			Sequence: 1, Layer: layer, Block: at, Page: int(block.Page),
			Expected: block.Tag, Seen: seen, Moment: backend.BeforeRead,
		}
		if at == len(victim.Table)-1 {
			expect.Moment = backend.BeforeAppend
		}
		if got, ok := results[1].Fault(); !ok || got != expect || results[1].Skipped() != 1 {
			t.Fatalf("fault %+v (%v, %d pages), want %+v", got, ok, results[1].Skipped(), expect)
		}
		if token, err := results[1].Sample(model.NewSampler(0, 0)); !errors.Is(err, backend.ErrPageTag) {
			t.Fatalf("token %d, error %v", token, err)
		}
		if token, err := results[0].Sample(model.NewSampler(0, 0)); err != nil || !endsAs(token, want) {
			t.Fatalf("the neighbour got token %d, error %v, want %v", token, err, want)
		}
		if i%10 > 0 {
			continue
		}
		if _, bad := p.Pass(victim.Next(1))[0].Fault(); bad {
			t.Fatal("false alarm with right tags")
		}
	}
}

// endsAs says whether a token is the answer's only one; EOT where it is empty.
func endsAs(token model.Token, answer []model.Token) bool {
	if len(answer) == 0 {
		return token == model.EOT
	}
	return token == answer[0]
}

// ALateAppendWritesNothing promises: a writer whose generation is over writes nothing, in the middle of a
// page or at its first row, and the tag of the new holder stays.
func ALateAppendWritesNothing(t *testing.T, open Open) {
	p := open(t, 4, 16, reference.Float32)
	late := Written(p, 20)
	p.Release(late.Table)
	now := Written(p, 20)
	if !slices.ContainsFunc(now.Table, func(b backend.Block) bool { return b.Page == late.Table[0].Page }) {
		t.Fatal("the pages were not handed out again")
	}
	before := p.Contents()
	for _, start := range []int{0, 16, 19} {
		s := backend.Sequence{Tokens: late.Text[start:], Start: start, Table: late.Table, Logits: true}
		result := &p.Pass(s)[0]
		if f, ok := result.Fault(); !ok || f.Moment != backend.BeforeAppend {
			t.Fatalf("from %d: fault %+v, %v", start, f, ok)
		}
		if !bytes.Equal(p.Contents(), before) {
			t.Fatalf("from %d: the late append wrote", start)
		}
	}
}

// NoFalseAlarm promises: while requests come, grow and go, and their pages are handed
// out again and again, no right tag is taken for a wrong one, in that many page reads
// (of one page, by one kv head, in one layer, for one token).
func NoFalseAlarm(t *testing.T, open Open, d reference.DType, reads int) {
	const requests, longest = 8, 300
	p := open(t, requests*(longest/16+1), 16, d)
	spec := p.Spec()
	for reads > 0 {
		var all []*Request
		for range requests {
			all = append(all, Written(p, 2+p.R.IntN(longest-40)))
		}
		for range 32 {
			var batch []backend.Sequence
			for _, q := range all {
				if len(q.Text) == len(q.Table)*16 {
					q.Table = append(q.Table, p.HandOut(16, 5)...)
				}
				batch = append(batch, q.Next(1))
				reads -= len(q.Text) / 16 * spec.KVHeads * len(spec.Layers)
			}
			results := p.Pass(batch...)
			for i, q := range all {
				if f, bad := results[i].Fault(); bad {
					t.Fatalf("false alarm: %+v", f)
				}
				q.Done++
				q.Text = append(q.Text, model.Token('a'+p.R.IntN(26)))
			}
		}
		for _, q := range all {
			p.Release(q.Table)
		}
	}
}

// EveryWrongTagStopsAWrite promises: where the written tag of a page forbids it, at its
// first row and at any later one, in any layer, a row is not stored, the fault is named
// exactly and the page and its tag stay as they are.
func EveryWrongTagStopsAWrite(t *testing.T, open Open, d reference.DType, times int) {
	const rows = 16
	p := open(t, 3*rows, rows, d)
	var all []*Request // the next row of each is another slot of its last page
	for slot := range rows {
		all = append(all, Written(p, 2*rows+slot+1))
	}
	for range times {
		slot, layer := p.R.IntN(rows), p.R.IntN(len(p.Spec().Layers))
		q := all[slot]
		block := q.Table[len(q.Table)-1]
		page := int(block.Page)
		wrong := wrongTags(block.Tag)
		seen := wrong[p.R.IntN(len(wrong))]
		if reference.MayAppend(block.Tag, seen, slot) { // an older generation that the first row ends
			seen = block.Tag + 1
		}
		before, keys, values := p.Memory().Written(layer, page), bytes.Clone(p.Part(layer, reference.PartK, page)), bytes.Clone(p.Part(layer, reference.PartV, page))
		p.Memory().SetWritten(layer, page, seen)
		result := &p.Pass(q.Next(1))[0]
		expect := backend.Fault{
			Layer: layer, Block: len(q.Table) - 1, Page: page, Expected: block.Tag, Seen: seen, Moment: backend.BeforeAppend,
		}
		if got, ok := result.Fault(); !ok || got != expect {
			t.Fatalf("slot %d: fault %+v (%v), want %+v", slot, got, ok, expect)
		}
		if got := p.Memory().Written(layer, page); got != seen || !bytes.Equal(p.Part(layer, reference.PartK, page), keys) || !bytes.Equal(p.Part(layer, reference.PartV, page), values) {
			t.Fatalf("slot %d: tag %v after %v, and the page's bytes are those from before: %v", slot, got, seen, bytes.Equal(p.Part(layer, reference.PartK, page), keys))
		}
		if token, err := result.Sample(model.NewSampler(0, 0)); !errors.Is(err, backend.ErrPageTag) {
			t.Fatalf("token %d, error %v", token, err)
		}
		p.Memory().SetWritten(layer, page, before)
	}
}
