//go:build cuda && fakecuda

package cuda

import (
	"errors"
	"testing"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/kernels/reference"
	"github.com/kvwitness/kvwitness/test/fakecuda"
)

// tagChanges is how many tags go wrong.
const tagChanges = 10_000

// Promise: each single wrong tag, of any page and layer, whatever differs, and at
// whatever moment (before an append, before a read, in the middle of the read by any
// kv head) is seen every time, named exactly, and gives no token; in between the same
// pass with right tags raises no alarm.
func TestEveryTagThatGoesWrongAtAnyMomentIsSeen(t *testing.T) {
	r := random(t)
	const kvHeads, layers = 2, 2
	s := newScript(r, kvHeads, kvHeads, 64, layers)
	g := newRig(t, s, r, Config{Pages: 8, PageTokens: 16, DType: reference.BFloat16})
	pages := table(3, 4)
	g.forward(t, backend.Sequence{Tokens: tokens(1, 60), Table: pages})
	next := backend.Sequence{Tokens: tokens(1, 1), Start: 60, Table: pages, Logits: true}
	for i := range tagChanges {
		layer, block := r.IntN(layers), r.IntN(len(pages))
		entry := pages[block]
		loads := r.IntN(2 * kvHeads) // each head checks before its read and after
		want := backend.Fault{Layer: layer, Head: loads / 2, Block: block, Page: int(entry.Page), Expected: entry.Tag, Moment: backend.BeforeRead}
		if loads%2 == 1 {
			want.Moment = backend.AfterRead
		}
		if block == len(pages)-1 { // the append checks first
			if loads = r.IntN(2*kvHeads + 1); loads == 0 {
				want.Head, want.Moment = 0, backend.BeforeAppend
			} else {
				want.Head = (loads - 1) / 2
				want.Moment = []backend.Moment{backend.BeforeRead, backend.AfterRead}[(loads-1)%2]
			}
		}
		want.Seen = []backend.Tag{
			0, entry.Tag - 1, entry.Tag + 1, ^entry.Tag, entry.Tag ^ 1<<r.IntN(64),
			reference.NewTag(entry.Tag.Generation(), entry.Tag.Domain()+1),
		}[r.IntN(6)]
		fakecuda.Change(g.memory.tags[layer].PageAddress(int(entry.Page)), loads, uint64(want.Seen))
		result := &g.forward(t, next)[0]
		g.memory.SetWritten(layer, int(entry.Page), entry.Tag)
		if got, bad := result.Fault(); !fakecuda.Changed() || !bad || got != want || result.Skipped() != 1 {
			t.Fatalf("changed %v: fault %+v (%v, %d pages), want %+v", fakecuda.Changed(), got, bad, result.Skipped(), want)
		}
		if token, err := result.Sample(model.NewSampler(0, 0)); !errors.Is(err, backend.ErrPageTag) {
			t.Fatalf("token %d, error %v", token, err)
		}
		if i%10 == 0 {
			if f, bad := g.forward(t, next)[0].Fault(); bad {
				t.Fatalf("false alarm: %+v", f)
			}
		}
	}
}

// Promise: each flipped bit of a page, in each layer, is seen by the digest.
func TestTheDigestSeesEveryBit(t *testing.T) {
	r := random(t)
	d := newDigester(t, newRig(t, newScript(r, 1, 1, 64, 2), r, Config{Pages: 3, PageTokens: 16, DType: reference.BFloat16}))
	want := d.want()
	for bit := range d.bits() {
		d.flip(t, bit, want)
	}
}
