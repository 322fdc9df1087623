package cpu

import (
	"bytes"
	"errors"
	"testing"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/kernels/reference"
)

// Promise: a batch with anything wrong in any sequence is refused whole, with
// ErrBatch, before a byte of the pool changes.
func TestABadBatchIsRefusedWhole(t *testing.T) {
	p := newPool(t, 8, 16, reference.Float32)
	table := p.HandOut(40, 0)
	good := backend.Sequence{Tokens: p.Text(20), Table: table}
	before := p.Contents()
	for name, change := range map[string]func(*backend.Sequence){
		"no token":              func(s *backend.Sequence) { s.Tokens = nil },
		"unknown token":         func(s *backend.Sequence) { s.Tokens = []model.Token{model.Vocab} },
		"negative token":        func(s *backend.Sequence) { s.Tokens = []model.Token{-1} },
		"negative position":     func(s *backend.Sequence) { s.Start = -1 },
		"table too short":       func(s *backend.Sequence) { s.Start = 29 },
		"no table":              func(s *backend.Sequence) { s.Table = nil },
		"page outside the pool": func(s *backend.Sequence) { s.Table = []backend.Block{{Page: 8}, {}, {}} },
		"negative page":         func(s *backend.Sequence) { s.Table = []backend.Block{{Page: -1}, {}, {}} },
		"beyond the context": func(s *backend.Sequence) {
			s.Start, s.Table = model.MaxContext, make([]backend.Block, model.MaxContext/16+2)
		},
		"far beyond the context": func(s *backend.Sequence) { s.Start = int(^uint(0) >> 1) },
	} {
		bad := good
		change(&bad)
		err := p.Forward([]backend.Sequence{good, bad}, make([]backend.Result, 2))
		if !errors.Is(err, backend.ErrBatch) {
			t.Errorf("%s: %v", name, err)
		}
		if !bytes.Equal(p.Contents(), before) {
			t.Errorf("%s: the pool changed", name)
		}
	}
	if err := p.Forward([]backend.Sequence{good}, nil); !errors.Is(err, backend.ErrBatch) {
		t.Errorf("no results: %v", err)
	}
	if err := p.Forward(make([]backend.Sequence, backend.MaxBatchSequences+1), make([]backend.Result, backend.MaxBatchSequences+1)); !errors.Is(err, backend.ErrBatch) {
		t.Errorf("too many sequences: %v", err)
	}
	if err := p.Forward(nil, nil); err != nil {
		t.Errorf("an empty batch: %v", err)
	}
}

// Promise: logits are there when they were asked for, and only then.
func TestLogitsOnlyWhenAskedFor(t *testing.T) {
	p := newPool(t, 8, 16, reference.Float32)
	s := backend.Sequence{Tokens: p.Text(20), Table: p.HandOut(40, 0)}
	results := p.Pass(s)
	if _, err := results[0].Logits(); !errors.Is(err, backend.ErrNoLogits) {
		t.Fatalf("not asked for: %v", err)
	}
	s.Logits = true
	if err := p.Forward([]backend.Sequence{s}, results); err != nil {
		t.Fatal(err)
	}
	if got, err := results[0].Logits(); err != nil || len(got) != model.Vocab {
		t.Fatalf("asked for: %d, %v", len(got), err)
	}
}

// Promise: a pool outside the bounds is refused with a named error.
func TestPoolBounds(t *testing.T) {
	for _, c := range []struct {
		config Config
		want   error
	}{
		{Config{Pages: 0, PageTokens: 64}, backend.ErrPage},
		{Config{Pages: MaxPages + 1, PageTokens: 64}, backend.ErrPage},
		{Config{Pages: 1, PageTokens: 8}, reference.ErrLayout},
		{Config{Pages: 1, PageTokens: 64, DType: 9}, reference.ErrLayout},
	} {
		if _, err := New(model.NewInduction(), c.config); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v", c.config, err)
		}
	}
}

// Promise: whatever batch it is given, a pass refuses it or computes it; it writes
// only into pages of the batch's tables.
func FuzzForwardStaysWithinItsTables(f *testing.F) {
	f.Add([]byte("hello hello"), 0, int32(1), int32(2), uint64(1), true)
	f.Add([]byte("hello"), 14, int32(2), int32(2), uint64(0), false)
	f.Add([]byte("x"), -3, int32(9), int32(-1), uint64(1)<<40, true)
	f.Fuzz(func(t *testing.T, text []byte, start int, first, second int32, tag uint64, unchecked bool) {
		p := newPool(t, 4, 16, reference.BFloat16)
		before := p.Contents()
		batch := []backend.Sequence{{
			Tokens: model.Encode(text), Start: start, Logits: true, Unchecked: unchecked,
			Table: []backend.Block{{Page: first, Tag: backend.Tag(tag)}, {Page: second, Tag: backend.Tag(tag)}},
		}}
		results := make([]backend.Result, 1)
		if err := p.Forward(batch, results); err != nil {
			if !errors.Is(err, backend.ErrBatch) || !bytes.Equal(p.Contents(), before) {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		for page := range 4 {
			if int32(page) == first || int32(page) == second {
				continue
			}
			for i := range p.memory.regions {
				if !bytes.Equal(p.memory.regions[i].Page(page), make([]byte, p.memory.regions[i].PageBytes)) {
					t.Fatalf("page %d changed", page)
				}
			}
		}
	})
}
