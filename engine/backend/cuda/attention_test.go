//go:build cuda

package cuda

import (
	"bytes"
	"errors"
	"flag"
	"math"
	"testing"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/kernels/reference"
)

// pageReads is how many page reads must raise no alarm: 10 million take minutes on a
// CPU.
var pageReads = flag.Int("page-reads", 20_000, "page reads of TestNoFalseAlarmInManyPageReads")

// maxError is the relative error that sums in float32 may make over numbers that are
// taken as stored; halfError the one over numbers from before they were rounded to 16
// bits.
const (
	maxError  = 1e-5
	halfError = 1e-2
)

// exactly is attention in float64 for one query head, over keys and values as rows has
// them.
func (r *rig) exactly(layer, token, position, head int, row rowOf) []float64 {
	spec := r.script.spec
	l, kv := spec.Layers[layer], head/(spec.Heads/spec.KVHeads)
	from := 0
	if l.Window > 0 {
		from = max(0, position+1-l.Window)
	}
	top := float64(l.Sinks[head])
	scores := make([]float64, position+1-from)
	for i := range scores {
		for d, k := range row(0, layer, token, from+i, kv) {
			scores[i] += k * float64(r.script.number(2, layer, token, position, head*spec.HeadDim+d))
		}
		scores[i] *= float64(spec.Scale)
		top = math.Max(top, scores[i])
	}
	out, sum := make([]float64, spec.HeadDim), math.Exp(float64(l.Sinks[head])-top)
	for i, s := range scores {
		w := math.Exp(s - top)
		sum += w
		for d, v := range row(1, layer, token, from+i, kv) {
			out[d] += w * v
		}
	}
	for d := range out {
		out[d] /= sum
	}
	return out
}

// relativeError is the largest difference over the largest wanted number; NaN is none
// that is small enough.
func relativeError(got []float32, want []float64) float64 {
	var diff, size float64
	for i := range want {
		diff, size = math.Max(diff, math.Abs(float64(got[i])-want[i])), math.Max(size, math.Abs(want[i]))
	}
	return diff / size
}

// check compares some rows of what was attended with the definition.
func (r *rig) check(t *testing.T, most int) {
	spec := r.script.spec
	r.script.seen = func(layer int, x []float32, positions []int, attended []float32) {
		for range min(most, len(positions)) {
			row, head := r.r.IntN(len(positions)), r.r.IntN(spec.Heads)
			got := attended[(row*spec.Heads+head)*spec.HeadDim:][:spec.HeadDim]
			for _, c := range []struct {
				numbers rowOf
				most    float64
			}{{r.row, maxError}, {r.unrounded, halfError}} {
				if e := relativeError(got, r.exactly(layer, int(x[row]), positions[row], head, c.numbers)); !(e <= c.most) {
					t.Fatalf("relative error %g, at most %g: layer %d, position %d, head %d, %+v, window %d", e, c.most, layer, positions[row], head,
						r.memory.layout, spec.Layers[layer].Window)
				}
			}
		}
	}
}

// Promise: append and attention on the GPU are the reference's, to 1e-5 over numbers as
// they are stored and 1e-2 over those from before they were rounded, for each type, head
// size, group, page size, window, sink, odd length, chunk and neighbour; every row
// that was appended is stored as the reference stores it, and nothing besides.
func TestAppendAndAttentionAgreeWithFloat64(t *testing.T) {
	r := random(t)
	for round := range 12 {
		kvHeads, pageTokens := 1+r.IntN(3), 16+r.IntN(113)
		s := newScript(r, kvHeads*(1+r.IntN(10)), kvHeads, 64*(1+round%2), 2)
		for l := range s.spec.Layers {
			if r.IntN(2) == 0 {
				s.spec.Layers[l].Window = 1 + r.IntN(100)
			}
			for h := range s.spec.Layers[l].Sinks {
				if r.IntN(2) == 0 {
					s.spec.Layers[l].Sinks[h] = float32(r.NormFloat64())
				}
			}
		}
		pages := 300/pageTokens + 1
		g := newRig(t, s, r, Config{Pages: 3 * pages, PageTokens: pageTokens, DType: reference.DType(round % 3)})
		g.check(t, 3)
		var done [3]int
		for range 4 {
			var batch []backend.Sequence
			for i := range done {
				n := 1 + r.IntN(60)
				batch = append(batch, backend.Sequence{Tokens: tokens(i+1, n), Start: done[i], Table: table(i*pages, pages), Logits: true})
				done[i] += n
			}
			for i, result := range g.forward(t, batch...) {
				if f, bad := result.Fault(); bad {
					t.Fatalf("sequence %d: %+v", i, f)
				}
			}
		}
		g.checkPages(t, pages, done[:])
	}
}

// checkPages compares every byte of the pages with what the reference would store.
func (r *rig) checkPages(t *testing.T, pages int, done []int) {
	l := r.memory.layout
	for i := range r.memory.regions {
		region := &r.memory.regions[i]
		want := bytes.Repeat([]byte{0xff}, region.Length)
		for sequence, n := range done {
			for position := range n {
				numbers := make([]float32, l.KVHeads*l.HeadDim)
				for j := range numbers {
					numbers[j] = r.script.number(int(region.Part-reference.PartK), region.Layer, sequence+1, position, j)
				}
				page := (sequence*pages + position/l.PageTokens) * region.Stride
				l.Append(want[page:page+region.PageBytes], position%l.PageTokens, numbers)
			}
		}
		if !bytes.Equal(region.Bytes, want) {
			t.Fatalf("layer %d %v is not what the reference stores", region.Layer, region.Part)
		}
	}
}

// Promise: a context of one token, and the longest with the largest block table, are
// right too, the latter split over many blocks.
func TestTheShortestAndTheLongestContext(t *testing.T) {
	r := random(t)
	for _, length := range []int{1, model.MaxContext} {
		s := newScript(r, 4, 1, 64, 1)
		s.spec.MaxContext = model.MaxContext
		g := newRig(t, s, r, Config{Pages: 2, PageTokens: 16, DType: reference.BFloat16})
		g.device.processors = 132
		// All blocks but the last are one page: its rows are those of positions 0 to 15.
		first := table(0, 1)
		g.forward(t, backend.Sequence{Tokens: tokens(1, 16), Table: first})
		long := make([]backend.Block, (length-1)/16)
		for i := range long {
			long[i] = first[0]
		}
		long = append(long, table(1, 1)...)
		start := length - 1 - (length-1)%16
		if length > 1 {
			g.forward(t, backend.Sequence{Tokens: tokens(1, 15), Start: start, Table: long})
		}
		seen := false
		s.seen = func(_ int, _ []float32, _ []int, attended []float32) {
			seen = true
			for head := range s.spec.Heads {
				g.compareRepeated(t, attended[head*64:][:64], head, length)
			}
		}
		if f, bad := g.forward(t, backend.Sequence{Tokens: tokens(1, 1), Start: length - 1, Table: long, Logits: true})[0].Fault(); bad {
			t.Fatalf("%+v", f)
		}
		if !seen {
			t.Fatal("nothing was attended to")
		}
	}
}

// compareRepeated is the definition where each 16 positions repeat the first, but for
// the last 16.
func (r *rig) compareRepeated(t *testing.T, got []float32, head, length int) {
	spec := r.script.spec
	type term struct {
		score, times float64
		value        []float64
	}
	var terms []term
	add := func(position int, times float64) {
		s := 0.0
		for d, k := range r.row(0, 0, 1, position, 0) {
			s += k * float64(r.script.number(2, 0, 1, length-1, head*64+d))
		}
		terms = append(terms, term{s * float64(spec.Scale), times, r.row(1, 0, 1, position, 0)})
	}
	repeats := (length - 1) / 16
	for i := range min(16, repeats*16) {
		add(i, float64(repeats))
	}
	for p := repeats * 16; p < length; p++ {
		add(p, 1)
	}
	out, sum, size, diff := make([]float64, 64), 0.0, 0.0, 0.0
	for _, x := range terms {
		w := x.times * math.Exp(x.score)
		sum += w
		for d := range out {
			out[d] += w * x.value[d]
		}
	}
	for d := range out {
		size, diff = math.Max(size, math.Abs(out[d]/sum)), math.Max(diff, math.Abs(out[d]/sum-float64(got[d])))
	}
	if !(diff <= maxError*size) {
		t.Fatalf("%d tokens, head %d: relative error %g", length, head, diff/size)
	}
}

// Promise: what is attended to without any page that holds is zero, not 0/0, and NaN
// in a page that is skipped reaches nothing.
func TestSkippedPagesReachNothing(t *testing.T) {
	r := random(t)
	s := newScript(r, 3, 1, 64, 1)
	g := newRig(t, s, r, Config{Pages: 8, PageTokens: 16, DType: reference.Float32})
	pages := table(0, 3)
	g.forward(t, backend.Sequence{Tokens: tokens(1, 40), Table: pages})
	for i := range pages {
		g.memory.SetWritten(0, int(pages[i].Page), 0)
		for part := range 2 {
			fill(g.memory.regions[part].Page(int(pages[i].Page)), 0xff)
		}
	}
	s.seen = func(_ int, _ []float32, _ []int, attended []float32) {
		for i, x := range attended {
			if x != 0 {
				t.Errorf("attended number %d is %g", i, x)
			}
		}
	}
	result := &g.forward(t, backend.Sequence{Tokens: tokens(1, 1), Start: 40, Table: pages, Logits: true})[0]
	if _, bad := result.Fault(); !bad || result.Skipped() != 3 {
		t.Fatalf("%d pages skipped", result.Skipped())
	}
}

// Promise: a sequence of no tokens is refused, and a batch, a scrub or a digest of
// nothing does nothing.
func TestNothingToComputeIsRefusedOrDoesNothing(t *testing.T) {
	r := random(t)
	g := newRig(t, newScript(r, 2, 1, 64, 1), r, Config{Pages: 4, PageTokens: 16, DType: reference.BFloat16})
	before := bytes.Clone(g.memory.regions[0].Bytes)
	good := backend.Sequence{Tokens: tokens(1, 3), Table: table(0, 1)}
	if err := g.Forward([]backend.Sequence{good, {Table: table(1, 1)}}, make([]backend.Result, 2)); !errors.Is(err, backend.ErrBatch) {
		t.Errorf("a sequence of no tokens: %v", err)
	}
	digest, err := g.Digest([2]uint64{1, 2}, nil, 0, 1)
	if err = errors.Join(err, g.Forward(nil, nil), g.Scrub()); err != nil || digest != 0 {
		t.Errorf("digest %x, %v", digest, err)
	}
	if !bytes.Equal(g.memory.regions[0].Bytes, before) {
		t.Error("something was written")
	}
}

// Promise: no page read raises a false alarm.
func TestNoFalseAlarmInManyPageReads(t *testing.T) {
	r := random(t)
	s := newScript(r, 1, 1, 64, 1)
	g := newRig(t, s, r, Config{Pages: 64, PageTokens: 16, DType: reference.BFloat16})
	sequence := backend.Sequence{Tokens: tokens(1, 64*16), Table: table(0, 64)}
	g.forward(t, sequence)
	sequence.Tokens, sequence.Start, sequence.Logits = sequence.Tokens[:1], 64*16-1, true
	batch, results := make([]backend.Sequence, 64), make([]backend.Result, 64)
	for i := range batch {
		batch[i] = sequence
	}
	for read := 0; read < *pageReads; read += 64 * 64 {
		if err := g.Forward(batch, results); err != nil {
			t.Fatal(err)
		}
		for i := range results {
			if f, bad := results[i].Fault(); bad {
				t.Fatalf("after %d page reads: %+v", read, f)
			}
		}
	}
}
