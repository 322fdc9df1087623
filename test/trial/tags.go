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
