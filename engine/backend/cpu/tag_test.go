package cpu

import (
	"bytes"
	"errors"
	"flag"
	"testing"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/kernels/reference"
	"github.com/kvwitness/kvwitness/test/trial"
)

// injected is how many tags go wrong in each of the tests that spoil them.
const injected = 10_000

// pageReads is how many page reads must raise no alarm: 10 million take a minute.
var pageReads = flag.Int("page-reads", 100_000, "page reads of TestNoFalseAlarmInManyPageReads")

func TestEverySingleWrongTagIsSeen(t *testing.T) {
	trial.EverySingleWrongTagIsSeen(t, open, reference.BFloat16, injected)
}

func TestEveryWrongTagStopsAWrite(t *testing.T) {
	trial.EveryWrongTagStopsAWrite(t, open, reference.BFloat16, injected)
}

func TestNoFalseAlarmInManyPageReads(t *testing.T) {
	trial.NoFalseAlarm(t, open, reference.BFloat16, *pageReads)
}

// Promise: a tag that changes while the page is read is seen after the read, by
// layer, kv head and page, every time; what was read of it does not count.
func TestATagThatChangesDuringTheReadIsSeen(t *testing.T) {
	p := newPool(t, 40, 16, reference.Float32)
	q := trial.Written(p.Pool, 150)
	type place struct{ layer, head, at int }
	for range injected {
		target := place{1, p.R.IntN(2), p.R.IntN(len(q.Table))}
		if p.R.IntN(4) == 0 {
			target = place{0, p.R.IntN(2), len(q.Table) - 1}
		}
		block := q.Table[target.at]
		keys := p.memory.part(target.layer, reference.PartK, int(block.Page))
		before := bytes.Clone(keys)
		p.reached = func(at point, layer, head, page int) {
			if at == pageRead && layer == target.layer && head == target.head && page == int(block.Page) {
				p.memory.SetWritten(layer, page, block.Tag+1)
			}
		}
		result := &p.Pass(q.Next(1))[0]
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
	q := trial.Written(p.Pool, 150)
	for _, block := range q.Table[:4] {
		for _, part := range []reference.Part{reference.PartK, reference.PartV} {
			page := p.memory.part(1, part, int(block.Page))
			for i := range page {
				page[i] = 0xff
			}
		}
		p.memory.SetWritten(1, int(block.Page), 0)
	}
	result := &p.Pass(q.Next(1))[0]
	if result.Skipped() != 4 {
		t.Fatalf("%d pages skipped", result.Skipped())
	}
	for i, x := range p.pass.Attended[:p.spec.Heads*p.spec.HeadDim] {
		if x != x {
			t.Fatalf("attended number %d is NaN", i)
		}
	}
}

// Promise: all pages wrong is attention to nothing: no NaN, no token, all counted.
func TestEveryPageWrongGivesNoToken(t *testing.T) {
	p := newPool(t, 40, 16, reference.Float32)
	q := trial.Written(p.Pool, 150)
	for i := range q.Table {
		q.Table[i].Tag++
	}
	q.Table[0].Tag = 0
	result := &p.Pass(q.Next(1))[0]
	if _, err := result.Sample(model.NewSampler(1, 1)); !errors.Is(err, backend.ErrPageTag) {
		t.Fatalf("got %v", err)
	}
	if result.Skipped() != len(q.Table) {
		t.Fatalf("%d of %d pages counted", result.Skipped(), len(q.Table))
	}
}

func TestALateAppendWritesNothing(t *testing.T) { trial.ALateAppendWritesNothing(t, open) }

// Promise: while the first row of a page is stored, its tag is neither that of the
// old generation nor that of the new one: a reader of either sees the change.
func TestThePageIsNobodysWhileItsFirstRowIsStored(t *testing.T) {
	p := newPool(t, 4, 16, reference.Float32)
	old := trial.Written(p.Pool, 40)
	p.Release(old.Table)
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
	now := trial.Written(p.Pool, 40)
	if want := len(now.Table) * len(p.spec.Layers); stored != want {
		t.Fatalf("%d first rows, want %d", stored, want)
	}
	for layer := range p.spec.Layers {
		for _, block := range now.Table {
			if got := p.memory.Written(layer, int(block.Page)); got != block.Tag {
				t.Errorf("layer %d, page %d: tag %v, want %v", layer, block.Page, got, block.Tag)
			}
		}
	}
}

// Promise: a transfer may set tags while a pass reads them.
func TestTagsMayBeWrittenDuringAPass(t *testing.T) {
	p := newPool(t, 40, 16, reference.Float32)
	q := trial.Written(p.Pool, 300)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 20_000 {
			block := q.Table[i%10]
			p.memory.SetWritten(1, int(block.Page), block.Tag+backend.Tag(i%2))
		}
	}()
	for running := true; running; {
		result := &p.Pass(q.Next(1))[0]
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
