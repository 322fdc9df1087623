package cpu

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/kernels/reference"
)

// written returns a request whose prompt is in the pages, up to its last token.
func written(p *pool, tokens int) *request {
	q := newRequest(p.text(tokens), 1)
	q.table = p.handOut(tokens, 5)
	p.forward(backend.Sequence{Tokens: q.text[:tokens-1], Table: q.table})
	q.done = tokens - 1
	return q
}

// wrongTags are the ways in which a written tag can differ from the one handed out.
func wrongTags(right backend.Tag) []backend.Tag {
	return []backend.Tag{
		0, right - 1, right + 1, ^right,
		reference.NewTag(right.Generation(), right.Domain()+1),
		reference.NewTag(right.Generation(), right.Domain()^1<<23),
	}
}

// Promise: each single wrong tag, in any page and layer that the pass reads, is
// seen every time, named exactly, and stops the sequence and no other; the same
// pass with right tags raises no alarm.
func TestEverySingleWrongTagIsSeen(t *testing.T) {
	p := newPool(t, 40, 16, reference.BFloat16)
	victim, other := written(p, 150), written(p, 90)
	want, _ := model.ExpectTokens(other.text, 1)
	for i := range 10_000 {
		layer, at := 1, p.r.IntN(len(victim.table))
		if p.r.IntN(4) == 0 {
			layer, at = 0, len(victim.table)-1
		}
		block := victim.table[at]
		wrong := wrongTags(block.Tag)
		seen := wrong[p.r.IntN(len(wrong))]
		p.memory.SetWritten(layer, int(block.Page), seen)
		results := p.forward(other.next(1), victim.next(1))
		p.memory.SetWritten(layer, int(block.Page), block.Tag)

		expect := backend.Fault{
			Sequence: 1, Layer: layer, Block: at, Page: int(block.Page),
			Expected: block.Tag, Seen: seen, Moment: backend.BeforeRead,
		}
		if at == len(victim.table)-1 {
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
		if _, bad := p.forward(victim.next(1))[0].Fault(); bad {
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

// Promise: a tag that changes while the page is read is seen after the read, by
// layer, kv head and page, every time; what was read of it does not count.
func TestATagThatChangesDuringTheReadIsSeen(t *testing.T) {
	p := newPool(t, 40, 16, reference.Float32)
	q := written(p, 150)
	type place struct{ layer, head, at int }
	for range 2_000 {
		target := place{1, p.r.IntN(2), p.r.IntN(len(q.table))}
		if p.r.IntN(4) == 0 {
			target = place{0, p.r.IntN(2), len(q.table) - 1}
		}
		block := q.table[target.at]
		keys := p.memory.part(target.layer, reference.PartK, int(block.Page))
		before := bytes.Clone(keys)
		p.reached = func(at point, layer, head, page int) {
			if at == pageRead && layer == target.layer && head == target.head && page == int(block.Page) {
				p.memory.SetWritten(layer, page, block.Tag+1)
			}
		}
		result := &p.forward(q.next(1))[0]
		p.reached = nil
		p.memory.SetWritten(target.layer, int(block.Page), block.Tag)
		copy(keys, before)
		expect := backend.Fault{
			Layer: target.layer, Head: target.head, Block: target.at, Page: int(block.Page),
			Expected: block.Tag, Seen: block.Tag + 1, Moment: backend.AfterRead,
		}
		if got, ok := result.Fault(); !ok || got != expect {
			t.Fatalf("fault %+v (%v), want %+v", got, ok, expect)
		}
		if _, err := result.Logits(); !errors.Is(err, backend.ErrPageTag) {
			t.Fatalf("got %v", err)
		}
	}
}

// Promise: a page that fails its check is left out, not multiplied by zero: NaN in
// it reaches nothing, neither in its own sequence's state nor in a neighbour's.
func TestNaNInASkippedPageReachesNothing(t *testing.T) {
	p := newPool(t, 40, 16, reference.Float32)
	q := written(p, 150)
	for _, block := range q.table[:4] {
		for _, part := range []reference.Part{reference.PartK, reference.PartV} {
			page := p.memory.part(1, part, int(block.Page))
			for i := range page {
				page[i] = 0xff
			}
		}
		p.memory.SetWritten(1, int(block.Page), 0)
	}
	result := &p.forward(q.next(1))[0]
	if result.Skipped() != 4 {
		t.Fatalf("%d pages skipped", result.Skipped())
	}
	for i, x := range p.block.attended[:p.spec.Heads*p.spec.HeadDim] {
		if x != x {
			t.Fatalf("attended number %d is NaN", i)
		}
	}
}

// Promise: all pages wrong is attention to nothing: no NaN, no token, all counted.
func TestEveryPageWrongGivesNoToken(t *testing.T) {
	p := newPool(t, 40, 16, reference.Float32)
	q := written(p, 150)
	for i := range q.table {
		q.table[i].Tag++
	}
	q.table[0].Tag = 0
	result := &p.forward(q.next(1))[0]
	if _, err := result.Sample(model.NewSampler(1, 1)); !errors.Is(err, backend.ErrPageTag) {
		t.Fatalf("got %v", err)
	}
	if result.Skipped() != len(q.table) {
		t.Fatalf("%d of %d pages counted", result.Skipped(), len(q.table))
	}
}

// Promise: a writer whose generation is over writes nothing, in the middle of a
// page or at its first row, and the tag of the new holder stays.
func TestALateAppendWritesNothing(t *testing.T) {
	p := newPool(t, 4, 16, reference.Float32)
	late := written(p, 20)
	p.release(late.table)
	now := written(p, 20)
	if !slices.ContainsFunc(now.table, func(b backend.Block) bool { return b.Page == late.table[0].Page }) {
		t.Fatal("the pages were not handed out again")
	}
	before := p.contents()
	for _, start := range []int{0, 16, 19} {
		s := backend.Sequence{Tokens: late.text[start:], Start: start, Table: late.table, Logits: true}
		result := &p.forward(s)[0]
		if f, ok := result.Fault(); !ok || f.Moment != backend.BeforeAppend {
			t.Fatalf("from %d: fault %+v, %v", start, f, ok)
		}
		if !bytes.Equal(p.contents(), before) {
			t.Fatalf("from %d: the late append wrote", start)
		}
	}
}

// contents is every byte of the pool, tags included.
func (p *pool) contents() []byte {
	var out []byte
	for _, regions := range [][]backend.Region{p.memory.regions, p.memory.tags} {
		for i := range regions {
			out = append(out, regions[i].Bytes...)
		}
	}
	return out
}

// Promise: while the first row of a page is stored, its tag is neither that of the
// old generation nor that of the new one: a reader of either sees the change.
func TestThePageIsNobodysWhileItsFirstRowIsStored(t *testing.T) {
	p := newPool(t, 4, 16, reference.Float32)
	old := written(p, 40)
	p.release(old.table)
	stored := 0
	p.reached = func(at point, layer, _, page int) {
		if at != rowStored {
			return
		}
		stored++
		if got := p.memory.Written(layer, page); got != 0 {
			t.Errorf("layer %d, page %d: tag %v while the row is stored", layer, page, got)
		}
	}
	now := written(p, 40)
	if want := len(now.table) * len(p.spec.Layers); stored != want {
		t.Fatalf("%d first rows, want %d", stored, want)
	}
	for layer := range p.spec.Layers {
		for _, block := range now.table {
			if got := p.memory.Written(layer, int(block.Page)); got != block.Tag {
				t.Errorf("layer %d, page %d: tag %v, want %v", layer, block.Page, got, block.Tag)
			}
		}
	}
}

// Promise: a transfer may set tags while a pass reads them.
func TestTagsMayBeWrittenDuringAPass(t *testing.T) {
	p := newPool(t, 40, 16, reference.Float32)
	q := written(p, 300)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 20_000 {
			block := q.table[i%10]
			p.memory.SetWritten(1, int(block.Page), block.Tag+backend.Tag(i%2))
		}
	}()
	for running := true; running; {
		result := &p.forward(q.next(1))[0]
		_, bad := result.Fault()
		if _, err := result.Logits(); bad != errors.Is(err, backend.ErrPageTag) {
			t.Fatalf("fault %v, logits %v", bad, err)
		}
		select {
		case <-done:
			running = false
		default:
		}
	}
}
