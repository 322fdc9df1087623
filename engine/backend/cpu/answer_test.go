package cpu

import (
	"slices"
	"testing"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/kernels/reference"
	"github.com/kvwitness/kvwitness/test/trial"
)

func TestEveryAnswerIsTheOracles(t *testing.T) {
	trial.EveryAnswerIsTheOracles(t, open, 6, reference.Float32, reference.BFloat16)
}

// Promise: positions hold to the end of the longest context, even as bfloat16:
// there the beginning is found, a place 64k tokens from both ends, and the first of
// two places.
func TestLongContextFindsEveryPlace(t *testing.T) {
	const length = model.MaxContext - 128
	p := newPool(t, model.MaxContext/128+8, 128, reference.BFloat16)
	text := model.Encode([]byte("key one is swordfish. "))
	digits := func(until int) {
		for len(text) < until {
			text = append(text, model.Token('0'+p.R.IntN(10)))
		}
	}
	digits(length / 2)
	text = append(text, model.Encode([]byte("key two is mackerel. key two is tuna. "))...)
	digits(length)
	prefix := &trial.Request{Text: text, Table: p.HandOut(length, 0)}
	for prefix.Done < length {
		s := prefix.Next(4096)
		s.Logits = false
		prefix.Take(t, s, &p.Pass(s)[0])
	}
	for question, want := range map[string]string{"key one is": " swordfish. ", "key two is": " mackerel. "} {
		q := trial.NewRequest(append(slices.Clone(text), model.Encode([]byte(question))...), len(want))
		q.Done = length
		q.Table = append(slices.Clone(prefix.Table), p.HandOut(len(question)+len(want), 0)...)
		p.Run(q, 128)
		if got := string(model.Decode(q.Answer())); got != want {
			t.Fatalf("%q is answered %q", question, got)
		}
	}
}

// Promise: a shared prefix serves several readers of its domain from one copy.
func TestSharedPrefixServesSeveralReaders(t *testing.T) {
	p := newPool(t, 40, 16, reference.Float32)
	prefix := p.Text(64)
	first := trial.NewRequest(append(slices.Clone(prefix), p.Text(10)...), 20)
	first.Table = p.HandOut(first.Prompt+first.Limit, 9)
	p.Run(first, 100)
	for range 3 {
		q := trial.NewRequest(append(slices.Clone(prefix), p.Text(10)...), 20)
		shared := slices.Clone(first.Table[:4])
		q.Table, q.Done = append(shared, p.HandOut(q.Prompt+q.Limit-64, 9)...), 64
		p.Run(q, 100)
		want, _ := model.ExpectTokens(q.Text[:q.Prompt], q.Limit)
		if !slices.Equal(q.Answer(), want) {
			t.Fatalf("answer %v, want %v", q.Answer(), want)
		}
	}
}

// Promise: at steady state a forward pass allocates nothing.
func TestForwardAllocatesNothing(t *testing.T) {
	p := newPool(t, 16, 64, reference.BFloat16)
	q := trial.NewRequest(p.Text(300), 1)
	q.Table = p.HandOut(q.Prompt+q.Limit, 0)
	batch, results := []backend.Sequence{q.Next(300)}, make([]backend.Result, 1)
	if n := testing.AllocsPerRun(5, func() {
		if err := p.Forward(batch, results); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}
